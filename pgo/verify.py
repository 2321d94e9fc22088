"""Each kernel against the interpreter before it ships: random arguments at the corners of its bucket.

This runs in a process of its own (`python -m prebake.pgo.verify`), so that a kernel that crashes fails the build with
its name instead of taking the build down.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..templates import levels
from ..templates.registry import BY_ID, BY_NAME, Kernel
from ..vm.errors import InternalError, MemoryLimitError, StepLimitError
from ..vm.lang.bytecode import Program
from ..vm.lang.opcodes import Op
from ..vm.plan.code import Code
from ..vm.plan.signature import Signature
from . import toolchain
from .kernels import BuiltFunction, Extents
from .samples import Samples

TIMEOUT_SECONDS = 600.0
# what a corner may take, else it shrinks: elements of all arguments together; bytes that the interpreter makes, and
# its steps, by the estimates of limited runs (a few seconds)
_MOST_ELEMENTS, _MOST_BYTES, _MOST_STEPS = 1 << 20, 1 << 24, 1 << 18
# |got - want| <= absolute * (largest finite |want|, at least 1) + relative * |want|
_MOVES, _STEADY = 4, 32.0  # reference runs with moved arguments; times their difference is allowed
_INEXACT = frozenset(("contract", "ufunc", "reduce", "scan", "linalg", "fft", "ops"))  # groups of kernels
# what a product's operand moves by when its last float32 bit decides how it is rounded, a few times over
_ROUNDING = {"float32": 0.0, "bfloat16": 2.0**-6, "float16": 2.0**-9}
_TOLERANCE = {"float16": (2e-2, 2e-2), "bfloat16": (1e-1, 1e-1), "float32": (2e-4, 1e-3), "float64": (1e-10, 1e-9)}


@dataclass(frozen=True)
class Job:
    """One kernel to verify."""

    kernel: str
    function: str
    msbc: bytes
    signature: Signature
    code: Code
    bounds: Mapping[str, tuple[int, int]]
    corners: Sequence[Extents]
    precision: str = "float32"


def verify_bundle(bundle: Path, functions: Iterable[BuiltFunction], files: Mapping[str, str], folder: Path) -> None:
    """Nothing when every kernel agrees with the interpreter. Raises InternalError that names those that do not."""
    jobs = [Job(k.kernel.name, f.buckets.qualname, f.msbc, p.signature, p.code, k.kernel.bounds, k.corners, f.precision)
            for f in functions for p in f.plans for k in p.kernels]
    level = next((level.target for level in levels.runnable_levels() if level.target in files), None)
    if level is None or not jobs:
        return  # built for machines other than this one
    fault = run_jobs(bundle / files[level], jobs, folder)
    if fault:
        raise InternalError(f"a kernel {fault}; the bundle was not written")


def run_jobs(library: Path, jobs: Sequence[Job], folder: Path) -> str:
    """'' when the kernels of a shared object agree with the interpreter, else what they do, in a process of its own."""
    path = folder / "verify.pickle"
    path.write_bytes(pickle.dumps((str(library), jobs)))
    code, text = toolchain.run_python("prebake.pgo.verify", [str(path)], timeout_seconds=TIMEOUT_SECONDS)
    last = "".join(f"\n  {line}" for line in text.strip().splitlines()[-12:])
    return ("crashed" if code < 0 else "differs from the interpreter") + last if code else ""


def verify_job(job: Job, table: Any) -> list[str]:
    """One line for each corner at which the kernel is wrong."""
    from .drive import Driver, find_kernel

    program = Program.from_bytes(job.msbc)
    driver = Driver(job.code, table, find_kernel(table, job.kernel))
    faults = []
    for seed, corner in enumerate(job.corners):
        extents = _affordable(job, program, corner, seed)
        fault = _compare(job, program, driver, extents, seed)
        if fault:
            shape = ", ".join(f"{s}={n}" for s, n in sorted(extents.items()) if ".shape[" in s)
            faults.append(f"{job.kernel} ({job.function}) at {shape}: {fault}")
    return faults


def _compare(job: Job, program: Program, driver: Any, extents: Extents, seed: int) -> str:
    from ..vm.run.interpreter import run_program
    from .drive import GuardFailed, Trapped

    ours, theirs = (Samples(program, job.signature, extents, seed) for _ in range(2))
    error: Exception | None = None
    want: Any = None
    try:
        with np.errstate(all="ignore"):
            want = run_program(program, theirs.args, theirs.read_capture, precision=job.precision)
    except Exception as caught:
        error = caught
    try:
        got = driver(dict(enumerate(ours.values)))
    except GuardFailed:
        return ""  # the dispatcher would ask another plan
    except Trapped as trap:
        if trap.code == "INTERPRET" or error is not None:
            return ""
        return f"stopped with {trap}"
    if error is not None:
        return "" if isinstance(error, LookupError) and "was not recorded" in str(error) else \
            f"answers where the interpreter raises {type(error).__name__}: {error}"
    fault = _difference(job, (got, ours.values), (want, theirs.values), [])
    if fault:  # a result that cancels is unsteady: what a few ulp of the arguments change is no fault of the kernel
        moved = [m for m in (_moved(job, program, extents, seed, move) for move in range(_MOVES)) if m is not None]
        fault = _difference(job, (got, ours.values), (want, theirs.values), moved)
    return fault


def _moved(job: Job, program: Program, extents: Extents, seed: int, move: int) -> tuple[Any, list[Any]] | None:
    """(result, values) of the interpreter for arguments moved by a few ulp; None when that raises."""
    from ..vm.run.interpreter import run_program

    samples = Samples(program, job.signature, extents, seed)
    rng = np.random.default_rng(1000 + move)
    last = -1

    def move_result(program: Program, index: int, registers: list[Any]) -> None:
        """Move what the instruction before this one computed, where its last bits are nobody's promise."""
        nonlocal last
        done = program.code[last] if last >= 0 else None
        last = index
        if done is not None and (done.op == Op.REDUCE_SUM_TENSOR or (
                done.op == Op.CALL_KERNEL and _is_inexact(BY_ID[done.args[1]]))):
            value = registers[done.args[0]]
            if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.base is None):
                registers[done.args[0]] = _nudged(value, rng)

    for value in samples.values:
        if isinstance(value, np.ndarray) and value.flags.writeable:
            value[...] = _nudged(value, rng)
    try:
        with np.errstate(all="ignore"):
            return run_program(program, samples.args, samples.read_capture, hook=move_result,
                               precision=job.precision), samples.values
    except Exception:
        return None


