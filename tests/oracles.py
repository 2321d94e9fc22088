"""What a program should do, and whether an engine did that.

The reference is Python and NumPy themselves on a copy of the arguments. A result is compared in value, dtype, shape and
type, the exception in type, the arguments in every byte of their memory. Values: bit for bit where only + - * / sqrt,
comparisons and movement were used (NaN equals NaN); equal where signs of zero may differ; else within a tolerance that
the program sets itself: the reference runs again with its float inputs and the results of inexact operations moved by a
few units in the last place, and what that changes in the result, times SLACK, is allowed. A run that this makes end
otherwise (another branch, another shape) has no value to compare with: it is `loose`, and only its kind is checked.
"""

from __future__ import annotations

import ast
import linecache
import resource
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import CodeType
from typing import Any

import numpy as np
from generator_arguments import base_of, copy_arguments, map_tree
from generator_expressions import EQUAL, EXACT, NEAR

SLACK = 32        # times what moved inputs change
FLOOR_ULPS = 64   # units in the last place allowed without any change
MOVED_RUNS = 5    # so many that none of them moves an element by chance next to nothing; the last one rounds instead
MOVED_ULPS = 4    # how far inputs and functions are moved
_MOVED_CALLS = frozenset((  # functions of np and methods of arrays whose last bits are nobody's promise
    "exp", "log", "sin", "cos", "tanh", "log1p", "expm1", "arctan", "log2", "sinh", "exp2", "cbrt", "hypot", "arctan2",
    "logaddexp", "power", "sum", "mean", "var", "std", "cumsum", "prod", "cumprod", "dot", "matmul", "einsum", "inner",
    "norm", "median", "round", "linspace",
))
_SIGNED_CALLS = frozenset((  # whose signs of zero are nobody's promise
    "max", "min", "amax", "amin", "maximum", "minimum", "fmax", "fmin", "fmod", "clip", "sort", "sign", "ptp",
))
_CANCELLING_CALLS = frozenset(("var", "std", "mean", "sum"))  # their operands' last bits may be all of the result
_ADDING_CALLS = _CANCELLING_CALLS | {"prod", "cumsum", "cumprod", "dot", "matmul", "einsum", "inner"}  # in any order


@dataclass
class Outcome:
    """How a run ended. error: the exception's type, or None; bases: memory of the arguments after it, in order."""

    value: Any = None
    error: type[BaseException] | None = None
    message: str = ""
    args: list[Any] = field(default_factory=list)
    bases: list[np.ndarray] = field(default_factory=list)
    undefined: bool = False  # NumPy itself warned of a cast whose result C does not define


@dataclass
class Expected:
    """The reference outcome, and the outcomes of moved runs (empty when values are exact)."""

    outcome: Outcome
    grade: int
    moved: list[Outcome] = field(default_factory=list)


def load(source: str, name: str = "f", mover: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    """The function of a source text; the text is known to `linecache`, as a file's would be.

    mover: every result of an inexact operation goes through it.
    """
    label = f"program_{abs(hash(source)):x}"
    filename = f"<{label}>"
    scope: dict[str, Any] = {"__name__": label}
    if mover is not None:
        scope |= {"_moved": mover, "_ordered": partial(_ordered, mover)}
        exec(_moved_code(source, filename), scope)
        return scope[name]
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), scope)
    return scope[name]


@lru_cache(maxsize=4)
def _moved_code(source: str, filename: str) -> CodeType:
    """The program with its inexact operations wrapped; compiled once for all moved runs."""
    return compile(ast.fix_missing_locations(_Mover().visit(ast.parse(source))), filename, "exec")


