"""Fusing elementwise work: producers move into the nests that read them, copies into what they copy.

`fuse_nests` walks each region once in program order. A nest takes in the producers of its inputs, which from then on
run at its own place; a temporary that nobody reads any more disappears. What follows a product moves into the product
(epilogue.py).
"""

from __future__ import annotations

from .epilogue import covers, forward_product, is_only_reader, match_axes, plain_copy, take_epilogue
from .extents import Expr, const
from .graph import Graph, Node, Way
from .policy import ShapePolicy
from .steps import ITEM_BYTES, Buffer, Contract, Literal, Nest, NestInput, NestOp, NestOut, Plan, ScalarReg, Step, View
from .usage import Region, Usage

MAX_OPS = 24  # one block of every value in flight stays in the first-level cache
MAX_INPUTS = 12
_MAX_LOOK_BACK = 16  # nests that a reduction is compared with
_CHEAP = frozenset((
    "mov", "add", "sub", "mul", "neg", "abs", "maximum", "minimum", "square", "eq", "ne", "lt", "le", "gt", "ge", "not",
    "and", "or", "xor", "invert", "shl", "shr", "isnan", "isinf", "isfinite", "signbit", "select", "cast", "copysign",
    "fmax", "fmin",
))


def fuse_nests(plan: Plan, policy: ShapePolicy) -> str:
    """Merge nests that exchange values point by point, and move bias, residual and activation into products."""
    usage = Usage(plan)
    fuser = _Fuser(usage, policy)
    for region in usage.regions:
        if len(region.steps) > 1:
            fuser.region(region)
    counts = fuser.counts
    for name, what in (("chain", "steps merged"), ("copy", "copies forwarded"), ("reduce_epilogue", "steps merged"),
                       ("gather_sum", "gathers moved into the sums over them"),
                       ("product_epilogue", "biases and activations moved into products"),
                       ("product_residual", "residuals moved into products")):
        if counts[name]:
            policy.note("chain" if name == "copy" else name, f"{counts[name]} {what}")
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count)


