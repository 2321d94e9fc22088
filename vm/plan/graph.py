"""Nests in the works: a scalar DAG whose nodes are objects, so that two DAGs join without renumbering.

`Graph.of` opens a nest; `take`, `replace_input` and `copied` put a producer's DAG in the place of inputs that read it;
`close` writes a nest again: equal inputs and operations made one, dead ones dropped, what is the same at every point
computed once on registers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .extents import ZERO, Expr
from .steps import Literal, Nest, NestInput, NestOp, NestOut, ScalarOpStep, ScalarReg, Step, View


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
    """One nest in the works. position: of the Program's instruction that it came from last. reduces: whether an output
    reduces; traps: whether an index may be out of range; source: the nest itself while nothing has changed."""

    __slots__ = ("axes", "inputs", "n_ops", "outs", "position", "reduces", "source", "traps")

    def __init__(self, axes: tuple[Expr, ...], position: int) -> None:
        self.axes, self.position = axes, position
        self.inputs: dict[object, Node] = {}
        self.n_ops = 0
        self.outs: list[Way] = []
        self.traps = self.reduces = False
        self.source: Nest | None = None

    @classmethod
    def of(cls, nest: Nest) -> Graph:
        """A nest, opened."""
        graph = cls(nest.axes, nest.position)
        slots = [graph.add_input(item) for item in nest.inputs]
        changes = False  # closing makes it another nest: a constant is cast, or an operation is the same at every point
        for op in nest.ops:
            args = op.args
            if op.op == "cast":
                constant = cast_constant(op, slots[args[0]])
                if constant is not None:
                    slots.append(graph.add_input(constant))
                    changes = True
                    continue
            node = Node(op, tuple([slots[i] for i in args]))
            if op.view is not None:
                node.marks = tuple([slots[i] for i, _, _ in op.indexes])
                graph.traps = True
            changes = changes or _is_uniform(node)
            slots.append(node)
        graph.n_ops = len(nest.ops)
        graph.source = None if changes else nest
        for out in nest.outs:
            marks: tuple[Node, ...] = ()
            if out.indexes:
                marks = tuple([slots[i] for i, _, _ in out.indexes])
                graph.traps = True
            if out.reduce != "store":
                graph.reduces = True
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
        self.source = None
        self.traps = self.traps or other.traps

    def replace_input(self, key: object, by: Node) -> None:
        """From now on `by` stands where the input was."""
        self.inputs.pop(key).alias = by
        self.source = None

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

    def close(self, before: list[Step], known: dict[object, ScalarReg]) -> Nest:
        """The nest; scalar steps that must run before it are appended to `before`. known: those made earlier in the
        region, by operation and operands."""
        if self.source is not None:
            return self.source
        closing = _Closing(before, known)
        outs = []
        for way in self.outs:
            out = way.out
            slot = closing.slot(way.node)
            mask = closing.slot(way.mask) if way.mask is not None else 0
            marks = [closing.slot(mark) for mark in way.marks]
            outs.append((out, slot, mask, marks))
        final, n = closing.final, len(closing.inputs)
        ops = [NestOp(item.op, item.dtype, item.operand_dtype, tuple([final(code, n) for code in codes]), item.view,
                      tuple([(final(code, n), extent, stride) for code, (_, extent, stride)
                             in zip(marks, item.indexes, strict=True)]) if marks else (), item.position)
               for item, codes, marks in closing.ops]
        return Nest(self.axes, closing.inputs, ops, [
            NestOut(final(slot, n), out.reduce, out.view, out.reduced, final(mask, n) if out.mask >= 0 else -1,
                    tuple([(final(code, n), extent, stride) for code, (_, extent, stride)
                           in zip(marks, out.indexes, strict=True)]) if marks else (), out.position)
            for out, slot, mask, marks in outs], self.position)


def _is_uniform(node: Node) -> bool:
    """Whether an operation has scalars alone for arguments, so that its value is the same at every point."""
    for arg in node.args:
        if not isinstance(arg.item, NestInput) or arg.item.kind != "scalar":
            return False
    return bool(node.args)


class _Closing:
    """Numbers slots while a graph closes: inputs from 0 on, operations ~0, ~1, ... until all inputs are known."""

    def __init__(self, before: list[Step], known: dict[object, ScalarReg]) -> None:
        self.before, self.known = before, known
        self.inputs: list[NestInput] = []
        self.ops: list[tuple[NestOp, list[int], list[int]]] = []
        self._done: dict[Node, int | NestInput] = {}  # a NestInput: the same at every point, not yet an input
        self._by_key: dict[object, int] = {}

    @staticmethod
    def final(code: int, n_inputs: int) -> int:
        """The slot of a code."""
        return code if code >= 0 else n_inputs + ~code

    def slot(self, node: Node) -> int:
        """The code of a node's slot."""
        return self._placed(self._visit(node))

    def _placed(self, value: int | NestInput) -> int:
        if isinstance(value, int):
            return value
        key = input_key(value)
        code = self._by_key.get(key)
        if code is None:
            code = self._by_key[key] = len(self.inputs)
            self.inputs.append(value)
        return code

    def _visit(self, node: Node) -> int | NestInput:
        while node.alias is not None:
            node = node.alias
        done = self._done.get(node)
        if done is not None:
            return done
        item = node.item
        value: int | NestInput
        if isinstance(item, NestInput):
            value = item if item.kind == "scalar" else self._placed(item)
        elif item.view is not None:
            marks = [self.slot(mark) for mark in node.marks]
            value = ~len(self.ops)
            self.ops.append((item, [], marks))
        else:
            args = []
            is_uniform = bool(node.args)
            for arg in node.args:
                made = self._visit(arg)
                args.append(made)
                is_uniform = is_uniform and not isinstance(made, int)
            if is_uniform:
                value = self._hoist(item, args)  # type: ignore[arg-type]
            else:
                codes = [arg if isinstance(arg, int) else self._placed(arg) for arg in args]
                key = (item.op, item.dtype, item.operand_dtype, *codes)
                code = self._by_key.get(key)
                if code is None:
                    code = self._by_key[key] = ~len(self.ops)
                    self.ops.append((item, codes, []))
                value = code
        self._done[node] = value
        return value

    def _hoist(self, op: NestOp, args: list[NestInput]) -> NestInput:
        """The value of an operation on scalars, computed once on registers."""
        operands = tuple([arg.operand for arg in args])
        key = (op.op, op.dtype, op.operand_dtype, *map(input_key, args))
        is_fixed = all(isinstance(x, Literal) or (isinstance(x, Expr) and x.is_entry) for x in operands)
        dst = self.known.get(key) if is_fixed else None
        if dst is None:
            dst = ScalarReg(op.dtype, op.op)
            if is_fixed:
                self.known[key] = dst
            self.before.append(ScalarOpStep(op.op, dst, operands, op.operand_dtype))  # type: ignore[arg-type]
        return NestInput("scalar", op.dtype, operand=dst)


