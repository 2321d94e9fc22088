"""Numerical programs: NumPy against the JIT, and against prebuilt kernels, on one thread.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE OMP_NUM_THREADS=1 taskset -c 1 python benchmarks/programs.py
        [--prebuilt] [--named] [--seconds S] [NAME ...]

`--named` takes the programs of the kinds that have a target of their own (NAMED); their geometric mean, and how many of them
are slower than 0.9 times NumPy, stand in a line of their own whenever they are all measured.
Every program gets fresh copies of its arguments for each call; copying is not timed. Medians; the ratio is NumPy's time
over ours, above 1 is faster. `first` is the first call, which plans.
"""

from __future__ import annotations

import argparse
import copy
import math
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import prebake

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from programs import PROGRAMS, Program

# one program of each kind that a target is set for
NAMED = ("arc_distance", "gemver", "hdiff", "k2mm", "softmax", "cavity_flow", "conv2d_bias", "deriche", "jacobi_2d", "durbin",
         "gramschmidt", "lu", "syrk", "azimint_naive", "correlation", "mandelbrot", "nussinov", "stockham_fft")


def median_call(function: Callable[..., Any], program: Program, args: tuple, seconds: float) -> float:
    """Median seconds of a call, over fresh arguments each time."""
    times: list[float] = []
    end = perf_counter() + seconds
    while len(times) < 3 or (perf_counter() < end and len(times) < 1000):
        fresh = copy.deepcopy(args)
        start = perf_counter()
        function(*fresh)
        times.append(perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="NumPy programs: the JIT and prebuilt kernels against NumPy")
    parser.add_argument("names", nargs="*", help="programs (default: all)")
    parser.add_argument("--prebuilt", action="store_true", help="also build a bundle and measure it")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each measurement")
    parser.add_argument("--named", action="store_true", help="the programs of the named kinds")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    programs = [PROGRAMS[name] for name in options.names or (NAMED if options.named else PROGRAMS)]
    inputs = {p.name: p.arguments(p.big, p.dtypes[0]) for p in programs}
    jitted = {p.name: prebake.jit(p.function) for p in programs}
    columns = ["jit", "prebuilt"] if options.prebuilt else ["jit"]
    print(f"{'program':24s} {'kind':10s} {'numpy ms':>9s} {'first ms':>9s}" + "".join(f" {c:>9s}" for c in columns)
          + "  engine, kernels launched")
    ratios: dict[tuple[str, str], list[float]] = {}
    named: dict[str, list[float]] = {column: [] for column in columns}
    first_ms: list[float] = []
    for program in programs:
        args = inputs[program.name]
        reference = median_call(program.function, program, args, options.seconds)
        function = jitted[program.name]
        with prebake.engine("jit"):
            fresh = copy.deepcopy(args)
            start = perf_counter()
            function(*fresh)
            first = (perf_counter() - start) * 1e3
            before = function.stats()["kernels_launched"]
            function(*copy.deepcopy(args))
            launched = function.stats()["kernels_launched"] - before
            ours = median_call(function, program, args, options.seconds)
        first_ms.append(first - ours * 1e3)
        engine = "jit" if function.stats()["jit"] else "interpreter"
        cells = [reference / ours]
        if options.prebuilt:
            cells.append(reference / _prebuilt_time(program, args, options.seconds))
        for column, ratio in zip(columns, cells, strict=True):
            ratios.setdefault((column, program.kind), []).append(ratio)
            if program.name in NAMED:
                named[column].append(ratio)
        print(f"{program.name:24s} {program.kind:10s} {reference * 1e3:9.3f} {first:9.1f}"
              + "".join(f" {r:8.2f}x" for r in cells) + f"  {engine}, {launched}", flush=True)
    print()
    for column in columns:
        kinds = {kind: found for (c, kind), found in ratios.items() if c == column}
        kinds["all"] = [ratio for found in kinds.values() for ratio in found]
        if len(named[column]) == len(NAMED):
            kinds["named"] = named[column]
        for kind, found in kinds.items():
            slow = sum(ratio < 0.9 for ratio in found)
            print(f"{column:9s} {kind:10s} geometric mean {_geometric(found):6.2f}x over {len(found)}, {slow} below 0.9x")
    print(f"first call: {statistics.median(first_ms):.1f} ms more in the median, {max(first_ms):.1f} ms at the worst")


def _geometric(ratios: list[float]) -> float:
    return math.exp(statistics.fmean([math.log(ratio) for ratio in ratios if ratio > 0]))


def _prebuilt_time(program: Program, args: tuple, seconds: float) -> float:
    """Median seconds of a call that a bundle serves: profiled, planned and built here. NaN when it does not serve it."""
    function = prebake.jit(program.function)
    with tempfile.TemporaryDirectory() as folder:
        recorded, planned, bundle = (Path(folder) / name for name in ("profile.json", "buckets.yaml", "bundle"))
        with prebake.profile(str(recorded)), prebake.engine("jit"):
            for _ in range(4):
                function(*copy.deepcopy(args))
        prebake.plan(str(recorded), str(planned))
        try:
            prebake.build(str(planned), str(bundle))
        except prebake.PrebakeError as error:
            print(f"{program.name}: not built, {str(error).splitlines()[-1].strip()}", file=sys.stderr)
            return math.nan
        prebake.load_bundle(str(bundle))
        served = prebake.jit(program.function)
        served(*copy.deepcopy(args))
        if not served.stats()["prebuilt"]:
            return math.nan
        return median_call(served, program, args, seconds)


if __name__ == "__main__":
    main()
