"""A nest as a C function: one loop body over the whole DAG.

The loops around the innermost one are codegen_loops.py's. The inner loop reads contiguous pointers, hoisted scalars or
constant strides; where a stride is only known at run time, blocks of `PB_BLOCK` elements are staged through the stack, so
that one loop body serves every layout. Where all its values fit lanes of one width it is written in vectors
(codegen_vector.py), else element by element for the compiler to vectorise. Inner reductions go block by block through the
vector accumulators of pb_bundle.h; outer ones keep a block of accumulators on the stack. What a mask takes is appended
block by block. Indices are checked in a pass of their own before anything is stored, as NumPy does.

Functions are printed from parameters alone, so equal nests of a bundle share one function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..vm.plan.code import NestCode, Reg
from .c_text import C_TYPES, combine, identity, load, store
from .codegen_loops import ARG_REDUCTIONS, Access, LoopPrinter
from .codegen_vector import VectorLoop
from .known import Known

BLOCK = 256  # PB_BLOCK in pb_bundle.h
FEW = 64  # elements whose copy costs less than the call of `pb_copy`


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
    is_copy: bool = False  # it calls `pb_copy`


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


def print_nest(nest: NestCode, known: Known, types: Sequence[str],
               constants: Callable[[Reg], str | None]) -> NestFunction:
    """The C body of a nest (one that `split_nest` returned). constants: a register's literal, where it is one."""
    return _Printer(nest, known, types, constants).run()


