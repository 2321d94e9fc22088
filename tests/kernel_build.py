"""Compiles kernels' C text into a shared object for one CPU level, for tests of the code generator."""

from __future__ import annotations

import copy
import ctypes
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import prebake
from prebake.pgo import drive, toolchain
from prebake.pgo.codegen import PRODUCT_BODY, Kernel, Module
from prebake.templates import levels
from prebake.vm.plan.code import Code
from prebake.vm.plan.lower import lower_plan
from prebake.vm.plan.passes import run_passes
from prebake.vm.plan.reading import LiveReader
from prebake.vm.plan.typed import type_program

ACCESSOR = '\n__attribute__((visibility("default"))) const void *table(void) { return &pb_bundle_table; }\n'


def c_source(kernels: Sequence[Kernel]) -> str:
    """The C text of a module with these kernels, complete in itself."""
    module = Module()
    for kernel in kernels:
        module.add(kernel)
    return (PRODUCT_BODY if module.has_products else "") + module.text() + ACCESSOR


def compile_kernels(kernels: Sequence[Kernel], *flags: str) -> drive.KernelTable:
    """The kernel table of a module, loaded; warnings of the generated code are errors."""
    compiler = toolchain.find_toolchain()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernels.c")
        source.write_text(c_source(kernels))
        level = levels.host_level()
        chosen = [f for f in compiler.flags(level.flags, level.target) if f != "-w"]
        compiler.compile(source, Path(folder, "kernels.so"),
                         [*chosen, *compiler.kernel_flags, '-DPB_RECORDS=""', "-Wall", "-Werror", "-Wno-unused",
                          "-Wno-unknown-warning-option", "-Wno-maybe-uninitialized",
                          "-Wno-stringop-overread",  # of lengths below zero, which there are not
                          *flags], [])
        library = ctypes.CDLL(str(Path(folder, "kernels.so")))
    library.table.restype = ctypes.c_void_p
    table = drive.open_table(library.table())
    table.library = library  # type: ignore[attr-defined]  # keeps it loaded
    return table


def driver(code: Code, bounds: Mapping[str, tuple[int, int]] | None = None) -> drive.Driver:
    """A driver of one freshly compiled kernel."""
    table = compile_kernels([Kernel("pb_one", code, bounds or {})])
    return drive.Driver(code, table, drive.find_kernel(table, "pb_one"))


def drivers(codes: Mapping[str, Code]) -> dict[str, Any]:
    """Drivers of several kernels compiled as one module."""
    table = compile_kernels([Kernel(f"pb_{name}", code, {}) for name, code in codes.items()])
    return {name: drive.Driver(code, table, drive.find_kernel(table, f"pb_{name}")) for name, code in codes.items()}


def results_in_c(cases: Iterable[tuple[str, Callable[..., Any], Sequence[Any]]]) -> Iterator[tuple[str, Any, Any]]:
    """(text, what the C kernel gives, what Python gives) for (text, function, arguments) each, compiled as one module.

    The functions capture nothing but `np`.
    """
    codes: dict[str, Code] = {}
    expected = {}
    for text, fn, args in cases:
        name, program = f"k{len(codes)}", prebake.jit(fn).bytecode
        reader = LiveReader(program, args, lambda index: np)
        codes[name] = lower_plan(run_passes(type_program(program, reader)))
        with np.errstate(all="ignore"):
            expected[name] = (text, fn(*copy.deepcopy(args)), reader)
    for name, kernel in drivers(codes).items():
        text, want, reader = expected[name]
        yield text, kernel(dict(enumerate(copy.deepcopy(reader.objects)))), want
