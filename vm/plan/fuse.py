"""Fusing elementwise work: producers move into the nests that read them, copies into what they copy.

`merge_nests` walks each region once in program order. A nest takes in the producers of its inputs, which then run at its own
place; a temporary that nobody reads any more disappears. `merge_epilogues` moves bias and activation into products.
"""

from __future__ import annotations

from .graph import ZERO, Graph, Node, Way, input_key
from .policy import ShapePolicy
from .steps import (
    ITEM_BYTES,
    Buffer,
    Contract,
    ForStep,
    IfStep,
    Literal,
    Nest,
    NestInput,
    NestOp,
    NestOut,
    Plan,
    ScalarReg,
    Step,
    View,
    WhileStep,
    walk,
)
from .usage import Region, Usage, accesses

MAX_OPS = 24  # one block of every value in flight stays in the first-level cache
MAX_INPUTS = 12
_CHEAP = frozenset((
    "mov", "add", "sub", "mul", "neg", "abs", "maximum", "minimum", "square", "eq", "ne", "lt", "le", "gt", "ge", "not",
    "and", "or", "xor", "invert", "shl", "shr", "isnan", "isinf", "isfinite", "signbit", "select", "cast", "copysign",
    "fmax", "fmin",
))


def drop_dead(plan: Plan, policy: ShapePolicy) -> str:
    """Remove steps whose results nobody reads, unless they may trap."""
    reads: dict[Buffer, int] = {}
    for step in walk(plan.steps):
        for view in accesses(step)[0]:
            reads[view.buffer] = reads.get(view.buffer, 0) + 1
    return f"{_drop_dead(plan.steps, reads)} steps"


def _drop_dead(steps: list[Step], reads: dict[Buffer, int]) -> int:
    dropped = 0
    for at in range(len(steps) - 1, -1, -1):
        step = steps[at]
        if isinstance(step, Nest):
            outs = [out for out in step.outs if out.indexes or out.view.buffer.kind != "temp" or reads.get(out.view.buffer)]
            if outs or any(op.indexes for op in step.ops):
                if outs:
                    step.outs = outs
                continue
        elif isinstance(step, Contract):
            if step.out.buffer.kind != "temp" or reads.get(step.out.buffer):
                continue
        else:
            if isinstance(step, (ForStep, WhileStep)):
                dropped += _drop_dead(step.body, reads)
            elif isinstance(step, IfStep):
                dropped += _drop_dead(step.orelse, reads) + _drop_dead(step.then, reads)
            continue
        for view in accesses(step)[0]:
            reads[view.buffer] -= 1
        del steps[at]
        dropped += 1
    return dropped


def merge_nests(plan: Plan, policy: ShapePolicy) -> str:
    """Merge nests that exchange values point by point."""
    usage = Usage(plan)
    merger = _Merger(usage, policy)
    for region in usage.regions:
        merger.region(region)
    for name, count, what in (("chain", merger.n_chains, "elementwise steps merged"),
                              ("reduce_epilogue", merger.n_reductions, "steps merged into reductions"),
                              ("chain", merger.n_copies, "copies forwarded")):
        if count:
            policy.note(name, f"{count} {what}")
    return f"{merger.n_chains + merger.n_reductions} merged, {merger.n_copies} copies forwarded"