def cast_constant(op: NestOp, node: Node) -> NestInput | None:
    """The input that a constant cast to a floating dtype is, or None."""
    operand = node.item.operand if isinstance(node.item, NestInput) else None
    value = operand.value if isinstance(operand, (Literal, Expr)) else None
    if value is None or op.dtype not in ("f32", "f64"):
        return None
    if op.dtype == "f64":
        number = float(value)
    elif abs(value) < 3e38:
        number = float(np.float32(value))
    else:
        with np.errstate(over="ignore"):
            number = float(np.float32(value))
    return NestInput("scalar", op.dtype, operand=Literal(number, op.dtype))


def input_key(item: NestInput) -> object:
    """Equal for inputs that are the same value at every point."""
    view = item.view
    if view is not None:
        return (view.buffer, view.offset, view.strides, view.dtype, item.dtype)
    if item.operand is not None:
        operand = item.operand
        if isinstance(operand, Literal):  # repr tells -0.0 from 0.0
            return (repr(operand.value), operand.dtype, item.dtype)
        return (operand, item.dtype)
    return ("iota", item.axis)


def remap_view(view: View, axes: Sequence[int], shape: tuple[Expr, ...]) -> View:
    """The view over other axes: axis i becomes axes[i] (-1: an axis of extent 1, dropped)."""
    strides = [ZERO] * len(shape)
    old = view.strides
    for at, new in enumerate(axes):
        if new >= 0:
            strides[new] = old[at]
    return View(view.buffer, view.dtype, shape, tuple(strides), view.offset)


def remap_input(item: NestInput, axes: Sequence[int], shape: tuple[Expr, ...]) -> NestInput:
    """The input over other axes."""
    if item.view is not None:
        return NestInput("view", item.dtype, view=remap_view(item.view, axes, shape))
    if item.kind == "iota":
        axis = axes[item.axis]
        if axis < 0:
            return NestInput("scalar", "i64", operand=Literal(0, "i64"))
        return NestInput("iota", "i64", axis=axis)
    return item