class _Fuser:
    def __init__(self, usage: Usage, policy: ShapePolicy) -> None:
        self.usage = usage
        self.chain = policy.allows("chain")
        self.reduces = policy.allows("reduce_epilogue")
        self.epilogues = (policy.allows("product_epilogue"), policy.allows("product_residual"))
        self.allowed = {name: policy.allows(name) for name in ("chain", "reduce_epilogue", "gather_sum")}
        self.counts = {"chain": 0, "copy": 0, "reduce_epilogue": 0, "gather_sum": 0, "product_epilogue": 0,
                       "product_residual": 0}

    def region(self, region: Region) -> None:
        """Merge within one list of steps, in place."""
        self.here = region
        self.graphs: dict[int, Graph] = {}
        self.made: dict[Buffer, tuple[int, Way | None]] = {}  # who writes a buffer that is written once
        self.products: dict[Buffer, int] = {}  # those of them that products write
        self.latest: dict[Buffer, int] = {}  # the last nest that stores into a buffer
        self.gone: set[int] = set()
        for at, step in enumerate(region.steps):
            if isinstance(step, Nest):
                self.graphs[at] = graph = Graph.of(step)
                if self.products and any(self.epilogues) and self._apply_epilogue(at, graph):
                    continue
                self._consume(at)
                if at in self.graphs and self.reduces and self.graphs[at].reduces:
                    self._join_reductions(at, self.graphs[at])
                if at in self.graphs:
                    self._note_made(self.graphs[at], at)
            elif isinstance(step, Contract) and not self._sum_instead(step, at):
                self._note_product(step, at)
        self._write_back(region.steps)

    def _note_made(self, graph: Graph, at: int) -> None:
        for way in graph.outs:
            if self.usage.is_written_once(way.out.view.buffer):
                self.made[way.out.view.buffer] = (at, way)
            else:
                self.latest[way.out.view.buffer] = at

    def _note_product(self, product: Contract, at: int) -> None:
        if self.usage.is_written_once(product.out.buffer):
            self.made[product.out.buffer] = (at, None)
            self.products[product.out.buffer] = at

    def _write_back(self, steps: list[Step]) -> None:
        out: list[Step] = []
        known: dict[object, ScalarReg] = {}
        for at, step in enumerate(steps):
            if at not in self.gone:
                graph = self.graphs.get(at)
                out.append(step if graph is None else graph.close(out, known))
        steps[:] = out

    # --- consuming producers ----------------------------------------------------------------------------------------

    def _consume(self, at: int) -> None:
        """Take in producers of the inputs until nothing more fits."""
        pending = list(self.graphs[at].inputs)
        tried: set[object] = set()
        while pending:
            key = pending.pop()
            tried.add(key)
            graph = self.graphs[at]
            node = graph.inputs.get(key)
            view = node.item.view if node is not None else None
            found = self.made.get(view.buffer) if view is not None else None
            if node is None or view is None:
                continue
            if found is None:
                if self._take_overwritten(view.buffer, at):
                    pending = list(self.graphs[at].inputs)
                    tried.clear()
                continue
            source, way = found
            if way is None:
                if self.chain and graph.n_ops == 0 and forward_product(self.usage, self.here, source, at, graph):
                    self._forwarded(source, at)
                    return
            elif self._take(source, at, node, key, way):
                pending = [key for key in self.graphs[at].inputs if key not in tried]

    def _forwarded(self, source: int, at: int) -> None:
        product = self.here.steps[at]
        assert isinstance(product, Contract)
        del self.graphs[at]
        self.gone.add(source)
        self._note_product(product, at)
        self.counts["copy"] += 1

    def _take(self, source: int, at: int, node: Node, key: object, way: Way) -> bool:
        """Take the producer at `source`, which writes by `way`, into the nest at `at`, for one of its inputs."""
        producer, graph = self.graphs[source], self.graphs[at]
        out, view = way.out, node.item.view
        assert view is not None
        name = _fusion_of(producer, graph)
        if not self.allowed[name]:
            return False
        if out.reduce != "store":
            return graph.n_ops == 0 and out.reduce != "compress" and self._forward_reduction(source, at, view, way)
        if out.indexes or way.mask is not None or out.view.dtype != view.dtype or not _loads_back(way, node):
            return False
        axes = match_axes(out.view, producer.axes, view, graph.axes)
        if axes is None:
            if not _is_uniform(way.node):
                return False
            axes = (-1,) * len(producer.axes)
        n_axes = len(axes)
        is_same = n_axes == len(graph.axes) and axes == tuple(range(n_axes))
        is_full = is_same or covers(axes, graph.axes)
        if producer.n_ops + graph.n_ops > MAX_OPS or len(producer.inputs) + len(graph.inputs) > MAX_INPUTS + 1:
            return False
        if is_full and len(producer.outs) == 1 and is_only_reader(self.usage, self.here, graph, view):
            if not self._may_move(producer, source, at, graph, is_same):
                return False
            self._count(name, graph)
            self._steal(source, at, key, way.node, None if is_same else axes)
            return True
        is_cheap = _is_cheap(producer, way.node, is_full) and not _writes_its_input(producer)
        if not (is_cheap or is_same) or not self._may_move(producer, source, at, graph, is_same):
            return False
        if is_cheap:
            self._copy(source, at, key, way.node, None if is_same else axes, view.buffer)
        elif self._may_keep(producer, source, at, graph):
            self._join(source, at, key, way.node)
        else:
            return False
        self._count(name, graph)
        return True

    def _take_overwritten(self, buffer: Buffer, at: int) -> bool:
        """Take in the nest whose one result the nest at `at` reads and stores over: `b += x; b += y` is one step."""
        source, graph, region = self.latest.get(buffer, -1), self.graphs[at], self.here
        producer = self.graphs.get(source)
        if producer is None or not self.chain or len(producer.outs) != 1 or len(graph.outs) != 1:
            return False
        old, new = producer.outs[0].out, graph.outs[0].out
        if (new.view.buffer is not buffer or old.view.buffer is not buffer or old.view.offset is not new.view.offset
                or old.view.strides != new.view.strides or old.view.dtype != new.view.dtype or producer.axes != graph.axes
                or any(way.mask is not None or way.out.indexes or way.out.reduce != "store"
                       for way in (*producer.outs, *graph.outs))
                or producer.traps or graph.traps or producer.n_ops + graph.n_ops > MAX_OPS
                or len(producer.inputs) + len(graph.inputs) > MAX_INPUTS + 1
                or not _is_in_place(producer, graph, new)):
            return False
        if region.is_read_between(buffer, source, at) or (
                buffer.kind != "temp" and any(source < p < at for p in region.barriers)):
            return False
        keys = [key for key, node in graph.inputs.items() if node.item.view is not None and node.item.view.buffer is buffer]
        if not all(_loads_back(producer.outs[0], graph.inputs[key]) for key in keys) \
                or not self._may_move(producer, source, at, graph, True):
            return False
        root = producer.outs[0].node.real()
        for key in keys:  # before the producer's own inputs join: it reads there what stood there before
            graph.replace_input(key, root)
        graph.take(producer)
        buffers = [view.buffer for view in producer.views()]
        region.reads[buffer].discard(at)
        region.move_accesses(buffers, [], source, at)
        region.writes[buffer].discard(source)
        self.gone.add(source)
        del self.graphs[source]
        self.counts["chain"] += 1
        return True

    def _sum_instead(self, product: Contract, at: int) -> bool:
        """(2 * A) @ v: a matrix that is made for one vector alone costs more than the product, and is not made when each row is
        summed as it is computed."""
        a, b, out = product.a, product.b, product.out
        found = self.made.get(a.buffer)
        if found is None or product.n.value != 1 or product.batch or product.bias is not None or (
                product.residual is not None or product.act != "none" or b.buffer is a.buffer):
            return False
        source, way = found
        producer = self.graphs.get(source)
        if way is None or producer is None or not producer.n_ops or not _is_cheap(producer, way.node, True):
            return False
        axes, still = (product.m, product.k), const(0)
        left = View(a.buffer, a.dtype, axes, a.strides, a.offset)
        right = View(b.buffer, b.dtype, axes, (still, b.strides[0]), b.offset)
        made = View(out.buffer, out.dtype, axes, (out.strides[0], still), out.offset)
        dtype = product.dtype
        nest = Nest(axes, [NestInput("view", dtype, left), NestInput("view", dtype, right)],
                    [NestOp("mul", dtype, dtype, (0, 1))], [NestOut(2, "sum", made, 2)], product.position)
        graph = self.graphs[at] = Graph.of(nest)
        for key, node in graph.inputs.items():
            if node.item.view is left:
                if is_only_reader(self.usage, self.here, graph, left) and self._take(source, at, node, key, way):
                    self._note_made(self.graphs[at], at)
                    return True
                break
        del self.graphs[at]
        return False

    def _count(self, name: str, graph: Graph) -> None:
        self.counts["copy" if name == "chain" and not graph.n_ops else name] += 1

    def _may_move(self, producer: Graph, source: int, at: int, graph: Graph, is_same: bool) -> bool:
        """Whether the producer's reads may happen at `at`, inside a nest that writes graph.outs."""
        region = self.here
        volatile = region.volatile
        if volatile:
            for view in producer.views():
                buffer = view.buffer
                if buffer not in volatile:
                    continue
                if region.is_written_between(buffer, source, at):
                    return False
                for way in graph.outs:
                    if way.out.view.buffer is buffer and (
                            producer.traps or not is_same or not _is_in_place(producer, graph, way.out)):
                        return False
        if region.is_set_between(source, at):
            return False
        return not (producer.traps and (any(source < p < at for p in region.barriers)
                                        or any(source < p <= at for p in region.arg_writes)))

    def _may_keep(self, producer: Graph, source: int, at: int, graph: Graph) -> bool:
        """Whether the producer's own outputs may be written at `at`, together with the nest there."""
        region = self.here
        written = [way.out.view.buffer for way in graph.outs]
        if producer.traps and any(buffer.kind == "arg" for buffer in written):
            return False
        for way in producer.outs:
            out = way.out
            buffer = out.view.buffer
            if region.is_read_between(buffer, source, at) or region.is_written_between(buffer, source, at):
                return False
            if buffer in written or _gathers(graph, buffer):
                return False
            if buffer.kind != "temp" and any(source < p < at for p in region.barriers):
                return False
            for node in graph.inputs.values():
                view = node.item.view
                if view is not None and view.buffer is buffer and (
                        out.reduce != "store" or out.indexes or way.mask is not None
                        or view.offset is not out.view.offset or view.strides != out.view.strides
                        or view.dtype != out.view.dtype or not _loads_back(way, node)):
                    return False
        return True

    # --- the ways of merging ----------------------------------------------------------------------------------------

    def _steal(self, source: int, at: int, key: object, root: Node, axes: tuple[int, ...] | None) -> None:
        """The producer disappears into the nest at `at`."""
        producer, graph = self.graphs.pop(source), self.graphs[at]
        buffers = [view.buffer for view in producer.views()]
        if axes is None:
            producer.take(graph)
            graph.inputs, graph.n_ops, graph.traps = producer.inputs, producer.n_ops, producer.traps
            graph.replace_input(key, root.real())
        else:
            graph.replace_input(key, graph.copied(producer, root, axes))
        self.gone.add(source)
        self.here.move_accesses(buffers, [], source, at)
        for way in producer.outs:
            self.here.drop(way.out.view.buffer)

    def _copy(self, source: int, at: int, key: object, root: Node, axes: tuple[int, ...] | None,
              buffer: Buffer) -> None:
        """The nest at `at` computes the value again; the producer disappears when nobody else reads it."""
        producer, graph, region = self.graphs[source], self.graphs[at], self.here
        graph.replace_input(key, graph.copied(producer, root, axes))
        buffers = [view.buffer for view in producer.views()]
        for other in buffers:
            region.reads.setdefault(other, set()).add(at)
        if not any(view.buffer is buffer for view in graph.views()):
            region.reads[buffer].discard(at)
            if not region.reads[buffer] and len(producer.outs) == 1 and self.usage.is_local(buffer, region):
                for other in buffers:
                    region.reads[other].discard(source)
                self.gone.add(source)
                del self.graphs[source], self.made[buffer]

    def _join(self, source: int, at: int, key: object, root: Node) -> None:
        """One nest for both; the producer's value is stored as well."""
        producer, graph, region = self.graphs.pop(source), self.graphs[at], self.here
        buffers = [view.buffer for view in producer.views()]
        outs = {way.out.view.buffer: way for way in producer.outs}
        # before the producer's own inputs join: where it writes in place, those are what stood there before
        consumed = {graph.inputs[key].item.view.buffer} if key in graph.inputs else set()  # type: ignore[union-attr]
        for other, node in list(graph.inputs.items()):
            way = outs.get(node.item.view.buffer) if node.item.view is not None else None
            if way is not None:
                consumed.add(way.out.view.buffer)
                graph.replace_input(other, way.node.real())
        if key in graph.inputs:
            graph.replace_input(key, root.real())
        graph.take(producer)
        graph.reduces = graph.reduces or producer.reduces
        self.gone.add(source)
        region.move_accesses(buffers, outs, source, at)
        kept = []
        for buffer, way in outs.items():
            region.reads.get(buffer, set()).discard(at)
            if region.reads.get(buffer) or not self.usage.is_local(buffer, region) or (
                    producer.traps and buffer not in consumed):  # nobody reads it, but an index may be out of range
                kept.append(way)
                if buffer in self.made:
                    self.made[buffer] = (at, way)
            else:
                region.drop(buffer)
                self.made.pop(buffer, None)
        graph.outs = kept + graph.outs

    def _join_reductions(self, at: int, graph: Graph) -> None:
        """Put a reduction beside an earlier one over the same space that reads the same array."""
        region = self.here
        views = graph.views()
        outs = [way.out.view.buffer for way in graph.outs]
        if graph.traps or not views or not all(map(self.usage.is_written_once, outs)):
            return
        is_result = any(buffer.kind != "temp" for buffer in outs)
        if any(not _is_known_at_entry(node) for node in graph.inputs.values()):
            return  # a scalar may be made between the two
        ready = -1  # the last step that makes something which the reduction reads
        for view in views:
            if view.buffer in self.made:
                ready = max(ready, self.made[view.buffer][0])
            else:
                ready = max((p for p in region.writes.get(view.buffer, ()) if ready < p < at), default=ready)
        keys = {key for key, node in graph.inputs.items() if node.item.view is not None}
        for source in list(self.graphs)[-2:-2 - _MAX_LOOK_BACK:-1]:
            if source < ready:
                return
            other = self.graphs[source]
            stored = {way.out.view.buffer: way for way in other.outs}
            reads_stored = False
            for node in graph.inputs.values():
                way = stored.get(node.item.view.buffer) if node.item.view is not None else None
                if way is not None:
                    reads_stored = True
                    if (way.out.reduce != "store" or way.out.indexes or way.mask is not None
                            or node.item.view.strides != way.out.view.strides  # type: ignore[union-attr]
                            or node.item.view.offset is not way.out.view.offset  # type: ignore[union-attr]
                            or not _loads_back(way, node)):
                        return
            if source == ready and not reads_stored and any(v.buffer in stored for v in views):
                return
            is_near = reads_stored or (other.reduces and keys & other.inputs.keys())
            if not is_near or other.axes != graph.axes or other.traps:
                if reads_stored:
                    return
                continue
            if other.n_ops + graph.n_ops > MAX_OPS or len(other.inputs) + len(graph.inputs) > MAX_INPUTS:
                return
            if any(any(p < at for p in region.reads.get(b, ())) for b in outs):
                return
            if is_result and any(source < p < at for p in region.barriers):
                return
            buffers = [view.buffer for view in views]
            for key in list(graph.inputs):  # before they join: `other` may read in place what it writes
                item = graph.inputs[key].item
                way = stored.get(item.view.buffer) if item.view is not None else None
                if way is not None:
                    graph.replace_input(key, way.node.real())
                    region.reads[way.out.view.buffer].discard(at)
            other.take(graph)
            other.outs = [way for way in other.outs if not self._is_unread(way.out.view.buffer, stored)] + graph.outs
            other.reduces = True
            self.gone.add(at)
            del self.graphs[at]
            region.move_accesses([b for b in buffers if b not in stored], outs, at, source)
            self._note_made(other, source)
            self.counts["reduce_epilogue"] += 1
            return

    def _is_unread(self, buffer: Buffer, stored: dict[Buffer, Way]) -> bool:
        """Whether nobody reads a temporary any more that one of `stored` wrote; it is forgotten then."""
        if buffer not in stored or self.here.reads.get(buffer) or not self.usage.is_local(buffer, self.here):
            return False
        self.here.drop(buffer)
        self.made.pop(buffer, None)
        return True

    def _forward_reduction(self, source: int, at: int, view: View, way: Way) -> bool:
        """A reduction whose output is only copied reduces into the copy's destination."""
        producer, graph, region = self.graphs[source], self.graphs[at], self.here
        out = plain_copy(graph)
        if (out is None or len(producer.outs) != 1 or out.view.dtype != view.dtype or way.out.view.dtype != view.dtype
                or not is_only_reader(self.usage, region, graph, view)):
            return False
        axes = match_axes(way.out.view, producer.axes, view, graph.axes, way.out.reduced)
        if axes is None or not covers(axes, graph.axes):
            return False
        if not self._may_move(producer, source, at, graph, False):
            return False
        strides = tuple(out.view.strides[axis] if axis >= 0 else const(0) for axis in axes)
        target = View(out.view.buffer, out.view.dtype, producer.axes, strides, out.view.offset)
        way.out = NestOut(way.out.slot, way.out.reduce, target, way.out.reduced)
        producer.source = None
        self.graphs[at] = producer
        del self.graphs[source]
        self.gone.add(source)
        region.move_accesses([v.buffer for v in producer.views()], [], source, at)
        region.drop(view.buffer)
        self.counts["copy"] += 1
        return True

    # --- products ---------------------------------------------------------------------------------------------------

    def _apply_epilogue(self, at: int, graph: Graph) -> bool:
        """Bias, residual and activation move into the product; answers whether nothing but the product is left of the nest."""
        products = self.products
        for node in list(graph.inputs.values()):
            view = node.item.view
            if view is None or view.buffer not in products:
                continue
            source = self.products[view.buffer]
            fired = take_epilogue(self.usage, self.here, source, at, graph, view, self.epilogues)
            if fired:
                for name in dict.fromkeys(fired):
                    self.counts[name] += 1
                if self.chain and graph.n_ops == 0 and forward_product(self.usage, self.here, source, at, graph):
                    self._forwarded(source, at)
                    return True
                return False
        return False