class _Merger:
    def __init__(self, usage: Usage, policy: ShapePolicy) -> None:
        self.usage = usage
        self.chain = policy.allows("chain")
        self.reduces = policy.allows("reduce_epilogue")
        self.n_chains = self.n_reductions = self.n_copies = 0

    def region(self, region: Region) -> None:
        """Merge within one list of steps, in place."""
        self.here = region
        self.graphs: dict[int, Graph] = {}
        self.made_at: dict[Buffer, int] = {}  # where a buffer that is written once gets its contents
        steps = region.steps
        gone: set[int] = set()
        self.gone = gone
        for at, step in enumerate(steps):
            if isinstance(step, Nest):
                self.graphs[at] = graph = Graph.of(step)
                self._consume(at)
                if at not in self.graphs:
                    continue
                graph = self.graphs[at]
                if self.reduces and any(way.out.reduce != "store" for way in graph.outs):
                    self._join_reductions(at, graph)
                if at not in gone:
                    for way in graph.outs:
                        self._note_made(way.out.view, at)
            elif isinstance(step, Contract):
                self._note_made(step.out, at)
        self._write_back(steps)

    def _note_made(self, view: View, at: int) -> None:
        if self.usage.is_written_once(view.buffer):
            self.made_at[view.buffer] = at

    def _write_back(self, steps: list[Step]) -> None:
        out: list[Step] = []
        for at, step in enumerate(steps):
            if at in self.gone:
                continue
            graph = self.graphs.get(at)
            if graph is not None:
                out.append(graph.close(out))
            else:
                out.append(step)
        steps[:] = out

    # --- consuming producers ----------------------------------------------------------------------------------------

    def _consume(self, at: int) -> None:
        """Take in producers of the inputs until nothing more fits."""
        tried: set[object] = set()
        progress = True
        while progress:
            progress = False
            graph = self.graphs[at]
            for key, node in list(graph.inputs.items()):
                view = node.item.view
                if view is None or key in tried or node.alias is not None:
                    continue
                source = self.made_at.get(view.buffer, -1)
                if source < 0 or source in self.gone:
                    continue
                tried.add(key)
                if source in self.graphs:
                    if self._take(source, at, node, key):
                        progress = True
                        break
                elif self.chain and forward_product(self.usage, self.here, source, at, graph):
                    del self.graphs[at]
                    self.gone.add(source)
                    self._note_made(self.here.steps[at].out, at)  # type: ignore[union-attr]
                    self.n_copies += 1
                    return

    def _take(self, source: int, at: int, node: Node, key: object) -> bool:
        """Take the producer at `source` into the nest at `at`, for one of its inputs."""
        producer, graph, region = self.graphs[source], self.graphs[at], self.here
        view = node.item.view
        assert view is not None
        buffer = view.buffer
        way = next(w for w in producer.outs if w.out.view.buffer is buffer)
        is_reducing = any(w.out.reduce != "store" for w in graph.outs) or any(
            w.out.reduce != "store" for w in producer.outs)
        is_copy = graph.n_ops == 0 and len(graph.outs) == 1 and graph.outs[0].out.reduce == "store"
        if not (self.reduces if is_reducing else self.chain):
            return False
        if way.out.indexes or way.mask is not None:
            return False
        if way.out.reduce != "store":
            return is_copy and self._forward_reduction(source, at, view)
        if way.out.view.dtype != view.dtype or not self._loads_back(way, node):
            return False
        axes = match_axes(way.out.view, producer.axes, view, graph.axes)
        if axes is None:
            if _is_uniform(producer, way.node):
                axes = (-1,) * len(producer.axes)
            else:
                return False
        is_same_space = axes == _identity(len(axes)) and len(axes) == len(graph.axes)
        covers = is_same_space or _covers(axes, graph.axes)
        n_inputs = len(producer.inputs) + len(graph.inputs) - 1
        if producer.n_ops + graph.n_ops > MAX_OPS or n_inputs > MAX_INPUTS:
            return False
        readers = region.reads.get(buffer, set())
        is_last = (len(readers) == 1 and self.usage.is_local(buffer, region)
                   and not any(k != key and n.item.view is not None and n.item.view.buffer is buffer
                               for k, n in graph.inputs.items()) and not self._gathers(graph, buffer))
        if not self._may_move(producer, source, at, graph, is_same_space):
            return False
        if is_last and len(producer.outs) == 1 and covers:
            self._steal(source, at, key, way.node, None if is_same_space else axes)
            self._count(is_reducing, is_copy)
            return True
        if self._is_cheap(producer, way.node, covers):
            self._copy(source, at, key, way.node, None if is_same_space else axes, buffer)
            self._count(is_reducing, False)
            return True
        if is_same_space and self._may_keep(producer, source, at, graph):
            self._join(source, at, key, way.node)
            self._count(is_reducing, False)
            return True
        return False

    def _count(self, is_reducing: bool, is_copy: bool) -> None:
        if is_copy:
            self.n_copies += 1
        elif is_reducing:
            self.n_reductions += 1
        else:
            self.n_chains += 1

    @staticmethod
    def _loads_back(way: Way, node: Node) -> bool:
        """Whether storing a value and loading it again gives the value itself: no rounding or wrapping in memory."""
        made = way.node.real().item
        memory = way.out.view.dtype
        is_same_memory = isinstance(made, NestInput) and made.view is not None and made.view.dtype == memory
        return made.dtype == node.item.dtype and (memory == made.dtype or is_same_memory)

    def _gathers(self, graph: Graph, buffer: Buffer) -> bool:
        return graph.traps and any(isinstance(n.item, NestOp) and n.item.view is not None and n.item.view.buffer is buffer
                                   for n in graph.live_nodes())

    def _is_cheap(self, producer: Graph, root: Node, covers: bool) -> bool:
        """Whether computing the value again costs no more than a load or two. Into a larger space (not `covers`) only
        loads and casts go."""
        if producer.traps:
            return False
        n_ops = n_loads = 0
        stack, seen = [root.real()], set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            item = node.item
            if isinstance(item, NestOp):
                n_ops += 1
                if item.op not in _CHEAP or n_ops > 3 or (not covers and item.op != "cast"):
                    return False
                stack.extend(arg.real() for arg in node.args)
            elif item.view is not None and any(s.terms or s.const for s in item.view.strides):
                n_loads += 1
        return n_loads <= 2

    def _may_move(self, producer: Graph, source: int, at: int, graph: Graph, is_same_space: bool) -> bool:
        """Whether the producer's reads may happen at `at`, inside a nest that writes graph.outs."""
        region = self.here
        for view in producer.views():
            if view.buffer.constant:
                continue
            if region.is_written_between(view.buffer, source, at):
                return False
            for way in graph.outs:
                if way.out.view.buffer is view.buffer and (
                        producer.traps or not is_same_space or not self._is_in_place(producer, graph, way.out)):
                    return False
        if region.sets and any(source < p < at for p in region.sets):
            return False
        return not (producer.traps and (any(source < p < at for p in region.barriers)
                                        or any(source < p <= at for p in region.arg_writes)))

    @staticmethod
    def _is_in_place(producer: Graph, graph: Graph, out: NestOut) -> bool:
        """Whether every read of the written buffer is equal to the write, element for element."""
        if out.reduce != "store" or out.indexes:
            return False
        item = ITEM_BYTES[out.view.dtype]
        for source in (producer, graph):
            for node in source.inputs.values():
                view = node.item.view
                if view is not None and view.buffer is out.view.buffer and (
                        view.offset is not out.view.offset or view.strides != out.view.strides
                        or ITEM_BYTES[view.dtype] != item):
                    return False
        return True

    def _may_keep(self, producer: Graph, source: int, at: int, graph: Graph) -> bool:
        """Whether the producer's own outputs may be written at `at`, together with the nest there."""
        region = self.here
        if producer.traps and any(w.out.view.buffer.kind == "arg" for w in graph.outs):
            return False
        written = [w.out.view.buffer for w in graph.outs]
        for way in producer.outs:
            out = way.out
            buffer = out.view.buffer
            if region.is_read_between(buffer, source, at) or region.is_written_between(buffer, source, at):
                return False
            if buffer in written or self._gathers(graph, buffer):
                return False
            if buffer.kind != "temp" and any(source < p < at for p in region.barriers):
                return False
            for node in graph.inputs.values():
                view = node.item.view
                if view is not None and view.buffer is buffer and (
                        out.reduce != "store" or out.indexes or way.mask is not None
                        or view.offset is not out.view.offset or view.strides != out.view.strides
                        or view.dtype != out.view.dtype or not self._loads_back(way, node)):
                    return False
        return True

    # --- the ways of merging ----------------------------------------------------------------------------------------

    def _steal(self, source: int, at: int, key: object, root: Node, axes: tuple[int, ...] | None) -> None:
        """The producer disappears into the nest at `at`."""
        producer, graph = self.graphs.pop(source), self.graphs[at]
        views = producer.views()
        if axes is None:
            producer.take(graph)
            graph_inputs = producer.inputs
            graph.inputs = graph_inputs
            graph.n_ops, graph.traps = producer.n_ops, producer.traps
            graph.replace_input(key, root.real())
        else:
            new = graph.copied(producer, root, axes)
            graph.replace_input(key, new)
        self.gone.add(source)
        self.here.move_accesses([view.buffer for view in views], [], source, at)
        self._forget_reads(graph, at)
        for way in producer.outs:
            self.here.writes.pop(way.out.view.buffer, None)
            self.here.reads.pop(way.out.view.buffer, None)

    def _copy(self, source: int, at: int, key: object, root: Node, axes: tuple[int, ...] | None, buffer: Buffer) -> None:
        """The nest at `at` computes the value again; the producer disappears when nobody else reads it."""
        producer, graph = self.graphs[source], self.graphs[at]
        new = graph.copied(producer, root, axes)
        graph.replace_input(key, new)
        for view in producer.views():
            self.here.reads.setdefault(view.buffer, set()).add(at)
        self._forget_reads(graph, at, buffer)
        if not self.here.reads.get(buffer) and len(producer.outs) == 1 and self.usage.is_local(buffer, self.here):
            for view in producer.views():
                self.here.reads[view.buffer].discard(source)
            self.gone.add(source)
            del self.graphs[source]

    def _join(self, source: int, at: int, key: object, root: Node) -> None:
        """One nest for both; the producer's value is stored as well."""
        producer, graph = self.graphs.pop(source), self.graphs[at]
        views = producer.views()
        graph.take(producer)
        graph.replace_input(key, root.real())
        for other, node in list(graph.inputs.items()):  # the same value, read through another native dtype, stays a read
            view = node.item.view
            if view is not None and node.alias is None:
                for way in producer.outs:
                    if way.out.view.buffer is view.buffer:
                        graph.replace_input(other, way.node.real())
        graph.outs = producer.outs + graph.outs
        self.gone.add(source)
        outs = [way.out.view.buffer for way in producer.outs]
        self.here.move_accesses([view.buffer for view in views], outs, source, at)
        self._forget_reads(graph, at)
        for buffer in outs:
            if buffer in self.made_at:
                self.made_at[buffer] = at

    def _forget_reads(self, graph: Graph, at: int, *maybe: Buffer) -> None:
        """Drop the note that the nest reads what it now computes itself."""
        still = {view.buffer for view in graph.views()}
        for buffer in maybe or [b for b, places in self.here.reads.items() if at in places]:
            if buffer not in still:
                self.here.reads[buffer].discard(at)

    def _join_reductions(self, at: int, graph: Graph) -> None:
        """Put a reduction beside an earlier one over the same space that reads the same array."""
        region = self.here
        views = [node.item.view for node in graph.inputs.values() if node.item.view is not None]
        if graph.traps or not views or any(way.out.indexes for way in graph.outs):
            return
        ready = -1
        for view in views:
            buffer = view.buffer
            if buffer.kind == "arg" and buffer not in region.writes:
                continue
            made = self.made_at.get(buffer, -1)
            if made < 0:
                if buffer in region.writes:
                    return
                continue
            ready = max(ready, made)
        for source in sorted(self.graphs, reverse=True):
            if source >= at:
                continue
            if source < ready:
                return
            other = self.graphs[source]
            if (source == ready and any(way.out.view.buffer is view.buffer for way in other.outs for view in views)):
                return
            if other.axes != graph.axes or other.traps or all(way.out.reduce == "store" for way in other.outs):
                continue
            if not other.inputs.keys() & {k for k, n in graph.inputs.items() if n.item.view is not None}:
                continue
            if other.n_ops + graph.n_ops > MAX_OPS or len(other.inputs) + len(graph.inputs) > MAX_INPUTS:
                continue
            if region.sets and any(source < p < at for p in region.sets):
                return
            outs = [way.out.view.buffer for way in graph.outs]
            if any(not self.usage.is_written_once(b) or b in (v.buffer for v in other.views()) or b.kind != "temp"
                   or any(p < at for p in region.reads.get(b, ())) for b in outs):
                return
            if any(isinstance(node.item.operand, ScalarReg) or (node.item.operand is not None and not isinstance(
                    node.item.operand, Literal) and not node.item.operand.is_entry) for node in graph.inputs.values()):
                return  # a scalar may be made between the two
            other.take(graph)
            other.outs = other.outs + graph.outs
            self.gone.add(at)
            del self.graphs[at]
            region.move_accesses([view.buffer for view in views], outs, at, source)
            for buffer in outs:
                self.made_at[buffer] = source
            self.n_reductions += 1
            return

    # --- copies -----------------------------------------------------------------------------------------------------

    def _forward_reduction(self, source: int, at: int, view: View) -> bool:
        """A reduction whose output is only copied reduces into the copy's destination."""
        producer, graph, region = self.graphs[source], self.graphs[at], self.here
        out = _plain_copy(graph)
        if out is None or len(producer.outs) != 1:
            return False
        (way,) = producer.outs
        buffer = view.buffer
        if (len(region.reads.get(buffer, ())) != 1 or not self.usage.is_local(buffer, region)
                or out.view.dtype != view.dtype or way.out.view.dtype != view.dtype):
            return False
        axes = match_axes(way.out.view, producer.axes, view, graph.axes, way.out.reduced)
        if axes is None or not _covers(axes, graph.axes):
            return False
        if any(v.buffer is out.view.buffer for v in producer.views()) or not self._may_move(
                producer, source, at, graph, False):
            return False
        target = View(out.view.buffer, out.view.dtype, producer.axes,
                      tuple(out.view.strides[axis] if axis >= 0 else ZERO for axis in axes), out.view.offset)
        way.out = NestOut(way.out.slot, way.out.reduce, target, way.out.reduced)
        self.graphs[at] = producer
        del self.graphs[source]
        self.gone.add(source)
        region.move_accesses([v.buffer for v in producer.views()], [], source, at)
        region.reads.pop(buffer, None)
        region.writes.pop(buffer, None)
        self.n_copies += 1
        return True


