"""Builds register code by hand and runs it on the tape machine through ctypes, without planner or dispatcher."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from prebake.templates.levels import runnable_levels
from prebake.templates.scalars import BY_NAME
from prebake.templates.tapecode import NATIVE_OF
from prebake.vm.plan.code import Code, In, Instr, NestCode, NodeOp, Out, Ref, Reg, ResultSpec
from prebake.vm.plan.signature import DTYPE_NAMES
from prebake.vm.run.tape import Tape

LEVELS = [level.name for level in runnable_levels()]
NATIVE_NUMPY = {"bool": np.bool_, "i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}


class Frame(ctypes.Structure):
    pass


ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Frame), ctypes.c_int32)
Frame._fields_ = [
    ("r", ctypes.c_void_p),
    ("packs", ctypes.c_void_p),
    ("trap_code", ctypes.c_int32),
    ("trap_pos", ctypes.c_int32),
    ("owner", ctypes.c_void_p),
    ("alloc", ALLOC),
    ("call", ctypes.c_void_p),
]
CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Frame))


class Trapped(Exception):
    """The run stopped: args are trap code and position."""


class Builder:
    """Registers and instructions of one Code; arrays become constants (addresses, extents, strides)."""

    def __init__(self) -> None:
        self.types: list[str] = ["ptr"]
        self.consts: dict[Reg, int | float] = {}
        self.body: list[Instr] = []
        self.bind: list[Instr] = []
        self.keep: list[object] = []

    def reg(self, kind: str = "i64", value: int | float | None = None) -> Reg:
        self.types.append(kind)
        reg = len(self.types) - 1
        if value is not None:
            self.consts[reg] = value
        return reg

    def ref(self, array: np.ndarray, axes: Sequence[int] | None = None, n_axes: int = 0) -> Ref:
        """A view of the array; axes: the nest axis of each of its own (the others get stride 0)."""
        self.keep.append(array)
        strides = list(array.strides)
        if axes is not None:
            strides = [0] * n_axes
            for axis, stride in zip(axes, array.strides, strict=True):
                strides[axis] = stride
        base = self.reg("ptr", array.__array_interface__["data"][0])
        return Ref(base, -1, tuple(self.reg("i64", s) for s in strides))

    def view(self, array: np.ndarray, shape: Sequence[int]) -> In:
        memory = DTYPE_NAMES[array.dtype]
        return In("view", NATIVE_OF[memory], memory, self.ref(np.broadcast_to(array, shape)))

    def scalar(self, value: float | int | bool, dtype: str) -> In:
        return In("scalar", dtype, reg=self.reg(dtype, value))

    def code(self) -> Code:
        return Code(
            "test",
            self.types,
            self.consts,
            (),
            tuple(self.bind),
            ("",) * 8,
            0,
            (),
            ResultSpec("const"),
            (),
            tuple(self.body),
        )

    def run(self, level: str | None = None, packs: Sequence[int] = ()) -> Runner:
        runner = Runner(self.code(), level, packs)
        runner.bind_run()
        return runner


class Runner:
    """A tape with its registers; bind_run raises Trapped, or AssertionError with a failed guard's number."""

    def __init__(self, code: Code, level: str | None = None, packs: Sequence[int] = ()) -> None:
        self.tape = Tape(code, level)
        self.regs = np.frombuffer(self.tape.image, np.int64).copy()
        assert self.regs.size == self.tape.n_regs
        self.packs = np.array([*packs, 0], np.uint64)
        self.frame = Frame(self.regs.ctypes.data, self.packs.ctypes.data, 0, 0, None, ALLOC(self._alloc))
        self.allocated: list[tuple[int, np.ndarray]] = []
        self.bind = CALL(self.tape.bind_address)
        self.call = CALL(self.tape.run_address)

    def _alloc(self, frame: object, output: int) -> int:
        self.allocated.append((output, np.zeros(64)))
        return self.allocated[-1][1].ctypes.data

    def bind_run(self) -> None:
        failed = self.bind(self.tape.plan_address, ctypes.byref(self.frame))
        assert failed == 0, failed
        if self.call(self.tape.plan_address, ctypes.byref(self.frame)):
            raise Trapped(self.frame.trap_code, self.frame.trap_pos)

    def value(self, reg: Reg, dtype: str) -> object:
        word = self.regs[reg : reg + 1]
        return word.view({"i32": np.int64, "bool": np.int64}.get(dtype, NATIVE_NUMPY[dtype]))[0]


def node(op: str, dtype: str, *args: int, result: str = "") -> NodeOp:
    """A DAG node of operand dtype `dtype`."""
    made = result or ("bool" if op != "cast" and BY_NAME[op].predicate else dtype)
    return NodeOp(op, made, dtype, tuple(args))


def build_nest(
    shape: Sequence[int],
    inputs: Sequence[np.ndarray | In],
    ops: Sequence[NodeOp],
    outs: Sequence[tuple[int, str, np.ndarray, int]],
    builder: Builder | None = None,
) -> Builder:
    """A builder whose body is one nest.

    inputs: arrays that broadcast to shape, or In; outs: (slot, reduction, array of the kept axes, reduced axes' mask).
    """
    b = builder or Builder()
    n = len(shape)
    axes = tuple(b.reg("i64", e) for e in shape)
    ins = tuple(x if isinstance(x, In) else b.view(x, shape) for x in inputs)
    made = []
    for slot, reduce, array, reduced in outs:
        kept = [a for a in range(n) if not reduced >> a & 1]
        made.append(Out(slot, reduce, DTYPE_NAMES[array.dtype], b.ref(array, kept, n), reduced))
    b.body.append(NestCode(axes, ins, tuple(ops), tuple(made)))
    return b


def run_nest(
    shape: Sequence[int],
    inputs: Sequence[np.ndarray | In],
    ops: Sequence[NodeOp],
    outs: Sequence[tuple[int, str, np.ndarray, int]],
    level: str | None = None,
    builder: Builder | None = None,
) -> Runner:
    """Build and run one nest; the output arrays hold the results."""
    return build_nest(shape, inputs, ops, outs, builder).run(level)