def _is_inexact(kernel: Kernel) -> bool:
    """Whether a kernel's last bits are nobody's promise; methods and operators are what the NumPy function is."""
    same = BY_NAME.get("np." + kernel.name.partition(".")[2]) if kernel.group in ("method", "operator") else None
    return kernel.group in _INEXACT or (same is not None and same.group in _INEXACT)


def _nudged(value: Any, rng: np.random.Generator) -> Any:
    """A float or complex value moved by a few ulp; others as they are."""
    if value.dtype.kind not in "fc" and value.dtype.name != "bfloat16":
        return value
    eps = 2.0**-7 if value.dtype.name == "bfloat16" else np.finfo(value.dtype).eps
    moved = value * (1 + rng.uniform(1, 4, value.shape) * rng.choice((-1, 1), value.shape) * eps)
    return moved.astype(value.dtype) if isinstance(value, np.ndarray) else value.dtype.type(moved)


def _difference(job: Job, got: tuple[Any, list[Any]], want: tuple[Any, list[Any]],
                moved: Sequence[tuple[Any, list[Any]]]) -> str:
    """What differs in the result or in the arguments afterwards, or ''."""
    coarse = _ROUNDING[job.precision]
    fault = difference(got[0], want[0], "result", [m[0] for m in moved], coarse)
    for i, row in enumerate(job.signature.rows):
        if not fault and row.kind == "array":
            fault = difference(got[1][i], want[1][i], row.path, [m[1][i] for m in moved], coarse)
    return fault


