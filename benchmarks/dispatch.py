"""What a call costs beside its kernel: small arrays, many weights, many kernels.

    python benchmarks/dispatch.py [--rounds 30]

Each figure is a call's time less that of its kernel (`bind` and `run`, repeated in C over the same arrays), in nanoseconds:
the smallest of many short rounds. Results are part of the call. Needs a C compiler for its kernels and its clock.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import prebake
from prebake.pgo import drive, toolchain
from prebake.pgo.codegen import Kernel, Module
from prebake.pgo.measure import _build_timer, _Timed
from prebake.templates.levels import host_level
from prebake.vm.lang.frontend import compile_function
from prebake.vm.plan.code_json import dispatch_spec
from prebake.vm.plan.lower import lower_plan
from prebake.vm.plan.planner import plan_live
from prebake.vm.plan.signature import replay
from prebake.vm.run import _dispatch
from prebake.vm.run.tape import Tape

CALLS = 300


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Two small arrays."""
    return a + b


def add_layers(layers: Any, x: np.ndarray) -> np.ndarray:
    """Many small weights."""
    for w, b in layers:
        x = x * w + b
    return x


def call_ns(function: Callable[..., Any], args: tuple, rounds: int) -> float:
    """Nanoseconds of one call, the loop's own taken off."""
    best = empty = math.inf
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            function(*args)
        best = min(best, (time.perf_counter_ns() - start) / CALLS)
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            pass
        empty = min(empty, (time.perf_counter_ns() - start) / CALLS)
    return best - empty


class Case:
    """One function with its arguments, planned."""

    def __init__(self, function: Callable[..., Any], args: tuple, timer: Any) -> None:
        self.function, self.args, self.timer = function, args, timer
        program = compile_function(function)
        self.plan = plan_live(program, args, lambda i: None)
        self.code = lower_plan(self.plan)
        signature: Any = self.plan.signature
        self.leaves = dict(enumerate(replay(signature, args, lambda i: None)))
        self.rows = tuple([tuple([getattr(row, name) for name in _dispatch.ROW_FIELDS]) for row in signature.rows])

    def on_tape(self, rounds: int) -> tuple[float, float]:
        """(nanoseconds of a call, of its tape)."""
        tape = Tape(self.code)
        types = [*self.code.types, *["i64"] * (tape.n_regs - len(self.code.types))]
        kernel = _Timed(replace(self.code, types=types), None, tape.bind_address, tape.run_address, tape.plan_address, self.timer)
        fast = prebake.jit(self.function)
        fast(*self.args)
        assert fast.stats()["jit"] == 1, "the tape was not used"
        return self.timed(fast, kernel, rounds)

    def on_kernels(self, count: int, library: Any, rounds: int) -> tuple[float, float]:
        """The same with one compiled kernel that stands `count` times in the table, once for each extent."""
        table = drive.open_table(library.table())
        one = table.kernels[0]
        names = [b"k%d" % n for n in range(count)]
        many = (drive.KernelRow * count)(*[drive.KernelRow(name, one.bind, one.run) for name in names])
        wide = drive.KernelTable.from_buffer_copy(table)
        wide.n_kernels, wide.kernels = count, many
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        entry = _dispatch.Entry(self.rows, dispatch_spec(self.code), 1024)
        extent = self.args[-1].shape[0]
        buckets = [extent - count // 2 + n for n in range(count)]
        entry.use_kernels(capsule(ctypes.addressof(wide), b"prebake.kernels", None),
                          [(name.decode(), {"b.shape[0]": n}) for name, n in zip(names, buckets, strict=True)])
        fast = prebake.jit(self.function)
        fast(*self.args)
        fast._set_prebuilt([entry])
        address = [int(ctypes.cast(f, ctypes.c_void_p).value or 0) for f in (one.bind, one.run)]
        found = self.timed(fast, _Timed(self.code, wide, *address, None, self.timer), rounds)
        assert fast.stats()["prebuilt"], "the kernels were not used"
        return found

    def timed(self, fast: Callable[..., Any], kernel: _Timed, rounds: int) -> tuple[float, float]:
        """(nanoseconds of a call, of its kernel), in turn."""
        call = inside = math.inf
        for _ in range(rounds):
            call = min(call, call_ns(fast, self.args, 2))
            kernel(self.leaves)
            inside = min(inside, kernel.nanoseconds)
        return call, inside


def compile_kernel(case: Case, folder: Path) -> Any:
    """A shared object with the case's code as one kernel for any extent."""
    compiler, module, level = toolchain.find_toolchain(), Module(), host_level()
    module.add(Kernel("pb_one", case.code, {}))
    source = folder / "kernels.c"
    source.write_text(module.text() + '\n__attribute__((visibility("default"))) const void *table(void)'
                                      ' { return &pb_bundle_table; }\n')
    compiler.compile(source, folder / "kernels.so", [*compiler.flags(level.flags, level.target), '-DPB_RECORDS=""'], [])
    library = ctypes.CDLL(str(folder / "kernels.so"))
    library.table.restype = ctypes.c_void_p
    return library


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(1)

    def values(n: int = 1000) -> np.ndarray:
        return rng.random(n).astype(np.float32)

    with tempfile.TemporaryDirectory() as folder:
        timer = _build_timer(toolchain.find_toolchain(), Path(folder))
        small = Case(add, (values(), values()), timer)
        kernel = compile_kernel(small, Path(folder))
        print(f"{'nanoseconds':34}{'call':>9}{'kernel':>9}{'dispatch':>10}")

        def show(name: str, found: tuple[float, float]) -> float:
            print(f"{name:34}{found[0]:9.0f}{found[1]:9.0f}{found[0] - found[1]:10.0f}", flush=True)
            return found[0] - found[1]

        show("two arrays, tape", small.on_tape(rounds))
        first = show("two arrays, 1 kernel", small.on_kernels(1, kernel, rounds))
        for count in (10, 100, 1000):
            last = show(f"two arrays, {count} kernels", small.on_kernels(count, kernel, rounds))
        print(f"{'1,000 kernels over 1':34}{'':18}{last - first:10.0f}")
        layers = prebake.freeze([(values(8), values(8)) for _ in range(50)])
        none = show("one array, tape", Case(add_layers, ([], values(8)), timer).on_tape(rounds))
        many = show("100 frozen weights, tape", Case(add_layers, (layers, values(8)), timer).on_tape(rounds))
        print(f"{'100 weights over none':34}{'':18}{many - none:10.0f}")


if __name__ == "__main__":
    main()