class _Printer(LoopPrinter):
    """The innermost loop of a nest."""

    def run(self) -> NestFunction:
        self.set_up()
        if self.is_copy():
            self.print_copy()
            return NestFunction(self.out.text(), tuple((*key, self.types[key[0]]) for key in self.params), (), self.label(), True)
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

    # --- copies -------------------------------------------------------------------------------------------------------

    def is_copy(self) -> bool:
        """Whether the nest only copies, and `pb_copy` does it better than a loop: more than one axis, not a few elements, or of a
        type that would be converted on the way."""
        nest = self.nest
        if nest.ops or len(nest.outs) != 1 or list(self.inputs) != [0] or len(nest.inputs) != 1:
            return False
        out, item = nest.outs[0], nest.inputs[0]
        if out.reduce != "store" or out.mask >= 0 or out.indexes or out.memory != item.memory:
            return False
        extents = [x.value for x in self.extents if x.value != 1]
        known = [n for n in extents if n is not None]
        if item.memory == item.dtype and (len(extents) < 2 or (known == extents and math.prod(known) < FEW)):
            return False
        return bool(extents)

    def print_copy(self) -> None:
        source, target = self.inputs[0], self.outs[0]
        axes = [a for a, extent in enumerate(self.extents) if extent.value != 1]
        for name, values in (("n", self.extents), ("to", target.strides), ("from", source.strides)):
            self.out(f"int64_t {name}[] = {{{', '.join(values[a].text() for a in axes)}}};")
        ends = f"{self.address(target, (), str)}, {self.address(source, (), str)}"
        self.out(f"pb_copy({ends}, {source.item_bytes}, {len(axes)}, n, to, from);")

    # --- the innermost loop -------------------------------------------------------------------------------------------

    def print_point(self) -> None:
        """A nest without axes left: one point, and each reduction sees one value."""
        for k, out in enumerate(self.nest.outs):
            access = self.outs[k]
            value = "0" if out.reduce in ARG_REDUCTIONS else f"v{out.slot}"
            dtype = "i64" if out.reduce in ARG_REDUCTIONS else self.nest.slot_dtype(out.slot)
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
                if out.reduce in ARG_REDUCTIONS:
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
            result = "i64" if out.reduce in ARG_REDUCTIONS else dtype
            if self.is_inner_reduced:
                value = store(result, access.memory, f"pb_fold_{out.reduce}_end_{dtype}(&s{k})")
                self.out(f"pb_at_{access.memory}({self.pointer[access.name]}) = {value};")
            else:
                stride = access.strides[self.inner]
                step = str(access.item_bytes) if stride.value == access.item_bytes else stride.text()
                value = store(result, access.memory, f"s{k}_at[l]" if out.reduce in ARG_REDUCTIONS else f"s{k}[l]")
                target = f"pb_at_{access.memory}({self.pointer[access.name]} + (j + l) * {step})"
                self.out("PB_VECTOR")
                self.out(f"for (int64_t l = 0; l < m; l++) {target} = {value};")
        if self.reductions and not self.is_inner_reduced:
            self.out("}")

    def print_inner(self) -> None:
        depth = len(self.loops())
        slots = [s for s, level in enumerate(self.level_of) if level == depth]
        inputs = [self.inputs[s] for s in slots if s in self.inputs]
        stores = [k for k in range(len(self.nest.outs)) if k not in self.reductions]
        flex_in = [x for x in inputs if self.inner_kind(x) == "flex"]
        flex_out = [self.outs[k] for k in stores if self.inner_kind(self.outs[k]) == "flex"
                    and self.nest.outs[k].mask < 0 and not self.nest.outs[k].indexes]
        extent = self.extents[self.inner].value
        vectors = VectorLoop(self, slots, stores)
        in_blocks = bool(self.reductions) or bool(flex_in) or bool(flex_out) or vectors.is_staged
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
        buffered = self.reduction_buffers(slots, stores, vectors.carried)
        early = [k for k in self.reductions if k not in self.compressed and self.is_inner_reduced
                 and k not in vectors.carried and self.direct[k, "value"] not in buffered.values()]
        for k in early:  # a store may overwrite in place what they read
            self.print_fold(k)
        if vectors.fits:
            vectors.print(buffered)
        elif stores or buffered or (self.reductions and not self.is_inner_reduced):
            self.print_inner_loop(slots, stores, flex_out, first, buffered)
        for access in flex_out:
            s = access.strides[self.inner].text()
            target = f"pb_at_{access.memory}({access.name}_b + l * {s})"
            self.out(f"if ({access.name}_p == {access.name}_t) "
                     f"for (int64_t l = 0; l < m; l++) {target} = {access.name}_t[l];")
        if self.reductions and self.is_inner_reduced:
            for k in self.reductions:
                if k not in early and k not in vectors.carried:
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
        at = ", j" if out.reduce in ARG_REDUCTIONS else ""
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

    def reduction_buffers(self, slots: list[int], stores: list[int], carried: list[int]) -> dict[tuple[int, str], str]:
        """Stack blocks (slot, memory dtype) -> name that the values of inner reductions pass through; where an input serves in
        place, or registers carry the reduction, there is none. Sets `direct`: the C text of a reduction's values, and of a
        compression's mask."""
        made: dict[tuple[int, str], str] = {}
        if not self.is_inner_reduced:
            return made
        written = {self.outs[k].base for k in stores}
        for k in self.reductions:
            if k in carried:
                continue
            out = self.nest.outs[k]
            wanted = [("value", out.slot, out.memory if k in self.compressed else self.nest.slot_dtype(out.slot))]
            if k in self.compressed:
                wanted.append(("mask", out.mask, "bool"))
            for what, slot, memory in wanted:
                if self.serves(slot, slots, memory) and not (k in self.compressed and self.inputs[slot].base in written):
                    access = self.inputs[slot]
                    self.direct[k, what] = f"(const pb_{memory} *){access.name}_p"
                    if memory == "bool" and what == "value":  # memory may hold any byte, values are 0 or 1
                        self.direct[k, what] = f"truth{k}"
                        self.out(f"pb_bool truth{k}[PB_BLOCK] __attribute__((aligned(64)));")
                        self.out(f"for (int64_t l = 0; l < m; l++) truth{k}[l] = pb_widen_bool({access.name}_p[l]);")
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
            self.out("PB_VECTOR")
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
        if out.reduce in ARG_REDUCTIONS:
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


__all__ = ["BLOCK", "NestFunction", "print_nest", "split_nest"]
