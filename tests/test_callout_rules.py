"""What the rules of called kernels declare, against what NumPy makes: dtypes, ranks, extents, kinds of result."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from callout_table import DTYPES, calls

import prebake
from prebake.templates.registry import BY_NAME, resolve
from prebake.vm.plan import typed
from prebake.vm.plan.callouts import CALL_RULES, EITHER, Itself, Made, Several, Unknown, outcome_of
from prebake.vm.plan.extents import const
from prebake.vm.plan.planner_errors import PlanRefused
from prebake.vm.plan.reading import LiveReader
from prebake.vm.plan.signature import DTYPE_NAMES
from prebake.vm.plan.steps import Buffer, Literal, View, contiguous_strides
from prebake.vm.plan.values import COMPUTE, Arr, Cplx, Num, Seq


@prebake.jit
def nothing():
    return None


@pytest.fixture(scope="module")
def program() -> Any:
    found = nothing.bytecode
    typed.type_program(found, LiveReader(found, (), lambda index: None))  # registers the rules
    return found


def planned(t: Any, value: Any) -> Any:
    """An operand as the planner sees it, extents being numbers."""
    if isinstance(value, (list, tuple)):
        return Seq([planned(t, item) for item in value], type(value).__name__)
    if isinstance(value, np.generic) and value.dtype.kind != "c":
        name = DTYPE_NAMES[value.dtype]
        return Num(Literal(value.item(), COMPUTE.get(name, "f64")), name)
    if isinstance(value, np.generic):
        parts = [Num(Literal(float(x), "f64"), "f64") for x in (value.real, value.imag)]
        return Cplx(parts[0], parts[1], DTYPE_NAMES[value.dtype])
    if not isinstance(value, np.ndarray):
        return t.constant(value)
    name, shape = DTYPE_NAMES[value.dtype], tuple(map(const, value.shape))
    buffer = Buffer("arg", name, None)
    parts = {"c64": "f32", "c128": "f64"}
    arrays = [Arr(View(buffer, parts.get(name, name), shape, contiguous_strides(shape, 8), const(0))) for _ in range(2)]
    return Cplx(arrays[0], arrays[1], name) if name in parts else arrays[0]


def is_as_declared(made: Made | Itself, got: Any, operands: dict[str, Any]) -> bool:
    """Whether a result is what the rule says."""
    if isinstance(made, Itself):
        return got is operands[made.name]
    if any(np.may_share_memory(got, x) for x in operands.values() if isinstance(x, np.ndarray) and isinstance(got, np.ndarray)):
        return False  # a copy stands for it in plans
    if not made.dtype:
        return got is None
    if made.shape is None:
        if made.python:
            return type(got).__name__ == made.python
        return isinstance(got, np.generic) and DTYPE_NAMES.get(got.dtype) == made.dtype
    if type(got) is not np.ndarray or DTYPE_NAMES.get(got.dtype) != made.dtype or got.ndim != len(made.shape):
        return False
    for extent, n in zip(made.shape, got.shape, strict=True):
        if isinstance(extent, Unknown):
            high = extent.high if extent.high is None or isinstance(extent.high, int) else extent.high.value
            if high is not None and n > high:
                return False
        elif extent.value != n:
            return False
    return True


def agrees(outcome: Any, got: Any, operands: dict[str, Any]) -> bool:
    """Whether all results are."""
    if not isinstance(outcome, Several):
        return is_as_declared(outcome, got, operands)
    if not isinstance(got, (tuple, list)) or len(got) != len(outcome.items):
        return False
    if getattr(got, "_fields", ()) != outcome.fields or (not outcome.fields and type(got).__name__ != outcome.kind):
        return False
    return all(is_as_declared(item, one, operands) for item, one in zip(outcome.items, got, strict=True))


def test_rules_declare_what_numpy_makes(program: Any) -> None:
    compared: Counter[str] = Counter()
    wrong = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, args in calls(np.random.default_rng(1)):
            t = typed.Typer(program, LiveReader(program, (), lambda index: None), False)
            try:
                outcome, _ = outcome_of(t, name, [planned(t, arg) for arg in args])
            except PlanRefused:
                continue
            operands = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
            try:
                got = resolve(BY_NAME[name].id)(*operands)
            except Exception:  # the call raises: a rule has nothing to say
                continue
            compared[name] += 1
            names = [parameter.name for parameter in BY_NAME[name].parameters]
            if not agrees(outcome, got, dict(zip(names, operands, strict=False))):
                wrong.append(f"{name}{tuple(getattr(a, 'dtype', a) for a in args)}: planned {outcome}, made {got!r:.80}")
    assert not wrong, "\n".join(wrong[:20])
    assert set(CALL_RULES) & set(typed.RULES) >= EITHER
    missing = sorted(set(CALL_RULES) - set(compared) - {"np.nanquantile", "np.nanpercentile"})
    assert not missing, f"rules that no call of the table has tried: {missing}"
    assert sum(compared.values()) > 20_000 and len(DTYPES) == 14