class _Mover(ast.NodeTransformer):
    """Wraps inexact calls and powers in `_moved(...)`, sums and products in `_ordered(...)`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute) or any(k.arg == "out" for k in node.keywords):
            return node
        name = node.func.attr
        if name in _ADDING_CALLS and not any(k.arg == "dtype" for k in node.keywords):
            return _any_order(node, name)
        return _wrapped(node, name in _MOVED_CALLS) if name in _MOVED_CALLS or name in _SIGNED_CALLS else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.MatMult):
            product = ast.Lambda(ast.parse("lambda a, b: 0", mode="eval").body.args,  # type: ignore[attr-defined]
                                 ast.BinOp(ast.Name("a", ast.Load()), node.op, ast.Name("b", ast.Load())))
            return ast.Call(ast.Name("_ordered", ast.Load()), [ast.Constant("matmul"), product, node.left, node.right], [])
        return _wrapped(node) if isinstance(node.op, ast.Pow) else node


def _wrapped(node: ast.expr, values: bool = True) -> ast.expr:
    return ast.Call(ast.Name("_moved", ast.Load()), [node, ast.Constant(values)], [])


def _any_order(node: ast.Call, name: str) -> ast.expr:
    """A call of what adds or multiplies elements in an order of its own: `_ordered(name, lambda ...: call, operands)`."""
    assert isinstance(node.func, ast.Attribute)
    operands = list(node.args)
    names = [f"_{i}" for i in range(len(operands) + 1)]
    loads: list[ast.expr] = [ast.Name(n, ast.Load()) for n in names]
    if isinstance(node.func.value, ast.Name) and node.func.value.id == "np":
        call = ast.Call(node.func, loads[1:], node.keywords)
        del names[0]
    else:
        call = ast.Call(ast.Attribute(loads[0], node.func.attr, ast.Load()), loads[1:], node.keywords)
        operands.insert(0, node.func.value)
    parameters = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
    return ast.Call(ast.Name("_ordered", ast.Load()), [ast.Constant(name), ast.Lambda(parameters, call), *operands], [])


def _ordered(mover: Callable[[Any], Any], name: str, function: Callable[..., Any], *operands: Any) -> Any:
    """The function of moved operands; half of the time computed in more digits, where sums may pass the largest number
    or not. Integers whose mean is taken are added as floats."""
    arrays = [v for v in operands if isinstance(v, (np.ndarray, np.floating))]
    if name in ("mean", "var", "std"):
        operands = tuple(v.astype(np.float64) if isinstance(v, np.ndarray) and v.dtype.kind in "iub" else v for v in operands)
    if name not in ("prod", "cumprod"):
        operands = tuple(mover(v) if isinstance(v, np.ndarray) else v for v in operands)
    kinds = {v.dtype.kind for v in arrays}
    keywords = mover.keywords  # type: ignore[attr-defined]
    if keywords["shorten"] and name not in ("var", "std"):
        with np.errstate(all="ignore"):  # where the sizes add up past the largest number, the order decides
            total = function(*(np.abs(v) if isinstance(v, np.ndarray) and v.dtype.kind == "f" else v for v in operands))
            result = mover(function(*operands))
            return np.where(np.isinf(total), np.nan, result).astype(result.dtype)[()] if np.isinf(total).any() else result
    if "f" not in kinds or kinds - set("fiub") or not np.signbit(keywords["zero"]):
        return mover(function(*operands))
    narrow = np.result_type(*(v.dtype for v in arrays))
    wide = np.longdouble if narrow.itemsize == 8 else np.float64
    with np.errstate(all="ignore"):
        result = function(*(v.astype(wide) if isinstance(v, (np.ndarray, np.floating)) and v.dtype.kind == "f" else v
                            for v in operands))
        if getattr(result, "dtype", narrow).kind != "f":
            return result
        result = result.astype(narrow)  # some are left as they are: what is added without an error may be exact
        mixed = np.where(keywords["rng"].random(np.shape(result)) < 0.5, result, mover(result))
        return mixed if isinstance(result, np.ndarray) else result.dtype.type(mixed)


def forget(function: Callable[..., Any]) -> None:
    """Drop the text of a loaded function."""
    linecache.cache.pop(function.__code__.co_filename, None)


def run(function: Callable[..., Any], args: Sequence[Any]) -> Outcome:
    """Call a function with a copy of the arguments."""
    memory: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    outcome = Outcome(args=copy_arguments(list(args), memory))
    outcome.bases = [copy for _, copy in memory.values()]
    with np.errstate(all="ignore", invalid="warn"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome.value = function(*outcome.args)
        except Exception as error:
            outcome.error, outcome.message = type(error), str(error)
            outcome.value = error
    outcome.undefined = any("encountered in cast" in str(w.message) for w in caught)
    return outcome


class Reference:
    """Python and NumPy themselves. One reference serves calls in turn, as one function would: module state goes on."""

    def __init__(self, source: str, grade: int = NEAR) -> None:
        self.grade = grade
        self.plain = load(source)
        self.generators = [np.random.default_rng(seed) for seed in range(MOVED_RUNS)] if grade == NEAR else []
        self.moved = [load(source, mover=partial(_move, rng=rng, zero=-0.0 if i % 2 else 0.0,
                                                 shorten=i == MOVED_RUNS - 1))
                      for i, rng in enumerate(self.generators)]

    def run(self, args: Sequence[Any]) -> Expected:
        """What the program makes of the arguments, which stay as they are."""
        expected = Expected(run(self.plain, args), self.grade)
        for i, (function, rng) in enumerate(zip(self.moved, self.generators, strict=True)):
            moved_args = copy_arguments(list(args))
            if MOVED_RUNS // 2 <= i < MOVED_RUNS - 1:  # in the others functions' moves are not undone by chance
                moved_args = map_tree(moved_args, partial(_move_input, rng=rng))
            expected.moved.append(run(function, moved_args))
        return expected

    def run_again(self, args: Sequence[Any], times: int = 30) -> list[Outcome]:
        """More moved runs, before a difference is believed that few of them may have missed by chance."""
        return [outcome for _ in range(times if self.moved else 0) for outcome in self.run(args).moved]

    def close(self) -> None:
        """Forget the program's text."""
        forget(self.plain)