def _identity(n: int) -> tuple[int, ...]:
    return tuple(range(n))


def _plain_copy(graph: Graph) -> NestOut | None:
    """The store of a nest that only copies one view, elements unchanged."""
    if len(graph.outs) != 1 or len(graph.inputs) != 1:
        return None
    way = graph.outs[0]
    item = way.node.real().item
    if way.out.reduce != "store" or way.mask is not None or way.out.indexes or isinstance(item, NestOp) or item.view is None:
        return None
    return way.out


def _is_uniform(producer: Graph, root: Node) -> bool:
    """Whether a value is one scalar at every point (np.zeros, np.full)."""
    item = root.real().item
    return not isinstance(item, NestOp) and item.kind == "scalar"


def _covers(axes: tuple[int, ...], space: tuple) -> bool:
    """Whether the consumer's axes that the producer lacks have one element."""
    return all(i in axes or extent.value == 1 for i, extent in enumerate(space))


def match_axes(made: View, made_axes: tuple, read: View, read_axes: tuple, skip: int = 0) -> tuple[int, ...] | None:
    """For each axis of the space that wrote `made`, the axis of the reading space that it is (-1: extent 1, or in the mask
    `skip`), when `read` sees each element at the point that wrote it; None when it does not."""
    if made.offset is not read.offset:
        return None
    strides = read.strides
    if made_axes == read_axes and made.strides == strides and not skip:
        return tuple(range(len(made_axes)))
    found = []
    for axis, (extent, stride) in enumerate(zip(made_axes, made.strides, strict=True)):
        if skip >> axis & 1 or extent.value == 1:
            found.append(-1)
            continue
        for other, size in enumerate(read_axes):
            if strides[other] is stride and size is extent and other not in found:
                found.append(other)
                break
        else:
            return None
    for other, stride in enumerate(strides):
        if other not in found and (stride.terms or stride.const) and read_axes[other].value != 1:
            return None
    return tuple(found)


