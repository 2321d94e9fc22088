"""Nests in the works: a scalar DAG whose nodes are objects, so that two DAGs join without renumbering.

`Graph.of` opens a nest, `absorb` puts a producer's DAG in the place of the inputs that read it, `close` writes a nest again:
inputs and operations deduplicated, dead ones dropped, what is the same at every point computed once on registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .extents import Expr, const
from .steps import Literal, Nest, NestInput, NestOp, NestOut, ScalarOpStep, ScalarReg, Step, View

ZERO = const(0)


class Node:
    """An input or an operation. alias: the node that stands in its place since a merge."""

    __slots__ = ("alias", "args", "item", "marks")

    def __init__(self, item: NestInput | NestOp, args: tuple[Node, ...] = ()) -> None:
        self.item, self.args = item, args
        self.alias: Node | None = None
        self.marks: tuple[Node, ...] = ()  # index nodes of a gather

    def real(self) -> Node:
        """The node itself, or what took its place."""
        node = self
        while node.alias is not None:
            node = node.alias
        return node


class Way:
    """A node's way out."""

    __slots__ = ("marks", "mask", "node", "out")

    def __init__(self, out: NestOut, node: Node, mask: Node | None, marks: tuple[Node, ...]) -> None:
        self.out, self.node, self.mask, self.marks = out, node, mask, marks


class Graph:
    """One nest in the works. position: of the Program's instruction that it came from last."""

    __slots__ = ("axes", "inputs", "n_ops", "outs", "position", "traps")

    def __init__(self, axes: tuple[Expr, ...], position: int) -> None:
        self.axes, self.position = axes, position
        self.inputs: dict[object, Node] = {}
        self.n_ops = 0
        self.outs: list[Way] = []
        self.traps = False

    @classmethod
    def of(cls, nest: Nest) -> Graph:
        """A nest, opened."""
        graph = cls(nest.axes, nest.position)
        slots = [graph.add_input(item) for item in nest.inputs]
        for op in nest.ops:
            node = Node(op, tuple([slots[i] for i in op.args]))
            if op.view is not None:
                node.marks = tuple(slots[i] for i, _, _ in op.indexes)
                graph.traps = True
            slots.append(node)
        graph.n_ops = len(nest.ops)
        for out in nest.outs:
            marks: tuple[Node, ...] = ()
            if out.indexes:
                marks = tuple(slots[i] for i, _, _ in out.indexes)
                graph.traps = True
            graph.outs.append(Way(out, slots[out.slot], slots[out.mask] if out.mask >= 0 else None, marks))
        return graph

    def add_input(self, item: NestInput) -> Node:
        """The node of an input; equal inputs are one."""
        key = input_key(item)
        node = self.inputs.get(key)
        if node is None:
            node = self.inputs[key] = Node(item)
        return node

    def live_nodes(self) -> list[Node]:
        """Every node that an output needs, arguments first."""
        order: list[Node] = []
        seen: set[Node] = set()
        stack: list[tuple[Node, bool]] = []
        for way in reversed(self.outs):
            for node in (*reversed(way.marks), way.mask, way.node):
                if node is not None:
                    stack.append((node.real(), False))
        while stack:
            node, is_done = stack.pop()
            if is_done:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                if node.args or node.marks:
                    stack.append((node, True))
                    for arg in reversed(node.args):
                        stack.append((arg.real(), False))
                    for arg in reversed(node.marks):
                        stack.append((arg.real(), False))
                else:
                    order.append(node)
        return order

    def views(self) -> list[View]:
        """Every view that is read."""
        found = [node.item.view for node in self.inputs.values() if node.item.view is not None]
        if self.traps:
            found += [n.item.view for n in self.live_nodes() if isinstance(n.item, NestOp) and n.item.view is not None]
        return found

    def take(self, other: Graph) -> None:
        """Join another graph's inputs and operations over the same axes; its outputs are the caller's to place."""
        mine = self.inputs
        for key, node in other.inputs.items():
            if node.alias is None:
                known = mine.get(key)
                if known is None:
                    mine[key] = node
                elif known is not node:
                    node.alias = known
        self.n_ops += other.n_ops
        self.traps = self.traps or other.traps

    def replace_input(self, key: object, by: Node) -> None:
        """From now on `by` stands where the input was."""
        self.inputs.pop(key).alias = by

    def copied(self, source: Graph, root: Node, axes: Sequence[int] | None) -> Node:
        """A copy, inside this graph, of the part of `source` that makes `root`.

        axes: for each axis of `source`, the axis of this graph that it is (-1: an axis of extent 1); None: the same.
        """
        made: dict[Node, Node] = {}

        def copy(node: Node) -> Node:
            node = node.real()
            new = made.get(node)
            if new is None:
                item = node.item
                if isinstance(item, NestInput):
                    new = self.add_input(item if axes is None else remap_input(item, axes, self.axes))
                else:
                    new = Node(item, tuple([copy(arg) for arg in node.args]))
                    if item.view is not None:
                        new.marks = tuple([copy(arg) for arg in node.marks])
                        if axes is not None:
                            new.item = NestOp(item.op, item.dtype, item.operand_dtype, (),
                                              remap_view(item.view, axes, self.axes), item.indexes, item.position)
                        self.traps = True
                    self.n_ops += 1
                made[node] = new
            return new

        return copy(root)

    def close(self, before: list[Step]) -> Nest:
        """The nest; scalar steps that must run before it are appended to `before`."""
        slots: dict[Node, int] = {}
        uniform: dict[Node, NestInput] = {}
        inputs: list[NestInput] = []
        ops: list[NestOp] = []
        by_key: dict[object, Node] = {}
        order: list[Node] = []
        for node in self.live_nodes():
            item = node.item
            if isinstance(item, NestInput):
                if item.kind == "scalar":
                    uniform[node] = item
                order.append(node)
                continue
            args = [arg.real() for arg in node.args]
            if item.view is None:
                key = (item.op, item.dtype, item.operand_dtype, tuple(args))
                known = by_key.get(key)
                if known is not None:
                    node.alias = known
                    continue
                by_key[key] = node
                if args and all(arg in uniform for arg in args):
                    uniform[node] = hoist(item, [uniform[arg] for arg in args], before)
            order.append(node)
        needed = self._needed(order, uniform)
        keys: dict[object, int] = {}
        for node in order:  # inputs first: views, then scalars
            shown = uniform.get(node) if node in uniform else node.item if isinstance(node.item, NestInput) else None
            if shown is not None and node in needed:
                key = input_key(shown)
                slot = keys.get(key)
                if slot is None:
                    slot = keys[key] = len(inputs)
                    inputs.append(shown)
                slots[node] = slot
        n = len(inputs)
        for node in order:
            item = node.item
            if isinstance(item, NestOp) and node not in uniform:
                indexes = tuple((slots[mark.real()], extent, stride)
                                for mark, (_, extent, stride) in zip(node.marks, item.indexes, strict=True))
                slots[node] = n + len(ops)
                ops.append(NestOp(item.op, item.dtype, item.operand_dtype,
                                  tuple([slots[arg.real()] for arg in node.args]), item.view, indexes, item.position))
        outs = []
        for way in self.outs:
            out = way.out
            outs.append(NestOut(slots[way.node.real()], out.reduce, out.view, out.reduced,
                                slots[way.mask.real()] if way.mask is not None else -1,
                                tuple((slots[mark.real()], extent, stride)
                                      for mark, (_, extent, stride) in zip(way.marks, out.indexes, strict=True)),
                                out.position))
        return Nest(self.axes, inputs, ops, outs, self.position)

    def _needed(self, order: list[Node], uniform: Mapping[Node, NestInput]) -> set[Node]:
        needed: set[Node] = set()
        for way in self.outs:
            needed.update(node.real() for node in (way.node, way.mask, *way.marks) if node is not None)
        for node in order:
            if node not in uniform:
                needed.update(arg.real() for arg in node.args)
                needed.update(mark.real() for mark in node.marks)
        return needed


