"""A nest as a C function: one loop body over the whole DAG.

Loop order is kept axes, then reduced axes, then the inner axis (kept or reduced), chosen where most accesses are
contiguous. Neighbouring axes melt into one where the strides allow it: proved by the integer algebra, or tested when
the function starts. The inner loop reads contiguous pointers, hoisted scalars or constant strides; where a stride is
only known at run time, blocks of `PB_BLOCK` elements are staged through the stack, so that one loop body serves every
layout. Inner reductions go block by block through the vector accumulators of pb_bundle.h; outer ones keep a block of
accumulators on the stack. What a mask takes is appended block by block. Indices are checked in a pass of their own
before anything is stored, as NumPy does.

Functions are printed from parameters alone, so equal nests of a bundle share one function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..templates.scalars import BY_NAME, MEMORY
from ..vm.plan.code import NestCode, NodeOp, Ref, Reg
from ..vm.plan.extents import Expr, const, is_equal
from .c_text import C_TYPES, cast, combine, identity, literal, load, store
from .known import Known

BLOCK = 256  # PB_BLOCK in pb_bundle.h
_ARG = ("argmax", "argmin")


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


@dataclass(frozen=True)
class NestFunction:
    """A printed nest: the body of a function whose parameters are registers, or addresses (base, offset) of views.

    params: (register, -1 or the offset register, type). It returns 0, or n when check n failed (`positions[n - 1]` is
    the instruction to blame).
    """

    body: str
    params: tuple[tuple[Reg, Reg, str], ...]
    positions: tuple[int, ...]
    label: str


def split_nest(nest: NestCode) -> list[NestCode]:
    """Nests that each reduce over one set of axes; the last has the stores (they may overwrite what others read)."""
    masks: list[int] = []
    for out in nest.outs:
        if out.reduce != "store" and out.reduced not in masks:
            masks.append(out.reduced)
    if len(masks) <= 1:
        return [nest]
    inputs = {(i.ref.base, i.ref.offset) for i in nest.inputs if i.ref is not None}

    def is_risky(mask: int) -> bool:  # writes where an input lies
        return any((o.ref.base, o.ref.offset) in inputs for o in nest.outs if o.reduce != "store" and o.reduced == mask)

    masks.sort(key=is_risky)
    parts = []
    for mask in masks:
        outs = tuple(o for o in nest.outs if (o.reduce != "store" and o.reduced == mask)
                     or (o.reduce == "store" and mask == masks[-1]))
        parts.append(replace(nest, outs=outs))
    return parts


class _Lines:
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


def print_nest(nest: NestCode, known: Known, types: Sequence[str],
               constants: Callable[[Reg], str | None]) -> NestFunction:
    """The C body of a nest (one that `split_nest` returned). constants: a register's literal, where it is one."""
    return _Printer(nest, known, types, constants).run()