def forward_product(usage: Usage, region: Region, source: int, at: int, graph: Graph) -> bool:
    """Whether the product at `source`, whose output the nest at `at` alone reads and only copies, now stands at `at` and
    writes the copy's destination itself."""
    product = region.steps[source]
    out = _plain_copy(graph)
    if out is None or not isinstance(product, Contract):
        return False
    (node,) = graph.inputs.values()
    view = node.item.view
    assert view is not None
    buffer = product.out.buffer
    if (len(region.reads.get(buffer, ())) != 1 or not usage.is_local(buffer, region)
            or out.view.dtype != product.out.dtype or view.dtype != product.out.dtype):
        return False
    axes = match_axes(product.out, product.out.shape, view, graph.axes)
    if axes is None or not _covers(axes, graph.axes):
        return False
    operands = [v for v in (product.a, product.b, product.bias) if v is not None]
    if any(v.buffer is out.view.buffer or region.is_written_between(v.buffer, source, at) for v in operands):
        return False
    if region.sets and any(source < p < at for p in region.sets):
        return False
    strides = tuple(out.view.strides[axis] if axis >= 0 else ZERO for axis in axes)
    product.out = View(out.view.buffer, out.view.dtype, product.out.shape, strides, out.view.offset)
    region.steps[at] = product
    region.move_accesses([v.buffer for v in operands], [], source, at)
    region.reads.pop(buffer, None)
    region.writes.pop(buffer, None)
    return True