def _fusion_of(producer: Graph, graph: Graph) -> str:
    """The name of what merges a producer into a nest."""
    if not producer.reduces and not graph.reduces:
        return "chain"
    return "gather_sum" if producer.traps and not producer.reduces else "reduce_epilogue"


def _loads_back(way: Way, node: Node) -> bool:
    """Whether storing a value and loading it again gives the value itself: no rounding or wrapping in memory."""
    made = way.node.real().item
    memory = way.out.view.dtype
    is_same_memory = isinstance(made, NestInput) and made.view is not None and made.view.dtype == memory
    return made.dtype == node.item.dtype and (
        memory == made.dtype or is_same_memory or (memory == "u64" and made.dtype == "i64"))


def _gathers(graph: Graph, buffer: Buffer) -> bool:
    return graph.traps and any(isinstance(n.item, NestOp) and n.item.view is not None and n.item.view.buffer is buffer
                               for n in graph.live_nodes())


def _is_uniform(root: Node) -> bool:
    """Whether a value is one scalar at every point (np.zeros, np.full)."""
    item = root.real().item
    return not isinstance(item, NestOp) and item.kind == "scalar"


def _is_cheap(producer: Graph, root: Node, is_full: bool) -> bool:
    """Whether computing the value again costs no more than a load or two. Into a larger space (not `is_full`) only
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
            if item.op not in _CHEAP or n_ops > 3 or (not is_full and item.op != "cast"):
                return False
            stack += [arg.real() for arg in node.args]
        elif item.view is not None:
            for stride in item.view.strides:
                if stride.terms or stride.const:
                    n_loads += 1
                    break
    return n_loads <= 2


def _writes_its_input(producer: Graph) -> bool:
    """Whether the producer changes what it reads, so that its values cannot be computed again."""
    written = [way.out.view.buffer for way in producer.outs]
    for node in producer.inputs.values():
        view = node.item.view
        if view is not None and view.buffer in written:
            return True
    return False


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


def _is_known_at_entry(node: Node) -> bool:
    operand = node.item.operand if isinstance(node.item, NestInput) else None
    if isinstance(operand, ScalarReg):
        return operand.row >= 0
    return operand is None or isinstance(operand, Literal) or (isinstance(operand, Expr) and operand.is_entry)
