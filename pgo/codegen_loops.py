"""The loops around a nest's innermost one: axes, addresses, checked indices, what is computed once an iteration.

Loop order is kept axes, then reduced axes, then the inner axis (kept or reduced), chosen where most accesses are
contiguous. Neighbouring axes melt into one where the strides allow it: proved by the integer algebra, or tested when
the function starts. codegen_nest.py prints what stands inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..templates.scalars import BY_NAME, MEMORY
from ..vm.plan.code import NestCode, NodeOp, Ref, Reg
from ..vm.plan.extents import Expr, const, is_equal
from .c_text import C_TYPES, cast, literal, load
from .known import Known

ARG_REDUCTIONS = ("argmax", "argmin")


@dataclass(frozen=True)
class Amount:
    """An integer that the printer reasons about and prints: its normal form and its C text (asked for late, because
    asking makes a register a parameter of the function)."""

    expr: Expr
    write: Callable[[], str]

    @property
    def value(self) -> int | None:
        """The constant, or None."""
        if self.expr.value is not None:
            return self.expr.value
        lo, hi = self.expr.bounds()
        return int(lo) if lo == hi and abs(lo) != math.inf else None

    def text(self) -> str:
        """C text of the value."""
        return literal(self.value, "i64") if self.value is not None else self.write()


def number(value: int) -> Amount:
    """A constant amount."""
    return Amount(const(value), lambda: literal(value, "i64"))


@dataclass
class Access:
    """A view that the nest reads or writes: a C name, the memory dtype, the address and one stride per axis."""

    name: str
    memory: str
    base: Reg
    offset: Reg
    strides: list[Amount]

    @property
    def item_bytes(self) -> int:
        return MEMORY[self.memory][1]


class Lines:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1

    def __call__(self, text: str) -> None:
        if text.startswith("}"):
            self.depth -= 1
        self.lines.append("    " * self.depth + text if not text.startswith("#") else text)
        if text.endswith("{"):
            self.depth += 1

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass
class LoopPrinter:
    """The state of printing a nest, and the loops; a subclass says what stands inside them."""

    nest: NestCode
    known: Known
    types: Sequence[str]
    constants: Callable[[Reg], str | None]
    params: dict[tuple[Reg, Reg], str] = field(default_factory=dict)
    out: Lines = field(default_factory=Lines)
    positions: list[int] = field(default_factory=list)

    # --- setting up ---------------------------------------------------------------------------------------------------

    def reg(self, reg: Reg) -> str:
        """C text of a register: a literal, or a parameter."""
        fixed = self.constants(reg)
        if fixed is not None:
            return fixed
        return self.param(reg, -1)

    def param(self, reg: Reg, offset: Reg) -> str:
        return self.params.setdefault((reg, offset), f"a{len(self.params)}")

    def amount(self, reg: Reg) -> Amount:
        return Amount(self.known[reg], lambda: self.reg(reg))

    def access(self, name: str, memory: str, ref: Ref) -> Access:
        return Access(name, memory, ref.base, ref.offset, [self.amount(s) for s in ref.strides])

    def set_up(self) -> None:
        nest = self.nest
        self.extents = [self.amount(a) for a in nest.axes]
        self.n_inputs = len(nest.inputs)
        self.inputs = {k: self.access(f"x{k}", i.memory, i.ref) for k, i in enumerate(nest.inputs) if i.ref is not None}
        self.gathers = {self.n_inputs + k: self.access(f"g{k}", op.memory, op.ref)
                        for k, op in enumerate(nest.ops) if op.ref is not None}
        self.outs = [self.access(f"o{k}", o.memory, o.ref) for k, o in enumerate(nest.outs)]
        self.accesses = [*self.inputs.values(), *self.gathers.values(), *self.outs]
        self.reductions = [k for k, o in enumerate(nest.outs) if o.reduce != "store"]
        self.compressed = {k for k in self.reductions if nest.outs[k].reduce == "compress"}
        self.mask = nest.outs[self.reductions[0]].reduced if self.reductions else 0
        self.iotas = {i.axis for i in nest.inputs if i.kind == "iota"}
        self.is_scatter = any(o.indexes for o in nest.outs)

    # --- indices ------------------------------------------------------------------------------------------------------

    def check_indices(self) -> None:
        """One pass per indexed node, over the axes its indices vary on, before anything is stored."""
        nest = self.nest
        checks = [(op.indexes, -1, op.position) for op in nest.ops if op.indexes]
        checks += [(o.indexes, o.mask, o.position) for o in nest.outs if o.indexes]
        for indexes, mask, position in checks:
            wanted = [slot for slot, _, _ in indexes] + ([mask] if mask >= 0 else [])
            needed = self.slots_needed(wanted)
            axes = sorted({a for slot in needed for a in self.slot_axes(slot)})
            self.positions.append(position)
            self.out("{")
            self.out("int bad = 0;")
            for a in axes:
                self.out(f"for (int64_t i{a} = 0; i{a} < {self.extents[a].text()}; i{a}++) {{")
            for slot in sorted(needed):
                self.out(f"const {C_TYPES[self.nest.slot_dtype(slot)]} v{slot} = {self.point_value(slot)};")
            test = " | ".join(f"pb_is_outside(v{slot}, {self.reg(extent)})" for slot, extent, _ in indexes)
            self.out(f"bad |= {f'v{mask} && ({test})' if mask >= 0 else test};")
            for _ in axes:
                self.out("}")
            self.out(f"if (bad) return {len(self.positions)};")
            self.out("}")

    def slots_needed(self, slots: Iterable[int]) -> set[int]:
        needed: set[int] = set()
        stack = list(slots)
        while stack:
            slot = stack.pop()
            if slot in needed:
                continue
            needed.add(slot)
            if slot >= self.n_inputs:
                op = self.nest.ops[slot - self.n_inputs]
                stack.extend(op.args)
                stack.extend(s for s, _, _ in op.indexes)
        return needed

    def slot_axes(self, slot: int) -> set[int]:
        """Axes that a slot itself reads along (arguments not counted)."""
        if slot < self.n_inputs:
            item = self.nest.inputs[slot]
            if item.kind == "iota":
                return {item.axis}
            if item.kind == "scalar":
                return set()
            access = self.inputs[slot]
        elif slot in self.gathers:
            access = self.gathers[slot]
        else:
            return set()
        return {a for a, s in enumerate(access.strides) if s.value != 0 and self.extents[a].value != 1}

    def address(self, access: Access, axes: Iterable[int], index: Callable[[int], str]) -> str:
        """`address + index * stride ...` as C text."""
        offset = access.offset if access.offset >= 0 and self.known.constant(access.offset) != 0 else -1
        parts = [self.param(access.base, offset)]
        for a in axes:
            stride = access.strides[a]
            if stride.value != 0 and self.extents[a].value != 1:
                parts.append(f"{index(a)} * {stride.text()}")
        return " + ".join(parts)

    def displacement(self, indexes: tuple[tuple[int, Reg, Reg], ...]) -> str:
        return "".join(f" + pb_wrap(v{slot}, {self.reg(extent)}) * {self.reg(stride)}"
                       for slot, extent, stride in indexes)

    def point_value(self, slot: int) -> str:
        """A slot's value at the point i0, i1, ... (arguments are in v<slot>)."""
        return self.value_at(slot, lambda access: self.address(access, range(len(self.extents)), "i{}".format), "i{}".format)

    def value_at(self, slot: int, where: Callable[[Access], str], index: Callable[[int], str]) -> str:
        """A slot's value at a point. where: the address of a view there; index: the position along an axis."""
        if slot < self.n_inputs:
            item = self.nest.inputs[slot]
            if item.kind == "scalar":
                return self.reg(item.reg)
            if item.kind == "iota":
                return index(item.axis)
            access = self.inputs[slot]
            return load(access.memory, item.dtype, f"pb_at_{access.memory}({where(access)})")
        op = self.nest.ops[slot - self.n_inputs]
        if slot not in self.gathers:
            return self.operation(op)
        access = self.gathers[slot]
        return load(access.memory, op.dtype, f"pb_at_{access.memory}({where(access)}{self.displacement(op.indexes)})")

    def operation(self, op: NodeOp) -> str:
        """The C expression of a scalar node."""
        args = [f"v{a}" for a in op.args]
        if op.op == "cast":
            return cast(self.nest.slot_dtype(op.args[0]), op.dtype, args[0])
        if op.op == "mov":
            return args[0]
        return f"pb_{BY_NAME[op.op].name}_{op.operand_dtype}({', '.join(args)})"

    # --- loops --------------------------------------------------------------------------------------------------------

    def choose_loops(self) -> None:
        """Set `kept` and `reduced` (axis ids, outer to inner) and `inner`; melt neighbours that are provably one."""
        axes = []
        for a, extent in enumerate(self.extents):
            is_arg = bool(self.mask >> a & 1) and any(self.nest.outs[k].reduce in ARG_REDUCTIONS for k in self.reductions)
            if extent.value != 1 or a in self.iotas or is_arg:
                axes.append(a)
        self.inner = self.choose_inner(axes)
        self.kept = [a for a in axes if not self.mask >> a & 1 and a != self.inner]
        self.reduced = [a for a in axes if self.mask >> a & 1 and a != self.inner]
        self.is_inner_reduced = self.inner >= 0 and bool(self.mask >> self.inner & 1)
        if self.inner >= 0:
            (self.reduced if self.is_inner_reduced else self.kept).append(self.inner)
        if not self.is_scatter:
            self.melt(self.kept)
            self.melt(self.reduced)
        order = [*self.kept, *self.reduced]
        if self.inner >= 0 and not self.is_inner_reduced:
            order = [*self.kept[:-1], *self.reduced, self.inner]
        self.tag = {a: depth for depth, a in enumerate(order)}  # names by depth: equal nests read alike
        self.tests: list[tuple[int, str]] = []  # axes that may melt into the inner one at run time
        group = self.reduced if self.is_inner_reduced else self.kept
        if self.inner >= 0 and not self.is_scatter:
            self.tests = self.melt_tests(group)
        if self.inner >= 0:
            group.remove(self.inner)

    def choose_inner(self, axes: list[int]) -> int:
        if not axes:
            return -1
        if self.is_scatter or self.compressed or len(axes) == 1:  # both keep the program's order
            return axes[-1]

        def score(a: int) -> float:
            total = 0.0
            for access in self.accesses:
                if access.name.startswith("g"):
                    continue
                stride = access.strides[a].value
                weight = 1.0
                if access.name.startswith("o"):  # a reduced output is written once a row
                    weight = 0.2 if self.nest.outs[int(access.name[1:])].reduce != "store" else 1.5
                if stride == access.item_bytes:
                    total += 4 * weight
                elif stride == 0 or (stride is None and a == axes[-1]):
                    total += weight
                else:
                    total -= 3 * weight
            extent = self.extents[a].value
            if extent is not None and extent < 8:
                total -= 6 * len(self.accesses)
            return total

        return max(reversed(axes), key=score)

    def can_melt(self, a: int, b: int) -> bool:
        if a in self.iotas or b in self.iotas:
            return False
        return not (self.mask >> a & 1 and any(self.nest.outs[k].reduce in ARG_REDUCTIONS for k in self.reductions))

    def melt(self, group: list[int]) -> None:
        """Merge axis pairs (outer a, inner b) of a group where stride[a] == extent[b] * stride[b] is proved for all."""
        at = len(group) - 2
        while at >= 0:
            a, b = group[at], group[at + 1]
            try:
                n = self.extents[b].expr
                is_one = self.can_melt(a, b) and all(is_equal(x.strides[a].expr, n * x.strides[b].expr) is True
                                                     for x in self.accesses)
            except OverflowError:
                is_one = False
            if is_one:
                outer, inner = self.extents[a], self.extents[b]
                self.extents[b] = Amount(outer.expr * inner.expr, _product(outer, inner))
                self.extents[a] = number(1)
                group.pop(at)
            at -= 1

    def melt_tests(self, group: list[int]) -> list[tuple[int, str]]:
        """(axis, condition) for neighbours of the inner axis that only a test at run time can merge, inner to outer."""
        tests: list[tuple[int, str]] = []
        b = self.inner
        span = self.extents[b].expr
        for a in reversed(group[:-1]):
            if not self.can_melt(a, b):
                break
            conditions = [f"n{self.tag[t]} == 1" for t, _ in tests]
            for access in self.accesses:
                outer, inner = access.strides[a], access.strides[b]
                try:
                    proved = is_equal(outer.expr, span * inner.expr)
                except OverflowError:
                    proved = None
                if proved is True or (outer.value == 0 and inner.value == 0):
                    continue
                if proved is False or 0 in (outer.value, inner.value):
                    return tests
                conditions.append(f"{outer.text()} == n{self.tag[b]} * {inner.text()}")
            tests.append((a, " && ".join(dict.fromkeys(conditions)) or "1"))
            try:
                span = span * self.extents[a].expr
            except OverflowError:
                break
        return tests

    def loops(self) -> list[int]:
        return [*self.kept, *self.reduced]

    def print_addresses(self) -> None:
        if self.inner >= 0:
            mutable = {a for a, _ in self.tests} | ({self.inner} if self.tests else set())
            for a in [*self.loops(), self.inner]:
                self.out(f"{'' if a in mutable else 'const '}int64_t n{self.tag[a]} = {self.extents[a].text()};")
            for a, condition in self.tests:
                self.out(f"if ({condition}) {{ n{self.tag[self.inner]} *= n{self.tag[a]}; n{self.tag[a]} = 1; }}")
        for access in self.accesses:
            self.out(f"char *{access.name} = {self.address(access, (), str)};")

    def print_loops(self) -> None:
        self.level_of = self.slot_levels()
        self.pointer = {x.name: x.name for x in self.accesses}
        self.emit_level(-1)
        loops = self.loops()
        boundary = len(self.kept)
        if self.inner < 0:
            self.print_point()
            return
        for depth, a in enumerate(loops):
            if depth == boundary:
                self.before_reduction()
            self.out(f"for (int64_t i{self.tag[a]} = 0; i{self.tag[a]} < n{self.tag[a]}; i{self.tag[a]}++) {{")
            self.step_pointers(a, depth)
            self.emit_level(depth)
        if boundary == len(loops):
            self.before_reduction()
        self.print_inner()
        for _ in loops[boundary:]:
            self.out("}")
        self.after_reduction()
        for _ in range(boundary):
            self.out("}")

    def step_pointers(self, a: int, depth: int) -> None:
        for access in self.accesses:
            stride = access.strides[a]
            if stride.value != 0:
                name = f"{access.name}_{depth}"
                self.out(f"char *const {name} = {self.pointer[access.name]} + i{self.tag[a]} * {stride.text()};")
                self.pointer[access.name] = name

    def slot_levels(self) -> list[int]:
        """The loop depth at which each slot is computed: -1 before all loops, len(loops) in the inner one."""
        order = {a: depth for depth, a in enumerate([*self.loops(), self.inner])}
        levels: list[int] = []
        for slot in range(self.n_inputs + len(self.nest.ops)):
            level = max((order[a] for a in self.slot_axes(slot) if a in order), default=-1)
            if slot >= self.n_inputs:
                op = self.nest.ops[slot - self.n_inputs]
                level = max([level, *(levels[s] for s in op.args), *(levels[s] for s, _, _ in op.indexes)])
            levels.append(level)
        return levels

    def emit_level(self, depth: int) -> None:
        """Slots that vary with this loop but with no inner one."""
        for slot, level in enumerate(self.level_of):
            if level == depth:
                self.out(f"const {C_TYPES[self.nest.slot_dtype(slot)]} v{slot} = {self.hoisted_value(slot)};")

    def hoisted_value(self, slot: int) -> str:
        return self.value_at(slot, lambda access: self.pointer[access.name], lambda axis: f"i{self.tag[axis]}")

    def inner_kind(self, access: Access) -> str:
        """How the inner loop addresses a view: 'unit', 'flex' (known at run time only), 'strided', 'fixed'."""
        stride = access.strides[self.inner]
        if stride.value == access.item_bytes:
            return "unit"
        if stride.value == 0:
            return "fixed"
        if stride.value is not None:
            return "strided"
        lo, hi = stride.expr.bounds()
        return "flex" if lo <= access.item_bytes <= hi else "strided"

    def serves(self, slot: int, slots: Sequence[int], memory: str = "") -> bool:
        """Whether an inner reduction may read its values where an input lies. slots: those that vary in the inner loop."""
        access = self.inputs.get(slot)
        return access is not None and slot in slots and self.inner_kind(access) in ("unit", "flex") \
            and access.memory == (memory or self.nest.slot_dtype(slot))

    def print_point(self) -> None:
        """A nest without axes left."""
        raise NotImplementedError

    def before_reduction(self) -> None:
        """What stands in front of the reduced axes."""
        raise NotImplementedError

    def after_reduction(self) -> None:
        """What stands behind the reduced axes."""
        raise NotImplementedError

    def print_inner(self) -> None:
        """The innermost loop."""
        raise NotImplementedError


def _product(a: Amount, b: Amount) -> Callable[[], str]:
    return lambda: f"({a.text()} * {b.text()})"


__all__ = ["ARG_REDUCTIONS", "Access", "Amount", "LoopPrinter", "number"]
