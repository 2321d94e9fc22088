"""Epilogues of products: bias, residual and activation applied, and the result put where it is wanted, by the product
itself."""

from __future__ import annotations

from .extents import ZERO
from .graph import Graph, Node, input_key
from .steps import Contract, Literal, NestInput, NestOp, NestOut, View
from .usage import Region, Usage


def take_epilogue(usage: Usage, region: Region, source: int, at: int, graph: Graph, view: View,
                  allowed: tuple[bool, bool]) -> list[str]:
    """Move bias and relu, and a residual, from the nest at `at` into the product at `source`, whose output `view` reads
    there alone. allowed: whether each of the two may move.

    The graph is left without what moved; answers the names of the fusions that did it.
    """
    product = region.steps[source]
    if not isinstance(product, Contract) or product.act != "none":
        return []
    out = product.out
    if (graph.axes != out.shape or view.strides != out.strides or view.offset is not out.offset
            or view.dtype != out.dtype or not is_only_reader(usage, region, graph, view)):
        return []
    node = next(n for n in graph.inputs.values() if n.item.view is view)
    fired: list[str] = []
    epilogue, plus = allowed
    user = _only_user(graph, node)
    for wanted, part, operand_of, name in (
            (epilogue and product.bias is None and product.residual is None, "bias", _row_vector, "product_epilogue"),
            (plus and product.residual is None, "residual", _whole, "product_residual")):
        if not wanted or user is None or not _is_op(user, "add", product.dtype):
            continue
        first, second = user.args
        operand = operand_of((second if first.real() is node else first).real(), product)
        if operand is not None and not region.is_written_between(operand.buffer, source - 1, at):
            setattr(product, part, operand)
            region.reads.setdefault(operand.buffer, set()).add(source)
            user.alias = node
            fired.append(name)
            user = _only_user(graph, node)
    if epilogue and user is not None and _is_op(user, "maximum", product.dtype) and any(map(_is_zero, user.args)):
        product.act = "relu"
        user.alias = node
        fired.append("product_epilogue")
    if fired:
        graph.source = None
        live = graph.live_nodes()
        graph.n_ops = sum(isinstance(n.item, NestOp) for n in live)
        graph.inputs = {input_key(n.item): n for n in live if isinstance(n.item, NestInput)}
    return fired


def forward_product(usage: Usage, region: Region, source: int, at: int, graph: Graph) -> bool:
    """Let the product at `source`, whose output the nest at `at` alone reads and only copies, stand at `at` and write
    the copy's destination itself; answers whether it does."""
    product = region.steps[source]
    out = plain_copy(graph)
    if out is None or not isinstance(product, Contract):
        return False
    (node,) = graph.inputs.values()
    view = node.item.view
    assert view is not None
    if (out.view.dtype != product.out.dtype or view.dtype != product.out.dtype
            or not is_only_reader(usage, region, graph, view)):
        return False
    axes = match_axes(product.out, product.out.shape, view, graph.axes)
    if axes is None or not covers(axes, graph.axes):
        return False
    operands = [v for v in (product.a, product.b, product.bias, product.residual) if v is not None]
    if any([v.buffer is out.view.buffer or region.is_written_between(v.buffer, source, at) for v in operands]):
        return False
    if region.is_set_between(source, at):
        return False
    buffer = product.out.buffer
    strides = tuple([out.view.strides[axis] if axis >= 0 else ZERO for axis in axes])
    product.out = View(out.view.buffer, out.view.dtype, product.out.shape, strides, out.view.offset)
    region.steps[at] = product
    region.move_accesses([v.buffer for v in operands], [], source, at)
    region.drop(buffer)
    return True


def is_only_reader(usage: Usage, region: Region, graph: Graph, view: View) -> bool:
    """Whether one input of the graph is all that ever reads the view's buffer, which dies here."""
    buffer = view.buffer
    if len(region.reads.get(buffer, ())) != 1 or not usage.is_local(buffer, region):
        return False
    if not usage.is_written_once(buffer):
        return False
    count = 0
    for node in graph.inputs.values():
        other = node.item.view
        if other is not None and other.buffer is buffer:
            count += 1
    return count == 1 and not (graph.traps and sum(v.buffer is buffer for v in graph.views()) != 1)


def plain_copy(graph: Graph) -> NestOut | None:
    """The store of a nest that only copies one view, elements unchanged."""
    if len(graph.outs) != 1 or len(graph.inputs) != 1:
        return None
    way = graph.outs[0]
    item = way.node.real().item
    if way.mask is not None or isinstance(item, NestOp) or item.view is None:
        return None
    return way.out if way.out.reduce == "store" and not way.out.indexes else None


def covers(axes: tuple[int, ...], space: tuple) -> bool:
    """Whether the axes of a space that a producer lacks have one element."""
    for i, extent in enumerate(space):
        if i not in axes and extent.value != 1:
            return False
    return True


def match_axes(made: View, made_axes: tuple, read: View, read_axes: tuple, skip: int = 0) -> tuple[int, ...] | None:
    """For each axis of the space that wrote `made`, the axis of the reading space that it is, when `read` sees each
    element at the point that wrote it; None when it does not. -1: an axis of extent 1, or one in the mask `skip`."""
    if made.offset is not read.offset:
        return None
    strides = read.strides
    if made_axes == read_axes and made.strides == strides and not skip:
        return tuple(range(len(made_axes)))
    found: list[int] = []
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


def _is_op(node: Node, name: str, dtype: str) -> bool:
    return isinstance(node.item, NestOp) and node.item.op == name and node.item.operand_dtype == dtype


def _is_zero(node: Node) -> bool:
    item = node.real().item
    return not isinstance(item, NestOp) and isinstance(item.operand, Literal) and item.operand.value == 0


def _only_user(graph: Graph, node: Node) -> Node | None:
    """The one operation that reads a node, when no output does."""
    for way in graph.outs:
        if way.node.real() is node or (way.mask is not None and way.mask.real() is node):
            return None
        if way.marks and any(mark.real() is node for mark in way.marks):
            return None
    user: Node | None = None
    for other in graph.live_nodes():
        uses = 0
        for arg in other.args:
            uses += arg.real() is node
        if other.marks and any(mark.real() is node for mark in other.marks):
            return None
        if uses:
            if user is not None or uses > 1 or other.marks:
                return None
            user = other
    return user


def _whole(node: Node, product: Contract) -> View | None:
    """The view of an input that has an element for each of the product's."""
    item = node.item
    if isinstance(item, NestOp) or item.view is None or item.view.dtype != product.dtype:
        return None
    view = item.view
    out = product.out
    if view.buffer is out.buffer or all(s.value == 0 for s in view.strides):
        return None
    return View(view.buffer, view.dtype, out.shape, view.strides, view.offset)


def _row_vector(node: Node, product: Contract) -> View | None:
    """The 1-axis view of n elements that an input broadcasts over all rows."""
    item = node.item
    if isinstance(item, NestOp) or item.view is None or item.view.dtype != product.dtype:
        return None
    view = item.view
    for stride in view.strides[:-1]:
        if stride.terms or stride.const:
            return None
    return View(view.buffer, view.dtype, (product.n,), view.strides[-1:], view.offset)
