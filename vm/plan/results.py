"""What a typed program returns: result trees, and several returns made one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...templates.records import replace
from .body import set_all
from .complex_values import interleaved, whole_view
from .extents import Expr, const
from .planner_errors import PlanRefused
from .steps import AllocStep, ExitStep, Operand, Result, ScalarReg, View
from .values import Arr, Cplx, Lazy, Map, Num, Seq, Static, Value


def build_result(typer: Any) -> Result:
    """The result tree of a typed program; its arrays become 'out' buffers."""
    sites = typer.returns
    if not sites:
        raise PlanRefused("the program never returns", kind="control")
    if len(sites) == 1 and not sites[0].conditional:
        return _Tree(typer).result(sites[0].value)
    # Several returns: each writes the same result cells before it leaves, or says which result it is.
    try:
        cell = _cell_like(typer, [site.value for site in sites])
        one_tree = _Tree(typer)
    except PlanRefused as refused:
        if refused.kind != "return-type":
            raise
        return _choice(typer, sites)
    _at_sites(typer, sites, lambda site: _assign(typer, cell, site.value))
    return one_tree.result(cell)


def _at_sites(typer: Any, sites: list[Any], write: Callable[[Any], None]) -> None:
    """Emit steps where each return stands; from the back, so that indices hold."""
    by_steps: dict[int, list[Any]] = {}
    for site in sites:
        by_steps.setdefault(id(site.steps), []).append(site)
    for group in by_steps.values():
        for site in sorted(group, key=lambda s: s.index, reverse=True):
            typer.steps, outer = [], typer.steps
            write(site)
            if not site.conditional:
                typer.steps.append(ExitStep())
            new, typer.steps = typer.steps, outer
            site.steps[site.index:site.index] = new


def _choice(typer: Any, sites: list[Any]) -> Result:
    """Returns of different kinds: a tree for each, and a register that says which one is meant."""
    which = ScalarReg("i64", "which")
    which.expr = typer.facts.new_register("which", 0, len(sites) - 1)
    tree, trees = _Tree(typer, chosen=True), {}

    def write(site: Any) -> None:
        number = sites.index(site)
        tree.done.clear()  # what one return allocates is not there for another
        trees[number] = tree.result(site.value)
        set_all(typer.steps, [(which, const(number))])
    _at_sites(typer, sites, write)
    return Result("choice", operand=which.expr, items=tuple(trees[number] for number in range(len(sites))))


def _cell_like(typer: Any, values: list[Value]) -> Value:
    first = values[0]
    if all(isinstance(v, Num) for v in values):
        nums: list[Any] = values
        if any(v.python != first.python or v.dtype != first.dtype or v.maybe for v in nums):  # type: ignore[union-attr]
            raise PlanRefused("returns of different types", kind="return-type")
        if all(v.is_constant for v in nums) and len({repr(v.constant) for v in nums}) == 1:
            return first
        reg = ScalarReg(first.native, "result")  # type: ignore[union-attr]
        if reg.dtype == "i64":
            reg.expr = typer.facts.new_register("result")
        return Num(reg.expr if reg.expr is not None else reg, first.dtype, first.python, cell=reg)  # type: ignore[union-attr]
    if all(isinstance(v, Arr) for v in values):
        arrays: list[Any] = values
        for v in arrays:
            if v.dtype != first.dtype or v.ndim != first.ndim:  # type: ignore[union-attr]
                raise PlanRefused("returns of different dtypes or ranks", kind="return-type")
            if not all(e.is_entry for e in v.shape):
                raise PlanRefused("returns whose extents are known only while the program runs", kind="return-type")
            if not typer._same_shape(v, first):
                raise PlanRefused("returns of different shapes, chosen by a value", kind="return-type")
            if v.view.buffer.kind == "arg":
                raise PlanRefused("a value test chooses whether an argument is returned", kind="return-type")
            if v.view.buffer in typer.read_only:
                raise PlanRefused("an array that another name may share is returned", kind="alias")
        return typer.new_temp(first.shape, first.dtype)  # type: ignore[union-attr]
    if all(isinstance(v, Seq) for v in values):
        seqs: list[Any] = values
        if any(v.kind != first.kind or len(v.items) != len(first.items) for v in seqs):  # type: ignore[union-attr]
            raise PlanRefused("returns of different structure", kind="return-type")
        return Seq([_cell_like(typer, list(column)) for column in zip(*(v.items for v in seqs), strict=True)],
                   first.kind)  # type: ignore[union-attr]
    if all(isinstance(v, Static) for v in values) and all(v.value == first.value for v in values):  # type: ignore[union-attr]
        return first
    raise PlanRefused("returns of different kinds", kind="return-type")


def _assign(typer: Any, cell: Value, value: Value) -> None:
    if isinstance(cell, Num):
        if cell.cell is not None:
            set_all(typer.steps, [(cell.cell, typer._operand_as(value, cell))])
    elif isinstance(cell, Arr):
        typer.write_view(cell, value)
    elif isinstance(cell, Seq):
        for a, b in zip(cell.items, value.items, strict=True):  # type: ignore[union-attr]
            _assign(typer, a, b)


class _Tree:
    """Result trees. chosen: of several returns, each made where it stands."""

    def __init__(self, typer: Any, chosen: bool = False) -> None:
        self.typer = typer
        self.chosen = chosen
        self.done: dict[int, Result] = {}

    def result(self, value: Value) -> Result:
        """The result of one value; the same array twice is the same object twice."""
        if isinstance(value, Arr):
            return self._array(value)
        if isinstance(value, Num):
            if value.maybe:
                raise PlanRefused("a scalar that is NumPy's on one path and Python's on another is returned", kind="two-types")
            if value.row >= 0 and value.python == "":
                return Result("arg", row=value.row)
            return Result("scalar", operand=self._kept(value), dtype=value.dtype, python=value.python)
        if isinstance(value, Cplx):
            return self._complex(value)
        if isinstance(value, Static):
            if value.value is None or isinstance(value.value, (str, bool)):
                return Result("const", value=value.value)
            raise PlanRefused("this kind of value is not returned by a plan", kind="return-type")
        if isinstance(value, Lazy):
            return Result("arg", row=value.row)
        if isinstance(value, Seq):
            if value.fields:
                raise PlanRefused("a named tuple is returned", kind="return-type")
            return Result(value.kind, items=tuple(map(self.result, value.items)))
        if isinstance(value, Map):
            return Result("dict", items=tuple(map(self.result, value.items.values())), keys=tuple(value.items))
        raise PlanRefused("this kind of value is not returned by a plan", kind="return-type")

    def _complex(self, value: Cplx) -> Result:
        if value.row >= 0:
            return Result("arg", row=value.row)
        found = self.done.get(id(value))
        if found is not None:
            return found
        view = whole_view(value)
        if view is not None:
            if not all(e.is_entry for e in (*view.shape, *view.strides, view.offset)):
                raise PlanRefused("a returned view known only while the program runs", kind="runtime-extent")
            out = Result("view", view=view)
        elif isinstance(value.re, Arr) and isinstance(value.im, Arr):
            if self._is_shared():
                raise PlanRefused("a complex result of several returns", kind="return-type")
            made = interleaved(self.typer, value)
            is_read_only = value.re.view.is_read_only
            out = Result("view", view=made.read_only()) if is_read_only else Result("new", view=made)
        else:
            parts = (replace(part, python="", row=-1) if isinstance(part, Num) else part for part in (value.re, value.im))
            out = Result("complex", items=tuple(map(self.result, parts)), dtype=value.dtype, python=value.python)
        self.done[id(value)] = out
        return out

    def _array(self, value: Arr) -> Result:
        if value.row >= 0:
            return Result("arg", row=value.row)
        found = self.done.get(id(value))
        if found is not None:
            return found
        view = value.view
        buffer = view.buffer
        if buffer in self.typer.read_only:
            value = self._copied(value)
            view, buffer = value.view, value.view.buffer
        if buffer.kind == "temp":
            if buffer.home is None or not all(e.is_entry for e in (*view.shape, *view.strides, view.offset)):
                view = self._sized_late(value)
            else:
                buffer.kind = "out"
            buffer = view.buffer
        if buffer.kind == "out" and buffer.home is not None and view.is_same(buffer.home) and not view.is_read_only:
            out = Result("new", view=view)
        else:
            if not all(e.is_entry for e in (*view.shape, *view.strides, view.offset)):
                raise PlanRefused("a returned view known only while the program runs", kind="runtime-extent")
            out = Result("view", view=view)
        self.done[id(value)] = out
        return out

    def _kept(self, value: Num) -> Operand:
        """A scalar's operand; of several returns a register that is there when the body has ended."""
        if not self.chosen or value.is_constant or (isinstance(value.operand, Expr) and value.operand.is_entry):
            return value.operand
        typer = self.typer
        reg = ScalarReg(value.native, "result")
        if reg.dtype == "i64":
            reg.expr = typer.facts.new_register("result")
        kept = Num(reg.expr if reg.expr is not None else reg, value.dtype, value.python, cell=reg)
        set_all(typer.steps, [(reg, typer._operand_as(value, kept))])
        return kept.operand

    def _is_shared(self) -> bool:
        """Whether steps emitted now would not stand at the one return that this result is of."""
        returns = self.typer.returns
        return not self.chosen and (len(returns) > 1 or returns[0].conditional)

    def _sized_late(self, value: Arr) -> View:
        """A result whose extents are known only at the end: allocated there, and copied."""
        if self._is_shared():
            raise PlanRefused("a result whose extent is known only while the program runs", kind="runtime-extent")
        out = self.typer.new_temp(value.shape, value.dtype)
        out.view.buffer.kind = "out"
        self.typer.emit(AllocStep(out.view.buffer))
        self.typer.write_view(out, value)
        return out.view

    def _copied(self, value: Arr) -> Arr:
        site = self.typer.returns[0]
        if site.conditional:
            raise PlanRefused("an array that another name may share is returned", kind="alias")
        if any(buffer.kind == "arg" for buffer in self.typer.read_only):
            raise PlanRefused("an array that may be an argument is returned", kind="alias")
        return value
