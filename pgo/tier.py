"""Compiles the code of one plan into a kernel that this process loads: the compiler's half of `vm/run/tier.py`."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..templates.levels import host_level
from ..vm.errors import InternalError
from ..vm.plan.code import Code
from ..vm.plan.signature import Signature
from . import toolchain
from .build import Compilation, Step
from .codegen import Kernel, Module
from .verify import Job, run_jobs

NAME = "pb_tier"
_TABLE = '\n__attribute__((visibility("default"))) const void *prebake_table(void) { return &pb_bundle_table; }\n'
_libraries: list[ctypes.CDLL] = []  # loaded for the process's life: kernels may run as long as it does


def job(function: str, msbc: bytes, signature: Signature, code: Code, shapes: Sequence[Mapping[str, int]],
        precision: str) -> Job:
    """What the kernel of a plan's code is verified against: the interpreter's results at shapes that were met."""
    bounds = {symbol: (1, n) for symbol, n in shapes[0].items() if ".shape[" in symbol and n > 0}
    return Job(NAME, function, msbc, signature, code, bounds, [dict(shape) for shape in shapes], precision)


def compile_code(code: Code, verified: Job | None = None) -> tuple[object, str]:
    """(capsule "prebake.kernels", name of the kernel) of a plan's code, for any extents under its facts.

    Through the cache of build objects, of this host's best CPU level. verified: it is compared with the interpreter first, in
    a process of its own, as a build does. Raises ConfigError where there is no compiler, PlanError or InternalError where
    the code cannot be printed or compiled, or its results are other ones.
    """
    module, level = Module(), host_level()
    module.add(Kernel(NAME, code, {}))
    with tempfile.TemporaryDirectory(prefix="prebake-tier-") as name:
        folder = Path(name)
        compiler = toolchain.find_toolchain()
        work = Compilation(compiler, module, "", folder, folder, Step(None))
        objects = [work.product(level)] if module.has_products else []
        data = work.compiled((module.text() + _TABLE).encode(), level, [*compiler.kernel_flags, '-DPB_RECORDS=""'], objects)
        path = folder / "kernel.so"
        path.write_bytes(data)
        fault = run_jobs(path, [verified], folder) if verified is not None else ""
        if fault:
            raise InternalError(f"the compiled kernel {fault}")
        library = ctypes.CDLL(str(path))  # stays mapped when the file is gone
    library.prebake_table.restype = ctypes.c_void_p
    _libraries.append(library)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(library.prebake_table(), b"prebake.kernels", None), NAME
