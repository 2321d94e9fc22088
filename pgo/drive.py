"""Runs a kernel's two C functions through ctypes, as the dispatcher would: for verification and tests."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..vm.plan.code import PRODUCT_DTYPES, Code, Reg, ResultSpec
from ..vm.plan.code_json import call_spec
from ..vm.plan.signature import NUMPY_DTYPES
from ..vm.run._dispatch import CallSite, PlanMismatch

TRAPS = ("", "INDEX", "ZERO_DIVISION", "OVERFLOW", "VALUE", "MEMORY", "INTERPRET", "RAISE", "RAISED")
_PYTHON: dict[str, Any] = {"int": int, "float": float, "bool": bool}


class Frame(ctypes.Structure):
    """pb_frame."""


ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Frame), ctypes.c_int32)
CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Frame), ctypes.c_int32)
Frame._fields_ = [("r", ctypes.c_void_p), ("packs", ctypes.POINTER(ctypes.c_void_p)), ("trap_code", ctypes.c_int32),
                  ("trap_pos", ctypes.c_int32), ("owner", ctypes.c_void_p), ("alloc", ALLOC),
                  ("call", CALL)]
ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Frame))
PACK_BYTES = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)
PACK = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64,
                        ctypes.c_int64, ctypes.c_void_p)


class KernelRow(ctypes.Structure):
    """pb_kernel."""

    _fields_ = (("name", ctypes.c_char_p), ("bind", ENTRY), ("run", ENTRY))


class KernelTable(ctypes.Structure):
    """pb_kernel_table."""

    _fields_ = (("abi_version", ctypes.c_int32), ("level", ctypes.c_char_p), ("layout", ctypes.c_char_p),
                ("pack_bytes", PACK_BYTES), ("pack", PACK), ("n_kernels", ctypes.c_int32),
                ("kernels", ctypes.POINTER(KernelRow)))


class GuardFailed(Exception):
    """`bind` says that guard n (from 1) does not hold."""

    def __init__(self, number: int) -> None:
        super().__init__(f"guard {number} does not hold")
        self.number = number


class Trapped(Exception):
    """`run` stopped: (trap name, instruction index)."""

    def __init__(self, code: str, position: int) -> None:
        super().__init__(f"{code} at instruction {position}")
        self.code, self.position = code, position


def open_table(address: int) -> KernelTable:
    """The table at an address (of a bundle's capsule)."""
    return KernelTable.from_address(address)


def find_kernel(table: KernelTable, name: str) -> KernelRow:
    """The row of a kernel. Raises LookupError."""
    for i in range(table.n_kernels):
        if table.kernels[i].name == name.encode():
            return table.kernels[i]
    raise LookupError(name)


class Driver:
    """Calls of one kernel. leaves: signature row -> array or scalar."""

    def __init__(self, code: Code, table: KernelTable, kernel: KernelRow) -> None:
        self.code, self.table, self.kernel = code, table, kernel

    def __call__(self, leaves: Mapping[int, Any]) -> Any:
        """What the kernel returns. Raises GuardFailed or Trapped."""
        code = self.code
        self.registers = np.full(max(len(code.types), 1), 0x5A5A5A5A5A5A5A5A, np.int64)
        self.leaves, self.outputs = leaves, [None] * len(code.outputs)
        for reg, value in code.consts.items():
            self._set(reg, value)
        for leaf in code.leaves:
            value = leaves[leaf.row]
            if leaf.scalar >= 0:
                self._set(leaf.scalar, value)
                continue
            if leaf.ptr >= 0:
                self.registers[leaf.ptr] = value.ctypes.data
            for reg, extent in zip(leaf.extents, value.shape, strict=False):
                self.registers[reg] = extent
            for reg, stride in zip(leaf.strides, value.strides, strict=False):
                self.registers[reg] = stride
        frame = Frame(r=self.registers.ctypes.data)
        frame.alloc = ALLOC(lambda _frame, output: self._allocate(output))
        frame.call = CALL(self._call)
        self.sites = [CallSite(call_spec(site), len(code.types), len(code.outputs)) for site in code.calls]
        packs, keep = self._packs()
        frame.packs = packs
        failed = self.kernel.bind(None, ctypes.byref(frame))
        if failed:
            raise GuardFailed(failed)
        arena = np.full(int(self.registers[code.arena_bytes]) + 64, 0xA5, np.uint8)
        self.registers[0] = (arena.ctypes.data + 63) // 64 * 64
        for i, output in enumerate(code.outputs):
            if output.early:
                self.registers[output.ptr] = self._allocate(i)
        if self.kernel.run(None, ctypes.byref(frame)):
            raise Trapped(TRAPS[frame.trap_code], frame.trap_pos)
        del keep
        return self._result(code.result)

    def _packs(self) -> tuple[Any, list[np.ndarray]]:
        keep = []
        for pack in self.code.packs:
            dtype = PRODUCT_DTYPES[pack.dtype]
            memory = np.zeros(self.table.pack_bytes(dtype, pack.k, pack.n) + 64, np.uint8)
            start = -memory.ctypes.data % 64
            self.table.pack(dtype, pack.k, pack.n, self.leaves[pack.row].ctypes.data + pack.offset, pack.row_stride,
                            pack.col_stride, memory.ctypes.data + start)
            keep.append(memory[start:])
        return (ctypes.c_void_p * max(len(keep), 1))(*[m.ctypes.data for m in keep]), keep

    def _allocate(self, index: int) -> int:
        output = self.code.outputs[index]
        shape = tuple(int(self.registers[r]) for r in output.shape)
        array = np.empty(shape, NUMPY_DTYPES[output.dtype])
        array.reshape(-1).view(np.uint8)[...] = 0xA5  # what the kernel leaves out shows
        self.outputs[index] = array  # type: ignore[call-overload]
        return int(array.ctypes.data)

    def _call(self, frame: Any, number: int) -> int:
        site = self.sites[number]
        try:
            made = site.invoke(self.registers.ctypes.data)
        except PlanMismatch:
            frame.contents.trap_code = TRAPS.index("INTERPRET")
            return 1
        except Exception:
            frame.contents.trap_code, frame.contents.trap_pos = TRAPS.index("RAISED"), site.position
            return 1
        for output, array in made:
            self.outputs[output] = array  # type: ignore[call-overload]
            self.registers[self.code.outputs[output].ptr] = array.ctypes.data
        return 0

    def _set(self, reg: Reg, value: Any) -> None:
        kind = self.code.types[reg]
        slot = self.registers[reg:reg + 1]
        if kind == "f64":
            slot.view(np.float64)[0] = value
        elif kind == "f32":
            slot.view(np.float32)[0] = value
        else:
            slot.view(np.uint64)[0] = int(value) & 0xFFFFFFFFFFFFFFFF  # a large uint64 is its bits

    def _get(self, reg: Reg) -> Any:
        slot = self.registers[reg:reg + 1]
        kind = self.code.types[reg]
        if kind == "f64":
            return slot.view(np.float64)[0]
        return slot.view(np.float32)[0] if kind == "f32" else slot[0]

    def _result(self, spec: ResultSpec) -> Any:
        if spec.kind in ("tuple", "list"):
            items = [self._result(item) for item in spec.items]
            return tuple(items) if spec.kind == "tuple" else items
        if spec.kind == "dict":
            return {key: self._result(item) for key, item in zip(spec.keys, spec.items, strict=True)}
        if spec.kind == "choice":
            return self._result(spec.items[int(self._get(spec.reg))])
        if spec.kind == "complex":
            value = complex(*(self._result(item) for item in spec.items))
            return value if spec.python else {"c64": np.complex64, "c128": np.complex128}[spec.dtype](value)
        if spec.kind == "new":
            return self.outputs[spec.output]
        if spec.kind == "view":
            base: Any = self.outputs[spec.output] if spec.output >= 0 else self.leaves[spec.row]
            shape, strides = ([int(self._get(r)) for r in regs] for regs in (spec.shape, spec.strides))
            return _window(base, spec, shape, strides, int(self._get(spec.offset)) if spec.offset >= 0 else 0)
        if spec.kind == "arg":
            return self.leaves[spec.row]
        if spec.kind == "scalar":
            value = self._get(spec.reg)
            return _PYTHON[spec.python](value) if spec.python else value.astype(NUMPY_DTYPES[spec.dtype])
        return spec.value


def _window(base: np.ndarray, spec: ResultSpec, shape: list[int], strides: list[int], offset: int) -> np.ndarray:
    dtype = NUMPY_DTYPES[spec.dtype]
    count = 1 if 0 not in shape else 0
    address = base.ctypes.data + offset
    low = sum(min(s * (n - 1), 0) for s, n in zip(strides, shape, strict=True)) if count else 0
    high = sum(max(s * (n - 1), 0) for s, n in zip(strides, shape, strict=True)) + dtype.itemsize if count else 0
    if not count:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * (high - low)).from_address(address + low)
    return np.ndarray(shape, dtype, memory, -low, strides)


def open_library(path: Path) -> tuple[KernelTable, object]:
    """The table of a bundle's shared object, or of a plain one that has a function `prebake_table`; and what must stay alive."""
    library = ctypes.CDLL(str(path))
    if not hasattr(library, "prebake_table"):
        return open_capsule(path)
    library.prebake_table.restype = ctypes.c_void_p
    return open_table(library.prebake_table()), library


def open_capsule(path: Path) -> tuple[KernelTable, object]:
    """The table of a bundle's shared object and the module that must stay alive. Raises ImportError."""
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import module_from_spec, spec_from_loader

    loader = ExtensionFileLoader(path.name.partition(".")[0], str(path))
    spec = spec_from_loader(loader.name, loader)
    if spec is None:
        raise ImportError(str(path))
    module = module_from_spec(spec)
    loader.exec_module(module)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return open_table(pointer(module.table, b"prebake.kernels")), module
