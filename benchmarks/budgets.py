"""Compile budgets: frontend, verifier and JIT of the reference functions, and what a call of an unforeseen shape costs.

    python benchmarks/budgets.py [--repeat 50] [--cpu]

Frontend counts from AST to Program (reading and parsing apart), JIT from arguments to a bound tape, the collector resting
as in a call; of each the median, the 99th percentile and the floor: the least that was seen, whatever else the host does.
`all` is the 99th percentile of the three together. `new shape`: a call under facts already planned, less a later call of
that shape; a call of another shape goes before each of the two, so that both find the caches alike. `new plan`: the first
call of a signature that was not seen, all of planning in it. --cpu counts the processor's time instead of the clock's, where
other programs run too. No compiler is on the PATH and starting processes fails while those are timed.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import prebake
from prebake.vm.lang.bytecode import Program
from prebake.vm.lang.frontend import compile_function
from prebake.vm.lang.source import load_source
from prebake.vm.plan.lower import lower_plan
from prebake.vm.plan.planner import plan_live
from prebake.vm.run.collector import paused_collector
from prebake.vm.run.tape import Tape

sys.path.insert(0, str(Path(__file__).parent))
import reference
from contestants import percentile

clock = time.perf_counter  # or the time of this thread alone


def timed(function: Callable[[], Any], repeat: int) -> list[float]:
    """Milliseconds of each of `repeat` runs after three that do not count."""
    for _ in range(3):
        function()
    out = []
    for _ in range(repeat):
        with paused_collector():
            start = clock()
            function()
            out.append((clock() - start) * 1e3)
    return out


def no_processes(*args: object, **kwargs: object) -> None:
    """Stands in for everything that starts a process."""
    raise AssertionError("a call started a process")


def read_global(program: Program) -> Callable[[int], object]:
    """Captures of a program, from the modules that they name."""
    return lambda i: getattr(sys.modules[program.captures[i].module], program.captures[i].name)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=50)
    parser.add_argument("--cpu", action="store_true", help="time of the processor, not of the clock")
    chosen = parser.parse_args()
    repeat = chosen.repeat
    global clock
    if chosen.cpu:
        clock = time.thread_time
    os.environ["PATH"] = ""
    subprocess.Popen.__init__ = no_processes  # type: ignore[method-assign, assignment]
    os.posix_spawn = os.fork = no_processes  # type: ignore[assignment]
    print(f"{'ms: median, p99, floor':24}{'parse':>7}{'frontend':>20}{'verifier':>20}{'JIT':>20}{'all':>8}"
          f"{'new shape':>18}{'new plan p99':>14}")
    for name, function in reference.FUNCTIONS.items():
        args = reference.arguments(name, 16)
        text = Path(reference.__file__).read_text()
        parse = timed(lambda text=text: ast.parse(text), repeat)
        load_source(function)
        frontend = timed(lambda f=function: compile_function(f), repeat)
        program = compile_function(function)
        data = program.to_bytes()
        verifier = timed(lambda p=program: p.verify(), repeat)
        captures = read_global(program)

        jit = timed(lambda p=program, a=args, c=captures: Tape(lower_plan(plan_live(p, a, c))), repeat)
        total = [a + b + c for a, b, c in zip(frontend, verifier, jit, strict=True)]
        stages = "".join(f"{f'{median(v):.2f} {percentile(v, 99):6.2f} {min(v):6.2f}':>20}" for v in (frontend, verifier, jit))
        print(f"{name:24}{median(parse):7.2f}{stages}{percentile(total, 99):8.2f}"
              f"{new_shapes(name, function, repeat):>18}{new_plans(name, function, repeat):>14.2f}"
              f"   {len(program.code)} instructions, {len(data):,} bytes")


def new_shapes(name: str, function: Callable, repeat: int) -> str:
    """Added time of the first call of each new batch size under one plan, median (p99)."""
    fast = prebake.jit(function)
    known = reference.arguments(name, 3)
    at = 0 if name == "row_softmax" else 1  # of the array that differs from request to request
    # made beforehand: what was just written drives the weights out of the caches, for the first call alone
    given = [reference.arguments(name, int(batch))[at]
             for batch in np.random.default_rng(5).permutation(np.arange(4, 4 + max(repeat, 100)))]
    with prebake.engine("jit"):
        fast(*known)
        added = []
        for x in given:
            args = (*known[:at], x, *known[at + 1:])
            times = []
            for _ in range(6):
                fast(*known)
                start = clock()
                fast(*args)
                times.append((clock() - start) * 1e3)
            added.append(times[0] - median(times[1:]))
    return f"{median(added):.3f} ({percentile(added, 99):.2f})"


def new_plans(name: str, function: Callable, repeat: int) -> float:
    """99th percentile of the added time of a call that must plan: a fresh decorated function each time."""
    added = []
    args = reference.arguments(name, 5)
    for _ in range(repeat):
        fast = prebake.jit(function)
        with prebake.engine("jit"):
            start = clock()
            fast(*args)
            first = clock() - start
            again = min(timed(lambda fast=fast: fast(*args), 3)) / 1e3
        added.append((first - again) * 1e3)
    return percentile(added, 99)


if __name__ == "__main__":
    main()
