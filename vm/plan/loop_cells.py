"""What a loop carries from trip to trip while it is typed: cells at the entry, written back at each end of a trip.

A scalar's cell may hold both of two types, an array's cell may change its extents (`loop.extents`); what fits no cell asks for
another try (`Retry`), see `loops.py`.
"""

from __future__ import annotations

from ...templates.records import replace
from ..lang.bytecode import UNBOUND
from .body import set_all
from .cells import Cells, cell_reg, is_same, is_same_type, join_types
from .complex_values import real_part
from .extents import Expr
from .planner_errors import PlanRefused
from .steps import Operand, ScalarReg, SetStep, Step, View
from .typer_state import Loop, Retry
from .values import Arr, Cplx, Map, Num, Range, Seq, SliceV, Static, Value


class LoopCells(Cells):
    """The cells of one loop after the other."""

    def _enter(self, loop: Loop, pc: int) -> list[Step]:
        """Make cells from the values at entry; the steps that fill them."""
        outer, self.steps = self.steps, []
        at_entry = list(self.regs)
        pairs: list[tuple[ScalarReg, Operand]] = []
        body_live = self.live[pc + 1]
        for reg in loop.carried:
            value = self.regs[reg]
            if value is None or (isinstance(value, Static) and value.value is UNBOUND):
                continue
            if not body_live >> reg & 1 and loop.late:
                continue  # written before it is read in every trip, and there is one
            if isinstance(value, Num):
                if reg in loop.joined:
                    cell = self._joined_cell(loop.joined[reg], f"r{reg}")
                else:
                    cell = self._scalar_cell(value, f"r{reg}")
                self._guard_cell(cell, value)
                pairs.append((cell_reg(cell), self._operand_as(value, cell)))
                self.regs[reg] = loop.cells[reg] = cell
                loop.entry[reg] = value
            elif isinstance(value, Arr) and reg in loop.array_cells:
                array, extents = self._array_cell(value, loop, reg)
                self._copy_into(array, value, self._is_shared(value.view.buffer, reg, at_entry, loop.live))
                if any(extents):
                    loop.extents[reg] = extents
                    _add_extents(pairs, extents, value.shape)
                    array = _with_extents(array, extents)
                self.regs[reg] = loop.cells[reg] = array
            elif isinstance(value, Cplx) and isinstance(value.re, Num):
                parts = [self._scalar_cell(self._plain(p), f"r{reg}") for p in (value.re, value.im)]
                pairs += [(cell_reg(c), self._operand_as(p, c))
                          for c, p in zip(parts, (value.re, value.im), strict=True)]
                self.regs[reg] = loop.cells[reg] = Cplx(parts[0], parts[1], value.dtype, value.python)
            elif isinstance(value, Cplx) and reg in loop.array_cells:
                array, extents = self._array_cell(value.re, loop, reg)
                arrays = [array, self.new_temp(value.im.shape, value.im.dtype)]
                for array, part in zip(arrays, (value.re, value.im), strict=True):
                    self._copy_into(array, part, self._is_shared(part.view.buffer, reg, at_entry, loop.live))
                if any(extents):
                    loop.extents[reg] = extents
                    _add_extents(pairs, extents, value.re.shape)
                    arrays = [_with_extents(array, extents) for array in arrays]
                self.regs[reg] = loop.cells[reg] = Cplx(arrays[0], arrays[1], value.dtype)
            else:
                loop.cells[reg] = value
        set_all(self.steps, pairs)
        pre, self.steps = self.steps, outer
        return pre

    def _settled(self, value: Value) -> Value:
        """A value as it is now: what it reads from registers that later trips change is kept in registers of its own."""
        def kept(expr: Expr, is_extent: bool) -> Expr:
            if expr.is_entry:
                return expr
            reg = ScalarReg("i64", "kept")
            reg.expr = self.facts.new_register("kept", *((0, self.facts.upper_entry(expr)) if is_extent else (None, None)))
            self.steps.append(SetStep(reg, expr))
            return reg.expr

        if isinstance(value, Arr):
            v = value.view
            if all(e.is_entry for e in (*v.shape, *v.strides, v.offset)):
                return value
            return Arr(v.window(tuple(kept(e, True) for e in v.shape), tuple(kept(e, False) for e in v.strides),
                                kept(v.offset, False)))
        if isinstance(value, Num):
            if isinstance(value.operand, Expr):
                return replace(value, operand=kept(value.operand, False), cell=None)
            if isinstance(value.operand, ScalarReg):
                reg = ScalarReg(value.operand.dtype, "kept")
                self.steps.append(SetStep(reg, value.operand))
                return replace(value, operand=reg, cell=None)
            return value
        if isinstance(value, Cplx):
            return replace(value, re=self._settled(value.re), im=self._settled(value.im))
        if isinstance(value, Seq):
            return Seq([self._settled(v) for v in value.items], value.kind)
        if isinstance(value, (Map, SliceV, Range)):
            raise PlanRefused("this kind of value is carried out of a loop", kind="loop-type")
        return value

    def _array_cell(self, value: Arr, loop: Loop, cell: int) -> tuple[Arr, tuple[ScalarReg | None, ...]]:
        """An array for a loop to keep values in, and the registers of extents that may change (up to those at entry)."""
        is_loose, is_apart = cell in loop.loose, cell in loop.apart
        array = self.new_temp(value.shape, value.dtype)
        extents: list[ScalarReg | None] = []
        for extent in array.shape:
            reg = None
            upper = self.facts.upper_entry(extent)
            if is_loose and upper is not None and upper.value != 1:
                reg = None if is_apart else loop.common.get(extent)
                if reg is None:
                    reg = ScalarReg("i64", "extent")
                    reg.expr = self.facts.new_register("extent", 0, upper)
                    if not is_apart:
                        loop.common[extent] = reg
            extents.append(reg)
        return array, tuple(extents)

    def _late_array_cell(self, loop: Loop, reg: int, value: Arr | Cplx) -> Arr | Cplx:
        """A cell for an array that the loop itself assigns first: memory of its own, not what it is a view of."""
        loop.apart.add(reg)
        array, extents = self._array_cell(real_part(value), loop, reg)  # type: ignore[arg-type]
        if any(extents):
            loop.extents[reg] = extents
            array = _with_extents(array, extents)
        if isinstance(value, Arr):
            return array
        second = self.new_temp(value.im.shape, value.im.dtype)
        return Cplx(array, _with_extents(second, extents), value.dtype)

    def _keep_in(self, loop: Loop, reg: int, cell: Arr, value: Arr, copies: list[tuple[Arr, Arr, bool]],
                 pairs: list[tuple[ScalarReg, Operand]]) -> None:
        """Note what copies a carried array into its cell."""
        if reg not in loop.array_cells:
            raise Retry(reg, "array")
        if cell.dtype != value.dtype or cell.ndim != value.ndim:
            raise Retry(reg, "type")
        is_shared = self._is_shared(value.view.buffer, reg, self.regs, loop.live)
        if is_shared:
            loop.kept.add(reg)
        if reg not in loop.extents:
            if not self._same_shape(cell, value):
                raise Retry(reg, "shape")
            copies.append((cell, value, is_shared))
            return
        for extent, old, new in zip(loop.extents[reg], cell.shape, value.shape, strict=True):
            if extent is None:
                if not self.facts.can_equal(old, new):
                    raise PlanRefused("an array changes its shape from trip to trip", kind="loop-shape")
                continue
            bound = self.facts.bounds_of[old.terms[0][0][0]][1]
            if bound is None or self.facts.is_less_equal(new, bound) is not True:
                raise PlanRefused("an array may grow from trip to trip", kind="loop-shape")
            if (extent, new) not in pairs:
                pairs.append((extent, new))
        v = cell.view
        copies.append((Arr(View(v.buffer, v.dtype, value.shape, v.strides, v.offset)), value, is_shared))

    def _write_back(self, loop: Loop) -> None:
        """At the end of a trip, and wherever the loop is left: carried values go into their cells."""
        pairs: list[tuple[ScalarReg, Operand]] = []
        copies: list[tuple[Arr, Arr, bool]] = []
        for reg in loop.carried:
            value = self.regs[reg]
            if value is None or (isinstance(value, Static) and value.value is UNBOUND):
                continue
            cell = loop.cells.get(reg)
            if cell is None:
                if not loop.late:
                    continue  # a name first assigned in a loop that may not run: reading it later is refused
                if isinstance(value, Num):
                    cell = loop.cells[reg] = self._scalar_cell(value, f"r{reg}")
                elif reg in loop.array_cells and isinstance(value, (Arr, Cplx)):
                    cell = loop.cells[reg] = self._late_array_cell(loop, reg, value)
                else:
                    loop.cells[reg] = self._settled(value)
                    continue
            if is_same(cell, value):
                loop.kept.add(reg)
                continue
            if isinstance(cell, Num) and isinstance(value, Num):
                if reg in loop.joined:
                    if join_types(cell, value) != loop.joined[reg]:
                        raise Retry(reg, "type", join_types(cell, value), value)
                    if value.maybe or value.python:
                        loop.unsure.add(reg)
                elif not is_same_type(cell, value):
                    entry = loop.entry.get(reg)
                    raise Retry(reg, "type", join_types(entry, value) if isinstance(entry, Num) else None, value)
                self._guard_cell(cell, value)
                pairs.append((cell_reg(cell), self._operand_as(value, cell)))
            elif isinstance(cell, Cplx) and isinstance(value, Cplx):
                if cell.dtype != value.dtype or cell.python != value.python or type(cell.re) is not type(value.re):
                    raise Retry(reg, "type")
                if isinstance(cell.re, Num):
                    pairs += [(cell_reg(c), self._operand_as(p, c))
                              for c, p in ((cell.re, value.re), (cell.im, value.im))]
                    continue
                self._keep_in(loop, reg, cell.re, value.re, copies, pairs)
                self._keep_in(loop, reg, cell.im, value.im, copies, [])
                loop.kept.add(reg)
            elif isinstance(cell, Arr) and isinstance(value, Arr):
                self._keep_in(loop, reg, cell, value, copies, pairs)
            else:
                raise Retry(reg, "type")
        if loop.common:
            self._check_common(loop)
        # arrays first: their views may depend on scalars that change now
        if len(copies) > 1:
            buffers = {cell.view.buffer for cell, _, _ in copies}
            for _, value_array, is_shared in copies:
                if is_shared:  # marks are left on what the copy below would hide
                    self._forbid_writes(value_array.view.buffer)
            copies = [(cell, self.copy(v) if v.view.buffer in buffers else v, s) for cell, v, s in copies]
        for cell_array, value_array, is_shared in copies:
            self._copy_into(cell_array, value_array, is_shared)
        set_all(self.steps, pairs)

    def _check_common(self, loop: Loop) -> None:
        """Extents that share a register must change alike, wherever a trip ends."""
        news: dict[ScalarReg, Expr] = {}
        for reg, extents in loop.extents.items():
            value = real_part(self.regs[reg])  # type: ignore[arg-type]
            if reg in loop.apart:
                continue
            cell = real_part(loop.cells[reg])
            shape = value.shape if isinstance(value, Arr) else cell.shape  # type: ignore[union-attr]
            for extent, new in zip(extents, shape, strict=True):
                if extent is not None and self.facts.is_equal(news.setdefault(extent, new), new) is not True:
                    raise Retry(reg, "apart")


def _add_extents(pairs: list[tuple[ScalarReg, Operand]], extents: tuple[ScalarReg | None, ...], shape: tuple[Expr, ...]) -> None:
    """Set the registers of extents; several arrays may share one."""
    for reg, extent in zip(extents, shape, strict=True):
        if reg is not None and all(known is not reg for known, _ in pairs):
            pairs.append((reg, extent))


def _with_extents(array: Arr, extents: tuple[ScalarReg | None, ...]) -> Arr:
    """The leading part of a cell, as far as its extents reach now."""
    v = array.view
    shape = tuple(n if reg is None or reg.expr is None else reg.expr for reg, n in zip(extents, v.shape, strict=True))
    return Arr(View(v.buffer, v.dtype, shape, v.strides, v.offset))