def _affordable(job: Job, program: Program, extents: Extents, seed: int) -> Extents:
    """The extents, halved towards the bucket's lower bounds until arguments and the reference run are quickly made."""
    from ..vm.run.interpreter import run_program

    smaller: Extents | None = extents
    while smaller is not None:
        extents = smaller
        smaller = _halved(job, extents)
        total = sum(prod(extents.get(f"{row.path}.shape[{d}]", 2) for d in range(row.ndim))
                    for row in job.signature.rows if row.kind == "array" and row.shape is None)
        if smaller is None or total > _MOST_ELEMENTS:
            continue
        samples = Samples(program, job.signature, extents, seed)
        try:
            run_program(program, samples.args, samples.read_capture, max_steps=_MOST_STEPS, max_bytes=_MOST_BYTES)
        except (MemoryLimitError, StepLimitError):
            continue
        except Exception:  # what the program raises, or what limited runs refuse
            pass
        break
    return extents


def _halved(job: Job, extents: Extents) -> Extents | None:
    """The extents with the largest one halved, not below its bucket; None when all are at their lower bounds."""
    ranged = [s for s, (lo, _) in job.bounds.items() if lo < extents.get(s, lo)]
    if not ranged:
        return None
    value = max(extents[s] for s in ranged)
    return {s: max(job.bounds[s][0], value // 2) if s in job.bounds and n == value else n  # equal symbols stay equal
            for s, n in extents.items()}


def difference(got: Any, want: Any, where: str, moved: Sequence[Any] = (), coarse: float = 0.0) -> str:
    """What differs between two results, or ''. moved: results that show how far `want` itself is steady. coarse: a
    tolerance, absolute and relative, that is allowed whatever the dtype."""
    if isinstance(want, (tuple, list)):
        if type(got) is not type(want) or len(got) != len(want):
            return f"{where}: {_kind(got)} instead of {_kind(want)}"
        return next(filter(None, (difference(g, w, f"{where}[{i}]", [m[i] for m in moved], coarse) for i, (g, w) in
                                  enumerate(zip(got, want, strict=True)))), "")
    if isinstance(want, dict):
        if not isinstance(got, dict) or list(got) != list(want):
            return f"{where}: {_kind(got)} instead of {_kind(want)}"
        return next(filter(None, (difference(got[k], want[k], f"{where}[{k!r}]", [m[k] for m in moved], coarse)
                                  for k in want)), "")
    a, b = np.asarray(got), np.asarray(want)
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{where}: {a.dtype} {a.shape} instead of {b.dtype} {b.shape}"
    others = [m for m in map(np.asarray, moved) if m.shape == b.shape]
    if b.dtype.kind == "c":
        return difference(_parts(a), _parts(b), where, [_parts(m) for m in others], coarse)
    if b.dtype.name not in _TOLERANCE:
        wrong = a != b
        for m in others:
            wrong &= m == b
        return f"{where}: {int(np.count_nonzero(wrong))} of {a.size} values differ" if wrong.any() else ""
    absolute, relative = (max(coarse, bound) for bound in _TOLERANCE[b.dtype.name])
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.abs(y[np.isfinite(y)])
        bound = absolute * max(float(finite.max(initial=0.0)), 1e-30) + relative * np.abs(y)
        for m in others:
            bound = np.maximum(bound, _STEADY * np.abs(m.astype(np.float64) - y))
        fine = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= bound)
    if fine.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~fine)[0])
    return f"{where}: {int((~fine).sum())} of {a.size} values differ, at {at} {x[at]:.9g} instead of {y[at]:.9g}"


def _parts(values: np.ndarray) -> np.ndarray:
    """Complex numbers as real ones, the two parts along a last axis."""
    return np.stack([values.real, values.imag], axis=-1)


def _kind(value: Any) -> str:
    return f"{type(value).__name__} of {len(value)}" if hasattr(value, "__len__") else type(value).__name__


def main(path: str) -> int:
    """Verify the jobs of a pickle file; prints the kernel that is being run, then the faults."""
    from .drive import open_library

    library, jobs = pickle.loads(Path(path).read_bytes())
    table, keep = open_library(Path(library))
    faults: list[str] = []
    for job in jobs:
        print(f"running {job.kernel} ({job.function})", flush=True)
        faults += verify_job(job, table)
    del keep
    print("\n".join(faults), flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
