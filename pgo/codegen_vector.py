"""The innermost loop in vectors: operation by operation over several registers, the last elements through the same functions.

Only where every value of the loop fits lanes of one width: float32 with int32 and truth values, or float64 with int64 and
truth values, in memory as in registers. Everything else stays a loop over elements (codegen_nest.py), which the compiler
vectorises as well as it can. What an element becomes does not depend on where it stands: whole groups of registers, single
registers and the few elements at the end go through the same functions (pb_vector.h), and these give lane by lane what
pb_scalar.h gives.

Where several long operations follow each other the loop becomes one loop for each, over blocks that pass what later ones need
through the first-level cache: side by side their constants and intermediate values would not fit the registers.

How many registers go together is a matter of latency against registers: independent ones fill the pipelines while one
waits, until their values no longer fit the register file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..templates.scalars import GUARDED
from ..vm.plan.code import NodeOp

if TYPE_CHECKING:
    from .codegen_loops import Access, LoopPrinter

_FAMILIES = ({"f32", "i32", "bool"}, {"f64", "i64", "bool"})
_ACCUMULATED = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
# Dozens of instructions each, with intermediate values and constants of their own.
_LONG = {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "erf", "arcsin", "arccos", "arctan",
         "arctan2", "hypot", *GUARDED}
# Of these, the ones with so many values in flight that four registers side by side spill.
_WIDE = {"arctan", "hypot"}
# No vector form at all: a call an element.
_CALLS = {"cbrt", "arcsinh", "arccosh", "arctanh", "logaddexp", "mod", "fmod", "floordiv"}


class VectorLoop:
    """The loop `for l in range(m)` of a nest. slots: what varies in it; stores: outputs that it stores.

    fits: whether it can be written in vectors, and has arithmetic on floats that makes it worth while. carried: the inner
    reductions (outputs) that registers then carry from one trip to the next, folded once a block.
    """

    def __init__(self, printer: LoopPrinter, slots: Sequence[int], stores: Sequence[int]) -> None:
        self.p, self.stores, self.nest = printer, stores, printer.nest
        self.n_inputs = printer.n_inputs
        self.accumulated = [] if printer.is_inner_reduced else printer.reductions
        folded = printer.reductions if printer.is_inner_reduced else []
        computed = [k for k in folded if self.nest.outs[k].slot >= self.n_inputs and self.nest.outs[k].slot in slots]
        taken = [k for k in folded if k in computed or not printer.serves(self.nest.outs[k].slot, slots)]
        read = {self.nest.outs[k].slot for k in [*stores, *self.accumulated, *taken]}
        read |= {self.nest.outs[k].mask for k in stores if self.nest.outs[k].mask >= 0}
        needed = printer.slots_needed(read)
        self.slots = [slot for slot in slots if slot in needed]
        self.ops = [self.nest.ops[slot - self.n_inputs] for slot in self.slots if slot >= self.n_inputs]
        read |= {a for op in self.ops for a in op.args}
        self.spread = sorted(read - set(self.slots))
        dtypes = {self.nest.slot_dtype(slot) for slot in self.slots}
        dtypes |= {op.operand_dtype for op in self.ops if op.operand_dtype}
        self.family = next((f for f in _FAMILIES if dtypes <= f), set[str]())
        self.bits = "32" if "f32" in self.family else "64"
        self.lanes = f"PB_V_f{self.bits}"
        self.buffered: dict[tuple[int, str], str] = {}
        self.fits = self.is_possible(taken)
        self.carried = [k for k in computed if self.fits and self.is_carried(k)]
        self.stages = self.plan_stages() if self.fits else []

    # --- whether ------------------------------------------------------------------------------------------------------

    def is_possible(self, taken: list[int]) -> bool:
        """taken: the inner reductions of values that the loop makes or loads."""
        nest, p = self.nest, self.p
        if not self.family or not any(self.is_float(op) for op in self.ops) or any(op.op in _CALLS for op in self.ops):
            return False
        for slot in self.slots:
            if slot < self.n_inputs:
                item = nest.inputs[slot]
                if item.kind == "iota" or item.dtype == "bool" or item.memory != item.dtype:
                    return False
            elif slot in p.gathers:
                return False
        if p.compressed or any(nest.outs[k].reduce not in _ACCUMULATED for k in self.accumulated):
            return False
        native = {k: nest.slot_dtype(nest.outs[k].slot) for k in [*self.stores, *self.accumulated, *taken]}
        if any(dtype == "bool" or dtype not in self.family for dtype in native.values()):
            return False
        for k in self.stores:
            out = nest.outs[k]
            if out.memory != native[k] or out.indexes:
                return False
            if out.mask >= 0 and (p.inner_kind(p.outs[k]) != "unit" or nest.slot_dtype(out.mask) != "bool"):
                return False
        return True

    def is_carried(self, k: int) -> bool:
        out = self.nest.outs[k]
        return out.reduce in _ACCUMULATED and self.nest.slot_dtype(out.slot) in ("f32", "f64")

    @staticmethod
    def is_float(op: NodeOp) -> bool:
        return op.op != "mov" and (op.dtype in ("f32", "f64") or op.operand_dtype in ("f32", "f64"))

    # --- stages -------------------------------------------------------------------------------------------------------

    @property
    def is_staged(self) -> bool:
        """Whether the loop wants to be called for at most PB_BLOCK elements at a time."""
        return len(self.stages) > 1

    def plan_stages(self) -> list[list[int]]:
        """The operations' slots, in loops of their own with at most one long operation in each."""
        stage_of: dict[int, int] = {}
        taken: set[int] = set()
        for slot in self.slots:
            if slot < self.n_inputs:
                continue
            op = self.nest.ops[slot - self.n_inputs]
            stage = max((stage_of.get(a, 0) for a in op.args), default=0)
            if op.op in _LONG:
                while stage in taken:
                    stage += 1
                taken.add(stage)
            stage_of[slot] = stage
        stages: list[list[int]] = [[] for _ in range(max(stage_of.values()) + 1)]
        for slot, stage in stage_of.items():
            stages[stage].append(slot)
        return stages

    def width(self, slots: Sequence[int]) -> int:
        """How many registers go together in a loop over these operations."""
        names = {self.nest.ops[slot - self.n_inputs].op for slot in slots}
        return 1 if names & {*GUARDED} else 2 if names & _WIDE else 4

    # --- text ---------------------------------------------------------------------------------------------------------

    def print(self, buffered: dict[tuple[int, str], str]) -> None:
        """buffered: (slot, memory dtype) -> block on the stack that an inner reduction takes afterwards."""
        out = self.p.out
        self.buffered, self.inside = buffered, set(self.slots)
        for slot in self.spread:
            out(f"const pb_v_{self.kind(slot)} w{slot} = pb_v_fill_{self.kind(slot)}(v{slot});")
        last = self.stages[-1]
        ends = self.results()
        self.passed = {a for stage in self.stages for slot in stage for a in self.nest.ops[slot - self.n_inputs].args
                       if a >= self.n_inputs and a in self.inside and a not in stage}
        self.passed |= {slot for slot in ends if slot >= self.n_inputs and slot in self.inside and slot not in last}
        for slot in sorted(self.passed):
            out(f"pb_i{self.bits} z{slot}[PB_BLOCK] __attribute__((aligned(64)));")
        for stage in self.stages:
            self.print_stage(stage, is_last=stage is last)

    def results(self) -> set[int]:
        """Slots that stores, reductions and buffers take."""
        found = {slot for slot, _ in self.buffered}
        found |= {self.nest.outs[k].slot for k in [*self.stores, *self.accumulated, *self.carried]}
        return found | {self.nest.outs[k].mask for k in self.stores if self.nest.outs[k].mask >= 0}

    def print_stage(self, stage: list[int], is_last: bool) -> None:
        out, width = self.p.out, self.width(stage)
        copies = [f"_{u}" for u in range(width)] if width > 1 else [""]
        read = {a for slot in stage for a in self.nest.ops[slot - self.n_inputs].args} | (self.results() if is_last else set())
        self.loads = sorted((read & self.inside) - set(stage))
        self.first = copies[0]
        out("{")
        for k in self.carried if is_last else ():
            for copy in copies:
                out(f"pb_carry_{self.carry(k)} q{k}{copy} = pb_carry_{self.carry(k, 'begin')}();")
        out("int64_t l = 0;")
        if width > 1:
            out(f"for (; l + {width} * {self.lanes} <= m; l += {width} * {self.lanes}) {{")
            self.body(stage, copies, is_whole=True, is_last=is_last)
            out("}")
        out(f"for (; l < m; l += {self.lanes}) {{")
        self.body(stage, [""], is_whole=False, is_last=is_last)
        out("}")
        for k in self.carried if is_last else ():
            step = width // 2
            while step:  # neighbours meet as a tree
                for u in range(step):
                    out(f"pb_carry_{self.carry(k, 'join')}(&q{k}_{u}, &q{k}_{u + step});")
                step //= 2
            reduce, dtype = self.nest.outs[k].reduce, self.nest.slot_dtype(self.nest.outs[k].slot)
            out(f"pb_fold_{reduce}_carry_{dtype}(&s{k}, &q{k}{copies[0]});")
        out("}")

    def carry(self, k: int, step: str = "") -> str:
        """Name of a carried reduction's type, or of a step of it."""
        out = self.nest.outs[k]
        return "_".join(filter(None, (out.reduce, step, self.nest.slot_dtype(out.slot))))

    def kind(self, slot: int) -> str:
        """The vector type of a slot."""
        dtype = self.nest.slot_dtype(slot)
        return f"b{self.bits}" if dtype == "bool" else dtype

    def value(self, slot: int, copy: str) -> str:
        return f"w{slot}{copy}" if slot in self.inside else f"w{slot}"

    def body(self, stage: list[int], copies: list[str], is_whole: bool, is_last: bool) -> None:
        """Every slot for each of the registers, then what is stored of them."""
        out = self.p.out
        places = ["l" if u == 0 else f"l + {u} * {self.lanes}" for u in range(len(copies))]
        for slot in [*self.loads, *stage]:
            if len(copies) == 4 and slot in stage and self.is_open_extremum(self.nest.ops[slot - self.n_inputs]):
                self.extrema(slot, copies)
                continue
            for copy, place in zip(copies, places, strict=True):
                text = self.operation(self.nest.ops[slot - self.n_inputs], copy) if slot in stage else \
                    self.load(slot, place, is_whole)
                out(f"const pb_v_{self.kind(slot)} w{slot}{copy} = {text};")
        for slot in stage:
            for copy, place in zip(copies, places, strict=True):
                if slot in self.passed:  # whole registers: blocks are multiples of them
                    out(f"pb_v_put_i{self.bits}(z{slot} + {place}, (pb_v_i{self.bits})w{slot}{copy});")
        for copy, place in zip(copies, places, strict=True) if is_last else ():
            for k in self.carried:
                o = self.nest.outs[k]
                rest = "" if is_whole else ", m - l"
                step = self.carry(k, "take" if is_whole else "take_head")
                out(f"pb_carry_{step}(&q{k}{copy or self.first}, {self.value(o.slot, copy)}{rest});")
            for (slot, memory), name in self.buffered.items():
                out(f"pb_v_put_{memory}({name} + {place}, {self.value(slot, copy)});")
            for k in self.accumulated:
                o = self.nest.outs[k]
                dtype = self.nest.slot_dtype(o.slot)
                now = f"pb_v_{_ACCUMULATED[o.reduce]}_{dtype}(pb_v_at_{dtype}(s{k} + {place}), {self.value(o.slot, copy)})"
                out(f"pb_v_put_{dtype}(s{k} + {place}, {now});")
            for k in self.stores:
                self.store(k, copy, place, is_whole)

    def load(self, slot: int, place: str, is_whole: bool) -> str:
        if slot >= self.n_inputs:
            return f"(pb_v_{self.kind(slot)})pb_v_at_i{self.bits}(z{slot} + {place})"
        access = self.p.inputs[slot]
        dtype = access.memory
        if self.p.inner_kind(access) in ("unit", "flex"):
            return self.head(access, place, is_whole)
        where, step = self.element(access, place)
        return f"pb_v_pick_{dtype}({where}, {step}, {self.lanes if is_whole else 'm - l'})"

    @staticmethod
    def head(access: Access, place: str, is_whole: bool) -> str:
        where = f"{access.name}_p + {place}"
        return f"pb_v_at_{access.memory}({where})" if is_whole else f"pb_v_head_{access.memory}({where}, m - l)"

    def element(self, access: Access, place: str) -> tuple[str, str]:
        """C text of a strided view's element, and of the step to the next one."""
        step = access.strides[self.p.inner].text()
        return f"{access.name}_b + ({place}) * {step}", step

    def store(self, k: int, copy: str, place: str, is_whole: bool) -> None:
        o, access = self.nest.outs[k], self.p.outs[k]
        value, dtype = self.value(o.slot, copy), access.memory
        if self.p.inner_kind(access) not in ("unit", "flex"):
            where, step = self.element(access, place)
            self.p.out(f"pb_v_drop_{dtype}({where}, {value}, {step}, {self.lanes if is_whole else 'm - l'});")
            return
        if o.mask >= 0:  # the element belongs to this nest either way
            value = f"pb_v_select_{dtype}({self.value(o.mask, copy)}, {value}, {self.head(access, place, is_whole)})"
        where = f"{access.name}_p + {place}"
        self.p.out(f"pb_v_put_{dtype}({where}, {value});" if is_whole else f"pb_v_put_head_{dtype}({where}, {value}, m - l);")

    def operation(self, op: NodeOp, copy: str) -> str:
        args = [self.value(a, copy) for a in op.args]
        kinds = [self.kind(a) for a in op.args]
        if op.op == "mov":
            return args[0]
        if op.op == "cast":
            to = f"b{self.bits}" if op.dtype == "bool" else op.dtype
            return args[0] if kinds[0] == to else f"pb_v_cast_{kinds[0]}_{to}({args[0]})"
        kind = f"b{self.bits}" if op.operand_dtype == "bool" else op.operand_dtype
        if op.op in ("maximum", "minimum") and kind[0] == "f":
            return self.extremum(op, args, kind)
        return f"pb_v_{op.op}_{kind}({', '.join(args)})"

    def extremum(self, op: NodeOp, args: list[str], kind: str) -> str:
        """maximum or minimum; one instruction where a side is known to be a number, and no zero."""
        a, b = args
        name, keeps = ("greater", "ge") if op.op == "maximum" else ("lesser", "le")
        first, second = (self.number(slot) for slot in op.args)
        if second is not None:
            return f"pb_v_{name}_{kind}({b}, {a})" if second else f"pb_v_select_{kind}(pb_v_{keeps}_{kind}({b}, {a}), {b}, {a})"
        return f"pb_v_{name if first is not None else op.op}_{kind}({a}, {b})"

    def is_open_extremum(self, op: NodeOp) -> bool:
        """Whether it is maximum or minimum of floats of which neither side is known."""
        return op.op in ("maximum", "minimum") and op.operand_dtype in ("f32", "f64") and \
            all(self.number(slot) is None for slot in op.args)

    def extrema(self, slot: int, copies: list[str]) -> None:
        """Such an operation for four registers: its instruction loses a NaN of the first operand, which is seldom there. So one
        question for all of them takes the place of a comparison and a choice in each."""
        out, op, kind = self.p.out, self.nest.ops[slot - self.n_inputs], self.kind(slot)
        name = "greater" if op.op == "maximum" else "lesser"
        first, second = ([self.value(a, copy) for copy in copies] for a in op.args)
        out(f"pb_v_{kind} {', '.join(f'w{slot}{copy}' for copy in copies)};")
        out(f"if (__builtin_expect(pb_v_numbers_{kind}({', '.join(first)}), 1)) {{")
        for copy, a, b in zip(copies, first, second, strict=True):
            out(f"w{slot}{copy} = pb_v_{name}_{kind}({a}, {b});")
        out("} else {")
        for copy, a, b in zip(copies, first, second, strict=True):
            out(f"w{slot}{copy} = pb_v_careful_{op.op}_{kind}({a}, {b});")
        out("}")

    def number(self, slot: int) -> float | None:
        """The value of a slot that is a literal and not NaN, or None."""
        item = self.nest.inputs[slot] if slot < self.n_inputs else None
        text = self.p.constants(item.reg) if item is not None and item.kind == "scalar" else None
        if text is None or "nan" in text:
            return None
        return float("inf") if "inf" in text else float.fromhex(text.strip("()").rstrip("f"))


__all__ = ["VectorLoop"]