def hoist(op: NestOp, args: list[NestInput], before: list[Step]) -> NestInput:
    """The value of an operation on scalars, computed once on registers."""
    dst = ScalarReg(op.dtype, op.op)
    before.append(ScalarOpStep(op.op, dst, tuple(arg.operand for arg in args), op.operand_dtype))  # type: ignore[misc]
    return NestInput("scalar", op.dtype, operand=dst)


def input_key(item: NestInput) -> object:
    """Equal for inputs that are the same value at every point."""
    view = item.view
    if view is not None:
        return (view.buffer, view.offset, view.strides, view.dtype, item.dtype)
    if item.operand is not None:
        operand = item.operand
        return (repr(operand.value), operand.dtype, item.dtype) if isinstance(operand, Literal) else (operand, item.dtype)
    return ("iota", item.axis)


def remap_view(view: View, axes: Sequence[int], shape: tuple[Expr, ...]) -> View:
    """The view over other axes: axis i becomes axes[i] (-1: an axis of extent 1, dropped)."""
    strides = [ZERO] * len(shape)
    for old, new in enumerate(axes):
        if new >= 0:
            strides[new] = view.strides[old]
    return View(view.buffer, view.dtype, shape, tuple(strides), view.offset)


def remap_input(item: NestInput, axes: Sequence[int], shape: tuple[Expr, ...]) -> NestInput:
    """The input over other axes."""
    if item.view is not None:
        return NestInput("view", item.dtype, view=remap_view(item.view, axes, shape))
    if item.kind == "iota":
        axis = axes[item.axis]
        return NestInput("iota", "i64", axis=axis) if axis >= 0 else NestInput("scalar", "i64", operand=Literal(0, "i64"))
    return item
