"""Compiles the code of one plan into a kernel that this process loads: the compiler's half of `vm/run/tier.py`."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

from ..templates.levels import host_level
from ..vm.plan.code import Code
from . import toolchain
from .build import Compilation, Step
from .codegen import Kernel, Module

NAME = "pb_tier"
_TABLE = '\n__attribute__((visibility("default"))) const void *prebake_table(void) { return &pb_bundle_table; }\n'
_libraries: list[ctypes.CDLL] = []  # loaded for the process's life: kernels may run as long as it does


def compile_code(code: Code) -> tuple[object, str]:
    """(capsule "prebake.kernels", name of the kernel) of a plan's code, for any extents under its facts.

    Through the cache of build objects, of this host's best CPU level. Raises ConfigError where there is no compiler,
    PlanError or InternalError where the code cannot be printed or compiled.
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
        library = ctypes.CDLL(str(path))  # stays mapped when the file is gone
    library.prebake_table.restype = ctypes.c_void_p
    _libraries.append(library)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(library.prebake_table(), b"prebake.kernels", None), NAME