# --- epilogues of products ----------------------------------------------------------------------------------------------


def merge_epilogues(plan: Plan, policy: ShapePolicy) -> str:
    """Move bias and relu from the nest that alone reads a product into the product."""
    usage = Usage(plan)
    count = 0
    for region in usage.regions:
        gone: list[int] = []
        makers: dict[Buffer, int] = {}
        for at, step in enumerate(region.steps):
            if isinstance(step, Contract):
                makers[step.out.buffer] = at
            elif isinstance(step, Nest) and makers:
                for item in step.inputs:
                    source = makers.get(item.view.buffer, -1) if item.view is not None else -1
                    if source >= 0 and item.view is not None:
                        graph = _epilogue(usage, region, source, at, step, item.view)
                        if graph is None:
                            continue
                        count += 1
                        if policy.allows("chain") and forward_product(usage, region, source, at, graph):
                            gone.append(source)
                            makers[region.steps[at].out.buffer] = at  # type: ignore[union-attr]
                        else:
                            region.steps[at] = graph.close([])
                        break
        if gone:
            region.steps[:] = [step for at, step in enumerate(region.steps) if at not in gone]
    if count:
        policy.note("product_epilogue", f"{count} products with bias or activation")
    return f"{count} products"


def _epilogue(usage: Usage, region: Region, source: int, at: int, nest: Nest, view: View) -> Graph | None:
    """The nest without what moved into the product; None when nothing did."""
    product = region.steps[source]
    assert isinstance(product, Contract)
    buffer = view.buffer
    if (len(region.reads.get(buffer, ())) != 1 or not usage.is_local(buffer, region) or product.act != "none"
            or not usage.is_written_once(buffer) or nest.axes != product.out.shape or view.strides != product.out.strides
            or view.offset is not product.out.offset or view.dtype != product.out.dtype):
        return None
    slot = next(i for i, item in enumerate(nest.inputs) if item.view is view)
    if any(i != slot and item.view is not None and item.view.buffer is buffer for i, item in enumerate(nest.inputs)):
        return None
    graph = Graph.of(nest)
    key = input_key(nest.inputs[slot])
    node = graph.inputs[key]
    fired = False
    if product.bias is None:
        user = _only_user(graph, node)
        if user is not None and _is_op(user, "add", product.dtype):
            other = user.args[1].real() if user.args[0].real() is node else user.args[0].real()
            bias = _row_vector(other, product, nest)
            if bias is not None and not region.is_written_between(bias.buffer, source - 1, at):
                product.bias = bias
                region.reads.setdefault(bias.buffer, set()).add(source)
                user.alias = node
                fired = True
    user = _only_user(graph, node)
    if user is not None and _is_op(user, "maximum", product.dtype) and any(map(_is_zero, user.args)):
        product.act = "relu"
        user.alias = node
        fired = True
    if not fired:
        return None
    graph.n_ops = sum(isinstance(n.item, NestOp) for n in graph.live_nodes())
    live = {input_key(n.item): n for n in graph.live_nodes() if isinstance(n.item, NestInput)}
    graph.inputs = {k: n for k, n in graph.inputs.items() if k in live}
    return graph