def run_reference(source: str, args: Sequence[Any], grade: int = NEAR) -> Expected:
    """What Python and NumPy make of one call of a program."""
    reference = Reference(source, grade)
    try:
        return reference.run(args)
    finally:
        reference.close()


def _move(value: Any, values: bool = True, *, rng: np.random.Generator, zero: float | None = None,
          shorten: bool = False) -> Any:
    """A float value moved by up to MOVED_ULPS units in the last place; others as they are.

    values: False moves zeros alone. zero: what zeros become. shorten: to the nearest number with three bits less, which
    one function may give exactly (tanh: 1.0) and another miss by a unit.
    """
    dtype = np.dtype(float) if isinstance(value, float) else getattr(value, "dtype", None)
    if dtype is None or dtype.kind != "f":
        return value
    with np.errstate(all="ignore"):
        steps = rng.uniform(1, MOVED_ULPS, np.shape(value)) * rng.choice((-1, 1), np.shape(value))
        moved = np.asarray(value)
        if zero is not None:
            moved = np.where(moved == 0, dtype.type(zero), moved)
        if values and shorten:
            fraction, exponent = np.frexp(moved.astype(np.float64))
            unit = 2.0 ** (np.finfo(dtype).nmant + 1 - 3)
            moved = np.ldexp(np.rint(fraction * unit) / unit, exponent)
        elif values:
            moved = moved * (1 + steps * float(np.finfo(dtype).eps))
        moved = moved.astype(dtype)
        moved = np.where(np.isinf(moved) & np.isfinite(value), np.asarray(value), moved)  # the largest stay
    return moved if isinstance(value, np.ndarray) else type(value)(moved)


def _move_input(value: Any, rng: np.random.Generator) -> Any:
    """An argument moved in place: memory that it shares is moved with it."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        base = base_of(value)
        base[...] = _move(base, rng=rng)
    return value


# --- comparing --------------------------------------------------------------------------------------------------------


def compare(got: Outcome, expected: Expected) -> list[str]:
    """Differences between an engine's outcome and the reference's; empty when there are none."""
    want = expected.outcome
    if want.error is UnboundLocalError and (got.error is None or issubclass(got.error, Exception)):
        # A name that is not assigned on this path and read for nothing, or later than another error: engines may not
        # read it at all. Counted by check_engines.
        return []
    if got.error is not None or want.error is not None:
        if got.error is None or want.error is None or not _same_error(got.error, want.error):
            return [f"raised {_error(got)}, expected {_error(want)}"]
        return [] if got.undefined else _compare_memory(got, expected)
    if want.undefined:
        return []
    moved = [m.value for m in expected.moved if m.error is None]
    return _compare_value(got.value, want.value, moved, expected, "result", got, want) + _compare_memory(got, expected)


def is_loose(expected: Expected) -> bool:
    """True when the moved runs ended otherwise: values say nothing."""
    if expected.outcome.error is MemoryError:
        return True
    return any(m.error is not expected.outcome.error or _outline(m.value) != _outline(expected.outcome.value)
               for m in expected.moved)


def _outline(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_outline(item) for item in value]
    if isinstance(value, dict):
        return {key: _outline(item) for key, item in value.items()}
    return type(value).__name__, np.shape(value)


def _same_error(got: type[BaseException], want: type[BaseException]) -> bool:
    """The same type; NumPy's own subclasses (AxisError, UFuncTypeError) may be their bases."""
    return got is want or (want.__module__.startswith("numpy") and issubclass(want, got)) or issubclass(got, want)