@dataclass
class _Printer:
    nest: NestCode
    known: Known
    types: Sequence[str]
    constants: Callable[[Reg], str | None]
    params: dict[tuple[Reg, Reg], str] = field(default_factory=dict)
    out: _Lines = field(default_factory=_Lines)
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

    def run(self) -> NestFunction:
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
        self.check_indices()
        self.choose_loops()
        self.print_addresses()
        self.print_loops()
        return NestFunction(self.out.text(), tuple((*key, self.types[key[0]]) for key in self.params),
                            tuple(self.positions), self.label())

    def label(self) -> str:
        """What the nest does, for a profiler's eye: `exp_sum_f32`."""
        names = [op.op for op in self.nest.ops if op.op not in ("cast", "mov")]
        names += [o.reduce for o in self.nest.outs if o.reduce != "store"]
        short = list(dict.fromkeys(names))
        dtype = self.nest.slot_dtype(self.nest.outs[0].slot) if self.nest.outs else "none"
        return "_".join([*(short if len(short) <= 3 else [*short[:2], short[-1]]), dtype]) if short else f"copy_{dtype}"

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
        if slot < self.n_inputs:
            item = self.nest.inputs[slot]
            if item.kind == "scalar":
                return self.reg(item.reg)
            if item.kind == "iota":
                return f"i{item.axis}"
            access = self.inputs[slot]
            where = self.address(access, range(len(self.extents)), lambda a: f"i{a}")
            return load(access.memory, item.dtype, f"pb_at_{access.memory}({where})")
        op = self.nest.ops[slot - self.n_inputs]
        if slot in self.gathers:
            access = self.gathers[slot]
            where = self.address(access, range(len(self.extents)), lambda a: f"i{a}") + self.displacement(op.indexes)
            return load(access.memory, op.dtype, f"pb_at_{access.memory}({where})")
        return self.operation(op)

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
            is_arg = bool(self.mask >> a & 1) and any(self.nest.outs[k].reduce in _ARG for k in self.reductions)
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
        return not (self.mask >> a & 1 and any(self.nest.outs[k].reduce in _ARG for k in self.reductions))

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
        if slot < self.n_inputs:
            item = self.nest.inputs[slot]
            if item.kind == "scalar":
                return self.reg(item.reg)
            if item.kind == "iota":
                return f"i{self.tag[item.axis]}"
            access = self.inputs[slot]
            return load(access.memory, item.dtype, f"pb_at_{access.memory}({self.pointer[access.name]})")
        op = self.nest.ops[slot - self.n_inputs]
        if slot in self.gathers:
            access = self.gathers[slot]
            return load(access.memory, op.dtype,
                        f"pb_at_{access.memory}({self.pointer[access.name]}{self.displacement(op.indexes)})")
        return self.operation(op)

    # --- the innermost loop -------------------------------------------------------------------------------------------

    def print_point(self) -> None:
        """A nest without axes left: one point, and each reduction sees one value."""
        for k, out in enumerate(self.nest.outs):
            access = self.outs[k]
            value = "0" if out.reduce in _ARG else f"v{out.slot}"
            dtype = "i64" if out.reduce in _ARG else self.nest.slot_dtype(out.slot)
            target = f"pb_at_{access.memory}({access.name}{self.displacement(out.indexes)})"
            text = f"{target} = {store(dtype, access.memory, value)};"
            self.out(f"if (v{out.mask}) {{ {text} }}" if out.mask >= 0 else text)

    def before_reduction(self) -> None:
        """Accumulators; for outer reductions also the loop over blocks of the inner axis."""
        if not self.reductions:
            return
        if not self.is_inner_reduced:
            n = f"n{self.tag[self.inner]}"
            self.out(f"for (int64_t j = 0; j < {n}; j += PB_BLOCK) {{")
            self.out(f"const int64_t m = {n} - j < PB_BLOCK ? {n} - j : PB_BLOCK;")
        for k in self.reductions:
            out = self.nest.outs[k]
            dtype = self.nest.slot_dtype(out.slot)
            if k in self.compressed:
                self.out(f"char *s{k} = {self.outs[k].name};")
            elif self.is_inner_reduced:
                self.out(f"pb_fold_{out.reduce}_{dtype} s{k};")
                self.out(f"pb_fold_{out.reduce}_begin_{dtype}(&s{k});")
            else:
                self.out(f"{C_TYPES[dtype]} s{k}[PB_BLOCK];")
                if out.reduce in _ARG:
                    self.out(f"int64_t s{k}_at[PB_BLOCK];")
                    self.out(f"for (int64_t l = 0; l < m; l++) {{ s{k}[l] = 0; s{k}_at[l] = -1; }}")
                else:
                    self.out(f"for (int64_t l = 0; l < m; l++) s{k}[l] = {identity(out.reduce, dtype)};")

    def after_reduction(self) -> None:
        for k in self.reductions:
            if k in self.compressed:
                continue
            out, access = self.nest.outs[k], self.outs[k]
            dtype = self.nest.slot_dtype(out.slot)
            result = "i64" if out.reduce in _ARG else dtype
            if self.is_inner_reduced:
                value = store(result, access.memory, f"pb_fold_{out.reduce}_end_{dtype}(&s{k})")
                self.out(f"pb_at_{access.memory}({self.pointer[access.name]}) = {value};")
            else:
                stride = access.strides[self.inner]
                step = str(access.item_bytes) if stride.value == access.item_bytes else stride.text()
                value = store(result, access.memory, f"s{k}_at[l]" if out.reduce in _ARG else f"s{k}[l]")
                target = f"pb_at_{access.memory}({self.pointer[access.name]} + (j + l) * {step})"
                self.out("#pragma GCC ivdep")
                self.out(f"for (int64_t l = 0; l < m; l++) {target} = {value};")
        if self.reductions and not self.is_inner_reduced:
            self.out("}")

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

    def print_inner(self) -> None:
        depth = len(self.loops())
        slots = [s for s, level in enumerate(self.level_of) if level == depth]
        inputs = [self.inputs[s] for s in slots if s in self.inputs]
        stores = [k for k in range(len(self.nest.outs)) if k not in self.reductions]
        flex_in = [x for x in inputs if self.inner_kind(x) == "flex"]
        flex_out = [self.outs[k] for k in stores if self.inner_kind(self.outs[k]) == "flex"
                    and self.nest.outs[k].mask < 0 and not self.nest.outs[k].indexes]
        extent = self.extents[self.inner].value
        in_blocks = bool(self.reductions) or bool(flex_in) or bool(flex_out)
        if not in_blocks:
            self.out(f"const int64_t m = n{self.tag[self.inner]};")
            first = ""
        elif self.reductions and not self.is_inner_reduced:
            first = "j + "
        else:
            self.out(f"for (int64_t j = 0; j < n{self.tag[self.inner]}; j += PB_BLOCK) {{")
            small = extent is not None and extent <= BLOCK and not self.tests
            n = f"n{self.tag[self.inner]}"
            self.out(f"const int64_t m = {n if small else f'{n} - j < PB_BLOCK ? {n} - j : PB_BLOCK'};")
            first = "j + "
        self.direct: dict[tuple[int, str], str] = {}
        for access in [*inputs, *(self.outs[k] for k in stores)]:
            self.print_inner_pointer(access, first, access in flex_in, access in flex_out)
        buffered = self.reduction_buffers(slots, stores)
        early = [k for k in self.reductions if k not in self.compressed and self.is_inner_reduced
                 and self.direct[k, "value"] not in buffered.values()]
        for k in early:  # a store may overwrite in place what they read
            self.print_fold(k)
        if stores or buffered or (self.reductions and not self.is_inner_reduced):
            self.print_inner_loop(slots, stores, flex_out, first, buffered)
        for access in flex_out:
            s = access.strides[self.inner].text()
            target = f"pb_at_{access.memory}({access.name}_b + l * {s})"
            self.out(f"if ({access.name}_p == {access.name}_t) "
                     f"for (int64_t l = 0; l < m; l++) {target} = {access.name}_t[l];")
        if self.reductions and self.is_inner_reduced:
            for k in self.reductions:
                if k not in early:
                    self.print_fold(k)
        if in_blocks and not (self.reductions and not self.is_inner_reduced):
            self.out("}")

    def print_fold(self, k: int) -> None:
        """Take a block of values into an inner reduction."""
        out, value = self.nest.outs[k], self.direct[k, "value"]
        if k in self.compressed:
            item = self.outs[k].item_bytes
            self.out(f"s{k} += {item} * pb_compress_raw({item}, s{k}, {self.direct[k, 'mask']}, (const char *){value}, m);")
            return
        at = ", j" if out.reduce in _ARG else ""
        self.out(f"pb_fold_{out.reduce}_block_{self.nest.slot_dtype(out.slot)}(&s{k}, {value}, m{at});")

    def print_inner_pointer(self, access: Access, first: str, is_flex_in: bool, is_flex_out: bool) -> None:
        kind, name, here = self.inner_kind(access), access.name, self.pointer[access.name]
        ctype = f"pb_mem_{access.memory}"
        stride = access.strides[self.inner]
        step = f" + j * {stride.text()}" if first and stride.value != 0 else ""
        self.out(f"char *const {name}_b = {here}{step};")
        if kind == "unit":
            self.out(f"{ctype} *const {name}_p = ({ctype} *){name}_b;")
        elif is_flex_in:
            s = stride.text()
            self.out(f"{ctype} {name}_t[PB_BLOCK];")
            self.out(f"const {ctype} *{name}_p = (const {ctype} *){name}_b;")
            self.out(f"if ({s} != {access.item_bytes}) {{")
            self.out(f"for (int64_t l = 0; l < m; l++) {name}_t[l] = pb_at_{access.memory}({name}_b + l * {s});")
            self.out(f"{name}_p = {name}_t;")
            self.out("}")
        elif is_flex_out:
            self.out(f"{ctype} {name}_t[PB_BLOCK];")
            test = f"{stride.text()} == {access.item_bytes}"
            self.out(f"{ctype} *const {name}_p = {test} ? ({ctype} *){name}_b : {name}_t;")

    def reduction_buffers(self, slots: list[int], stores: list[int]) -> dict[tuple[int, str], str]:
        """Stack blocks (slot, memory dtype) -> name that the values of inner reductions pass through; where an input serves in
        place there is none. Sets `direct`: the C text of a reduction's values, and of a compression's mask."""
        made: dict[tuple[int, str], str] = {}
        if not self.is_inner_reduced:
            return made
        written = {self.outs[k].base for k in stores}
        for k in self.reductions:
            out = self.nest.outs[k]
            wanted = [("value", out.slot, out.memory if k in self.compressed else self.nest.slot_dtype(out.slot))]
            if k in self.compressed:
                wanted.append(("mask", out.mask, "bool"))
            for what, slot, memory in wanted:
                access = self.inputs.get(slot)
                serves = access is not None and access.memory == memory and self.inner_kind(access) in ("unit", "flex")
                if serves and access is not None and slot in slots and not (k in self.compressed and access.base in written):
                    self.direct[k, what] = f"(const pb_{memory} *){access.name}_p"
                    continue
                if (slot, memory) not in made:
                    name = made[slot, memory] = f"t{len(made)}"
                    self.out(f"pb_{memory} {name}[PB_BLOCK] __attribute__((aligned(64)));")
                self.direct[k, what] = made[slot, memory]
        return made

    def print_inner_loop(self, slots: list[int], stores: list[int], flex_out: list[Access], first: str,
                         buffered: dict[tuple[int, str], str]) -> None:
        nest = self.nest
        needed = self.slots_needed([*(nest.outs[k].slot for k in stores), *(slot for slot, _ in buffered),
                                    *(nest.outs[k].mask for k in stores if nest.outs[k].mask >= 0),
                                    *(s for k in stores for s, _, _ in nest.outs[k].indexes),
                                    *(nest.outs[k].slot for k in self.reductions if not self.is_inner_reduced)])
        if not self.is_scatter:
            self.out("#pragma GCC ivdep")
        self.out("for (int64_t l = 0; l < m; l++) {")
        for slot in slots:
            if slot in needed:
                self.out(f"const {C_TYPES[nest.slot_dtype(slot)]} v{slot} = {self.inner_value(slot, first)};")
        for (slot, memory), name in buffered.items():
            self.out(f"{name}[l] = {store(nest.slot_dtype(slot), memory, f'v{slot}')};")
        if not self.is_inner_reduced:
            for k in self.reductions:
                self.accumulate(k)
        for k in stores:
            self.print_store(k, flex_out)
        self.out("}")

    def inner_value(self, slot: int, first: str) -> str:
        if slot < self.n_inputs:
            item = self.nest.inputs[slot]
            if item.kind == "iota":
                return f"{first}l"
            access = self.inputs[slot]
            return load(access.memory, item.dtype, self.inner_element(access))
        op = self.nest.ops[slot - self.n_inputs]
        if slot in self.gathers:
            access = self.gathers[slot]
            stride = access.strides[self.inner]
            step = "" if stride.value == 0 else f" + ({first}l) * {stride.text()}"
            where = f"{self.pointer[access.name]}{step}{self.displacement(op.indexes)}"
            return load(access.memory, op.dtype, f"pb_at_{access.memory}({where})")
        return self.operation(op)

    def inner_element(self, access: Access) -> str:
        kind = self.inner_kind(access)
        if kind in ("unit", "flex"):
            return f"{access.name}_p[l]"
        return f"pb_at_{access.memory}({access.name}_b + l * {access.strides[self.inner].text()})"

    def accumulate(self, k: int) -> None:
        out = self.nest.outs[k]
        dtype = self.nest.slot_dtype(out.slot)
        v = f"v{out.slot}"
        if out.reduce in _ARG:
            position = f"i{self.tag[self.reduced[0]]}"
            self.out(f"const int take{k} = pb_fold_{out.reduce}_takes_{dtype}({v}, s{k}[l], s{k}_at[l]);")
            self.out(f"s{k}[l] = take{k} ? {v} : s{k}[l];")
            self.out(f"s{k}_at[l] = take{k} ? {position} : s{k}_at[l];")
        else:
            self.out(f"s{k}[l] = {combine(out.reduce, dtype, f's{k}[l]', v)};")

    def print_store(self, k: int, flex_out: list[Access]) -> None:
        out, access = self.nest.outs[k], self.outs[k]
        value = store(self.nest.slot_dtype(out.slot), access.memory, f"v{out.slot}")
        kind = self.inner_kind(access)
        if out.indexes:
            stride = access.strides[self.inner]
            target = f"pb_at_{access.memory}({access.name}_b + l * {stride.text()}{self.displacement(out.indexes)})"
        elif kind == "unit" or access in flex_out:
            target = f"{access.name}_p[l]"
        else:
            target = f"pb_at_{access.memory}({access.name}_b + l * {access.strides[self.inner].text()})"
        if out.mask < 0:
            self.out(f"{target} = {value};")
        elif kind == "unit" and not out.indexes:  # a blend vectorises; the element belongs to this nest either way
            self.out(f"{target} = v{out.mask} ? {value} : {target};")
        else:
            self.out(f"if (v{out.mask}) {{ {target} = {value}; }}")


def _product(a: Amount, b: Amount) -> Callable[[], str]:
    return lambda: f"({a.text()} * {b.text()})"


__all__ = ["BLOCK", "NestFunction", "print_nest", "split_nest"]