def _is_op(node: Node, name: str, dtype: str) -> bool:
    return isinstance(node.item, NestOp) and node.item.op == name and node.item.operand_dtype == dtype


def _is_zero(node: Node) -> bool:
    item = node.real().item
    return not isinstance(item, NestOp) and isinstance(item.operand, Literal) and item.operand.value == 0


def _only_user(graph: Graph, node: Node) -> Node | None:
    """The one operation that reads a node, when no output does."""
    users = [n for n in graph.live_nodes() if any(arg.real() is node for arg in (*n.args, *n.marks))]
    if len(users) != 1 or any(w.node.real() is node or (w.mask is not None and w.mask.real() is node)
                              or any(m.real() is node for m in w.marks) for w in graph.outs):
        return None
    return users[0] if sum(arg.real() is node for arg in users[0].args) == 1 and not users[0].marks else None


def _row_vector(node: Node, product: Contract, nest: Nest) -> View | None:
    """The 1-axis view of n elements that an input broadcasts over all rows."""
    item = node.item
    if isinstance(item, NestOp) or item.view is None or item.view.dtype != product.dtype:
        return None
    view = item.view
    if any(stride.terms or stride.const for stride in view.strides[:-1]):
        return None
    return View(view.buffer, view.dtype, (product.n,), view.strides[-1:], view.offset)