def _error(outcome: Outcome) -> str:
    first = outcome.message.partition("\n")[0][:160]
    return "nothing" if outcome.error is None else f"{outcome.error.__name__}: {first}"


def _compare_value(got: Any, want: Any, moved: list[Any], expected: Expected, where: str, got_run: Outcome,
                   want_run: Outcome) -> list[str]:
    if isinstance(want, (list, tuple, dict)):
        if type(got) is not type(want) or len(got) != len(want):
            return [f"{where}: {_brief(got)}, expected {_brief(want)}"]
        keys: Iterable[Any] = list(want) if isinstance(want, dict) else range(len(want))
        if isinstance(want, dict) and list(got) != list(want):
            return [f"{where}: keys {list(got)}, expected {list(want)}"]
        found = []
        for key in keys:
            inner = [m[key] for m in moved if type(m) is type(want) and len(m) == len(want)]
            found += _compare_value(got[key], want[key], inner, expected, f"{where}[{key!r}]", got_run, want_run)
        return found
    if type(got) is not type(want):
        return [f"{where}: type {type(got).__name__} {_brief(got)}, expected {type(want).__name__} {_brief(want)}"]
    if isinstance(want, (np.ndarray, np.generic)) and got.dtype != want.dtype:
        return [f"{where}: dtype {got.dtype}, expected {want.dtype}"]
    if np.shape(got) != np.shape(want):
        return [f"{where}: shape {np.shape(got)}, expected {np.shape(want)}"]
    found = _compare_sharing(got, want, where, got_run, want_run) if isinstance(want, np.ndarray) else []
    return found + _compare_numbers(np.asarray(got), np.asarray(want), moved, expected, where)


def _compare_sharing(got: np.ndarray, want: np.ndarray, where: str, got_run: Outcome, want_run: Outcome) -> list[str]:
    """A view of an argument is a view of that argument, with the same strides."""
    def place(array: np.ndarray, bases: list[np.ndarray]) -> Any:
        base = base_of(array)
        for number, one in enumerate(bases):
            if base is one:
                strides = tuple(s for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
                return number, array.__array_interface__["data"][0] - one.__array_interface__["data"][0], strides
        return None

    if want.size == 0:
        return []
    mine, theirs = place(got, got_run.bases), place(want, want_run.bases)
    return [] if mine == theirs else [f"{where}: (argument, offset, strides) {mine}, expected {theirs}"]


def _compare_numbers(got: np.ndarray, want: np.ndarray, moved: list[Any], expected: Expected, where: str) -> list[str]:
    if want.dtype.kind != "f":
        bad = got != want
        if expected.grade == NEAR:  # a rounding may turn a comparison or an index, but not where the moved runs agree
            for other in moved:
                if np.shape(other) == want.shape:
                    bad &= np.asarray(other) == want
                else:
                    return []
    else:
        with np.errstate(all="ignore"):
            bad = ~((got == want) | (np.isnan(got) & np.isnan(want)))
            if expected.grade == EXACT:
                bad |= (np.signbit(got) != np.signbit(want)) & ~np.isnan(want)
            elif expected.grade == NEAR:
                for other in moved:
                    if np.shape(other) != want.shape or getattr(other, "dtype", want.dtype).kind != "f":
                        return []
                allowed = _tolerance(want, moved)
                difference = np.abs(got.astype(np.float64) - want.astype(np.float64))
                bad &= ~((difference <= allowed) | np.isinf(allowed))
    if not bad.any():
        return []
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return [f"{where}: {int(bad.sum())} of {bad.size} elements differ, "
            f"first at {at}: {got[at]!r}, expected {want[at]!r}"]


def _tolerance(want: np.ndarray, moved: list[Any]) -> np.ndarray:
    info = np.finfo(want.dtype)
    wide = want.astype(np.float64)
    allowed = FLOOR_ULPS * (float(info.eps) * np.abs(wide) + float(info.smallest_subnormal))
    for other in moved:
        change = np.abs(np.asarray(other, np.float64) - wide)
        # Where moving makes or unmakes a NaN or an infinity anything may be.
        allowed = np.maximum(allowed, SLACK * np.where(np.isfinite(wide) & np.isnan(change), np.inf, change))
    return np.where(np.isfinite(wide), allowed, np.where(_moves_away(want, moved), np.inf, 0.0))


def _moves_away(want: np.ndarray, moved: list[Any]) -> np.ndarray:
    """Where a NaN or infinity of the reference is something else in a moved run."""
    away = np.zeros(want.shape, bool)
    for other in moved:
        there = np.asarray(other, want.dtype)
        away |= ~((there == want) | (np.isnan(there) & np.isnan(want)))
    return away


def _compare_memory(got: Outcome, expected: Expected) -> list[str]:
    """Every byte of the arguments' memory, between and around the views too."""
    found = []
    for number, (mine, theirs) in enumerate(zip(got.bases, expected.outcome.bases, strict=True)):
        moved = [m.bases[number] for m in expected.moved if m.error is expected.outcome.error]
        if not moved and expected.grade == NEAR and expected.outcome.error is not None:
            expected = Expected(expected.outcome, EQUAL)
        if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
            found.append(f"memory of argument {number}: {_brief(mine)}, expected {_brief(theirs)}")
            continue
        found += _compare_numbers(mine, theirs, moved, expected, f"memory of argument {number}")
    return found


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."


@contextmanager
def memory_limit(more_bytes: int) -> Iterator[None]:
    """Let this process grow by so much only: a program gone wild raises MemoryError, and takes nobody's memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    limit = now + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# --- engines ----------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """What came of many programs."""

    programs: int = 0
    calls: Counter[str] = field(default_factory=Counter)      # by engine
    refused: Counter[str] = field(default_factory=Counter)    # programs by UnsupportedError.kind
    on_tape: int = 0                                          # calls of engine 'jit' that the tape ran
    prebuilt: int = 0                                         # calls of engine 'prebuilt' that a bundle's kernel ran
    misses: Counter[str] = field(default_factory=Counter)     # calls that it did not, by reason
    fallbacks: Counter[str] = field(default_factory=Counter)  # calls that it did not and that raise nothing, by reason
    raising: int = 0                                          # calls of engine 'jit' that it did not and that raise
    examples: dict[str, tuple[int, str]] = field(default_factory=dict)  # reason -> (number of a program, the line)
    raised: Counter[str] = field(default_factory=Counter)     # reference outcomes by exception type
    loose: int = 0                                            # calls whose values say nothing
    unbound: int = 0                                          # UnboundLocalError that an engine did not raise
    failures: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The counts, one line each."""
        def share(n: int, of: int) -> str:
            return f"{n} ({n / max(of, 1):.1%})"

        refused, jit = sum(self.refused.values()), self.calls["jit"]
        lines = [f"programs     {self.programs}", f"refused      {share(refused, self.programs)}"]
        lines += [f"  {kind:34s} {count}" for kind, count in self.refused.most_common(25)]
        lines += [f"calls        {dict(self.calls)}", f"on the tape  {share(self.on_tape, jit)} of engine jit"]
        lines.append(f"interpreted  {self.raising} that raise, {share(sum(self.fallbacks.values()), jit)} others:")
        for reason, count in self.fallbacks.most_common(40):
            number, detail = self.examples.get(reason, (0, ""))
            lines.append(f"  {reason:20s} {count:6d}  program {number}: {detail[:90]}")
        if self.calls["prebuilt"]:
            lines.append(f"prebuilt     {share(self.prebuilt, self.calls['prebuilt'])} of engine prebuilt")
            lines += [f"  {reason:20s} {count:6d}" for reason, count in self.misses.most_common(20)]
        lines += [f"raised       {dict(self.raised)}", f"loose        {self.loose}",
                  f"unbound      {self.unbound} reads of unassigned names not reported",
                  f"failures     {len(self.failures)}"]
        return "\n".join(lines)


def check_engines(source: str, arguments: Sequence[Sequence[Any]], engines: Sequence[str] = ("interpreter", "jit"),
                  grade: int = NEAR, report: Report | None = None,
                  more: Mapping[str, Callable[..., Any]] | None = None) -> list[str]:
    """Failures of the engines on a program (its source) for several argument lists; counts go into the report.

    Each engine gets a function of its own and all argument lists in turn, so that plans meet new shapes. What the
    frontend refuses is counted by kind, and is no failure; an InternalError is one. more: functions that are loaded
    already, by engine: 'prebuilt' is one that a bundle serves, and what the bundle does not cover goes its usual way.
    """
    import prebake

    report = Report() if report is None else report
    report.programs += 1
    reference = Reference(source, grade)
    originals = {engine: load(source) for engine in engines}
    functions = {engine: prebake.jit(original) for engine, original in {**originals, **(more or {})}.items()}
    failures: list[str] = []
    try:
        for number, args in enumerate(arguments):
            # Compared at once: a result may be module state, which the next call changes.
            expected = reference.run(args)
            unsteady = is_loose(expected)
            report.loose += unsteady
            report.raised[expected.outcome.error.__name__ if expected.outcome.error else "nothing"] += 1
            for engine in list(functions):
                found, refused = _check_call(prebake, functions[engine], engine, args, expected, unsteady, report, reference)
                failures += [f"{engine}, arguments {number}: {text}" for text in found]
                if refused:
                    report.refused[refused] += engine == engines[0]
                    del functions[engine]
    finally:
        reference.close()
        for original in originals.values():
            forget(original)
    report.failures += failures
    return failures


def _check_call(prebake: Any, function: Any, engine: str, args: Sequence[Any], expected: Expected, unsteady: bool,
                report: Report, reference: Reference) -> tuple[list[str], str]:
    """(differences of one call, the kind by which the program was refused or '')."""
    before = _count(function, engine)
    with nullcontext() if engine == "prebuilt" else prebake.engine(engine):
        got = run(function, args)
    if got.error is not None and issubclass(got.error, prebake.UnsupportedError):
        return [], getattr(got.value, "kind", "") or "unsupported"
    report.calls[engine] += 1
    broken: list[str] = []
    if engine == "prebuilt":
        if _count(function, engine) > before:
            report.prebuilt += 1
        else:
            report.misses[_miss(function, args)] += 1
    elif engine == "jit" and _count(function, engine) > before:
        report.on_tape += 1
    elif engine == "jit":
        reason, detail = _reason(prebake, function, args)
        if expected.outcome.error is None:
            report.fallbacks[reason] += 1
            report.examples.setdefault(reason, (report.programs, detail))
        else:
            report.raising += 1
        if reason.startswith("planning failed"):
            broken.append(detail)
    report.unbound += got.error is not expected.outcome.error is UnboundLocalError
    if not unsteady:
        found = compare(got, expected)
        if found and expected.moved:
            expected.moved += reference.run_again(args)
            found = [] if is_loose(expected) else compare(got, expected)
        return broken + found, ""
    if got.error is not None and issubclass(got.error, prebake.PrebakeError):
        broken.append(_error(got))
    return broken, ""


def _count(function: Any, engine: str) -> int:
    """Calls that an engine has served."""
    return int(function.stats()[engine]) if hasattr(function, "stats") else 0


def _miss(function: Any, args: Sequence[Any]) -> str:
    """Why no prebuilt kernel took a call, and what did."""
    try:
        found = function.explain(*copy_arguments(list(args)))
        return f"{found.reason or 'trapped'}, {found.engine}"
    except Exception as error:
        return f"explain: {type(error).__name__}"


def _reason(prebake: Any, function: Any, args: Sequence[Any]) -> tuple[str, str]:
    """Why the tape did not take a call: a short slug and a line."""
    try:
        with prebake.engine("jit"):
            detail = str(function.explain(*copy_arguments(list(args))).detail)
    except Exception as error:
        return f"explain: {type(error).__name__}", str(error)
    return detail.partition(":")[0][:40] or "trapped", detail
