"""A small NumPy evaluator of steps and of register code, so that passes and lowering are tested without the C engine.

Every access is computed as byte addresses, so it also checks what `steps` promises: accesses lie inside their memory,
and what a nest or product writes overlaps what it reads only element for element. Temporaries start as garbage.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prebake.templates.registry import resolve
from prebake.vm.plan import code as C
from prebake.vm.plan import steps as S
from prebake.vm.plan.extents import Expr

MEMORY = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
          "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
          "c64": np.complex64, "c128": np.complex128}


def _shift(function: Any) -> Any:
    return lambda a, b: np.where((b >= 0) & (b < a.dtype.itemsize * 8), function(a, np.clip(b, 0, 63)), a * 0)


SCALAR: dict[str, Any] = {
    "mov": lambda a: a, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": np.floor_divide, "mod": np.mod, "fmod": np.fmod, "pow": np.power, "neg": np.negative, "abs": np.abs,
    "sign": np.sign, "square": np.square, "sqrt": np.sqrt, "reciprocal": np.reciprocal, "exp": np.exp, "log": np.log,
    "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "maximum": np.maximum, "minimum": np.minimum,
    "fmax": np.fmax, "fmin": np.fmin, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "not": np.logical_not, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "invert": np.invert, "shl": _shift(np.left_shift), "shr": _shift(np.right_shift),
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "select": np.where, "sin": np.sin, "cos": np.cos,
    "expm1": np.expm1, "log1p": np.log1p,
}
REDUCE: dict[str, Any] = {
    "sum": np.add.reduce, "prod": np.multiply.reduce, "max": np.maximum.reduce, "min": np.minimum.reduce,
    "any": np.logical_or.reduce, "all": np.logical_and.reduce,
}
PYTHON: dict[str, Any] = {"int": int, "float": float, "bool": bool, "complex": complex}
IDENTITY = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf, "any": False, "all": True}


class Trapped(Exception):
    """The code stopped with a trap: (code, position)."""


class Violation(AssertionError):
    """A step breaks an invariant of `steps`."""


@dataclass
class Memory:
    """Bytes that views point into; `start` is where the buffer begins in them."""

    data: np.ndarray
    start: int = 0


@dataclass
class Window:
    """A resolved view: bytes, byte offset, extents, byte strides, memory dtype."""

    data: np.ndarray
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    def addresses(self, extra: np.ndarray | int = 0) -> np.ndarray:
        """Byte offset of every element, checked against the memory."""
        total = np.full(self.shape, self.offset, np.int64) + extra
        for axis, (extent, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            form = [1] * len(self.shape)
            form[axis] = extent
            total = total + (np.arange(extent, dtype=np.int64) * stride).reshape(form)
        item = np.dtype(MEMORY[self.dtype]).itemsize
        if total.size and (total.min() < 0 or total.max() + item > self.data.size):
            raise Violation(f"access outside its memory: {self.offset} {self.shape} {self.strides} "
                            f"of {self.data.size} bytes")
        return total


def read(data: np.ndarray, addresses: np.ndarray, dtype: str) -> np.ndarray:
    """Elements at byte addresses."""
    item = np.dtype(MEMORY[dtype]).itemsize
    raw = data[addresses[..., None] + np.arange(item)]
    return np.ascontiguousarray(raw).view(MEMORY[dtype])[..., 0]


def write(data: np.ndarray, addresses: np.ndarray, dtype: str, values: np.ndarray) -> None:
    """Store elements at byte addresses."""
    item = np.dtype(MEMORY[dtype]).itemsize
    with np.errstate(all="ignore"):
        raw = np.ascontiguousarray(np.asarray(values).astype(MEMORY[dtype]))[..., None].view(np.uint8)
    data[addresses[..., None] + np.arange(item)] = raw


def run_nest(axes: tuple[int, ...], inputs: Sequence[tuple[str, str, Any]], ops: Sequence[Any], outs: Sequence[Any],
             node: Any) -> None:
    """One nest. inputs: (kind, dtype, Window | scalar | axis); node gives (Window, indexes) of an op or output."""
    slots: list[np.ndarray] = []
    accesses: list[tuple[np.ndarray, np.ndarray]] = []  # (memory, addresses) that are read
    for kind, dtype, what in inputs:
        if kind == "view":
            if what.shape != axes:
                raise Violation(f"input axes {what.shape} are not the nest's {axes}")
            at = what.addresses()
            accesses.append((what.data, at))
            slots.append(read(what.data, at, what.dtype).astype(MEMORY[dtype]))
        elif kind == "scalar":
            slots.append(np.broadcast_to(np.asarray(what, MEMORY[dtype]), axes))
        else:
            form = [1] * len(axes)
            form[what] = axes[what]
            slots.append(np.broadcast_to(np.arange(axes[what], dtype=np.int64).reshape(form), axes))

    def displaced(indexes: Any, position: int) -> np.ndarray | int:
        extra: np.ndarray | int = 0
        for slot, extent, stride in indexes:
            index = slots[slot].astype(np.int64)
            if index.size and ((index < -extent) | (index >= extent)).any():
                raise Trapped("INDEX", position)
            extra = extra + np.where(index < 0, index + extent, index) * stride
        return extra

    with np.errstate(all="ignore"):
        for op in ops:
            if op.op == "gather":
                window, indexes = node(op)
                at = window.addresses(displaced(indexes, op.position))
                accesses.append((window.data, at))
                value = read(window.data, at, window.dtype).astype(MEMORY[op.dtype])
            elif op.op == "cast":
                value = slots[op.args[0]].astype(MEMORY[op.dtype])
            else:
                args = [slots[i] for i in op.args]
                for arg in args[1 if op.op == "select" else 0:]:
                    if arg.dtype != MEMORY[op.operand_dtype]:
                        raise Violation(f"{op.op} wants {op.operand_dtype}, gets {arg.dtype}")
                value = np.asarray(SCALAR[op.op](*args)).astype(MEMORY[op.dtype])
            slots.append(value)
        written: list[tuple[np.ndarray, np.ndarray]] = []
        pending = []
        for out in outs:
            window, indexes = node(out)
            at = window.addresses(displaced(indexes, out.position))
            value = slots[out.slot]
            reduced = tuple(a for a in range(len(axes)) if out.reduced >> a & 1)
            if out.reduce == "compress":
                if len(reduced) != len(axes):
                    raise Violation("a compression over some of the axes")
                item = np.dtype(MEMORY[window.dtype]).itemsize
                at = Window(window.data, window.offset, (math.prod(axes),), (item,), window.dtype).addresses()
            elif out.reduce != "store":
                if any(window.strides[a] for a in reduced):
                    raise Violation("a reduced axis has a stride")
                shape = tuple(1 if a in reduced else n for a, n in enumerate(axes))
                at = Window(window.data, window.offset, shape, window.strides, window.dtype).addresses()
                if out.reduce in ("argmax", "argmin"):
                    value = getattr(np, out.reduce)(value, axis=reduced[0], keepdims=True)
                else:
                    value = REDUCE[out.reduce](value, axis=reduced, keepdims=True,
                                               **({"initial": IDENTITY[out.reduce]} if value.size == 0 else {}))
            if out.mask >= 0 and out.reduce != "compress":
                at, value = at[slots[out.mask]], value[slots[out.mask]]
            for data, other in accesses:
                if np.shares_memory(data, window.data) and _overlaps(at, other) and (
                        out.reduce != "store" or out.indexes or out.mask >= 0 or not np.array_equal(at, other)):
                    raise Violation("an output overlaps an input that is not equal to it")
            for data, other in written:
                if np.shares_memory(data, window.data) and _overlaps(at, other):
                    raise Violation("two outputs overlap")
            written.append((window.data, at))
            if out.reduce == "compress":  # there is room for every point
                value = value[slots[out.mask]]
                at = at[:value.size]
            pending.append((window, at, value))
        for window, at, value in pending:
            write(window.data, at, window.dtype, value)


def _overlaps(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.intersect1d(a, b).size)


def run_contract(dtype: str, a: Window, b: Window, out: Window, bias: Window | None, act: str,
                 residual: Window | None = None) -> None:
    """One product."""
    to = out.addresses()
    for operand in (a, b, bias, residual):
        if operand is not None and np.shares_memory(operand.data, out.data) and _overlaps(operand.addresses(), to):
            raise Violation("a product's output overlaps an operand")
    value = read(a.data, a.addresses(), a.dtype) @ read(b.data, b.addresses(), b.dtype)
    assert value.dtype == MEMORY[dtype]
    if bias is not None:
        value = value + read(bias.data, bias.addresses(), bias.dtype)
    if residual is not None:
        value = value + read(residual.data, residual.addresses(), residual.dtype)
    if act == "relu":
        value = np.maximum(value, 0)
    write(out.data, to, out.dtype, value)


def as_array(window: Window, is_written: bool) -> np.ndarray:
    """The array that a call-out gets for a view."""
    window.addresses()
    array: np.ndarray = np.ndarray(window.shape, MEMORY[window.dtype], window.data, window.offset, window.strides)
    array.flags.writeable = is_written
    return array


def run_call(kernel: int, operands: Sequence[Any], is_tuple: bool) -> Sequence[Any]:
    """Results of a call-out."""
    with np.errstate(all="ignore"):
        made = resolve(kernel)(*operands)
    return made if is_tuple else (made,)


def whole_memory(value: np.ndarray, dtype: str) -> Memory:
    """The memory that a call-out's result is held in."""
    assert isinstance(value, np.ndarray) and value.dtype == MEMORY[dtype]
    return Memory(np.frombuffer(bytearray(np.ascontiguousarray(value).tobytes()), np.uint8))


class _Leave(Exception):
    """break, continue or exit."""


class _Break(_Leave):
    pass


class _Continue(_Leave):
    pass


class _Exit(_Leave):
    pass


def memory_of(array: np.ndarray) -> Memory:
    """The bytes that own an array's data, and where the array starts in them."""
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    low, high = np.lib.array_utils.byte_bounds(base)
    flat = np.frombuffer(base, np.uint8) if base.flags.c_contiguous and base.flags.writeable else np.ndarray(
        (high - low,), np.uint8, buffer=base.data if base.flags.c_contiguous else base.base)
    return Memory(flat, array.ctypes.data - low)


def symbols_of(rows: Sequence[Any], leaves: Mapping[int, Any]) -> dict[str, int]:
    """Values of the entry symbols for the objects of the rows."""
    env: dict[str, int] = {}
    for i, row in enumerate(rows):
        value = leaves[i]
        if isinstance(value, np.ndarray):
            env[f"{row.path}.data"] = value.ctypes.data
            for d in range(value.ndim):
                env[f"{row.path}.shape[{d}]"] = value.shape[d]
                env[f"{row.path}.strides[{d}]"] = value.strides[d]
        elif isinstance(value, (int, np.integer)):
            env[row.path] = int(value)
    return env


def garbage(size: int) -> np.ndarray:
    """Bytes that are not zero by chance (as float32: NaN)."""
    return np.full(max(size, 0), 0xFF, np.uint8)


class StepEvaluator:
    """Runs a plan's steps over NumPy arrays."""

    def __init__(self, plan: S.Plan, leaves: Mapping[int, Any]) -> None:
        self.plan, self.leaves = plan, leaves
        self.env: dict[Any, int] = dict(symbols_of(plan.signature.rows, leaves))  # type: ignore[attr-defined]
        self.scalars: dict[S.ScalarReg, Any] = {}
        self.memories: dict[S.Buffer, Memory] = {}
        self.atoms: dict[Any, Any] = {}
        self.trips = 0

    def run(self) -> Any:
        """The result, as the caller would see it. Raises Trapped."""
        for fact in self.plan.facts:
            if bool(self.number(fact.expr)) != fact.answer:
                raise Violation(f"fact does not hold: {fact.text}")
        with contextlib.suppress(_Exit):
            self.steps(self.plan.steps)
        return self.result(self.plan.result)

    def number(self, expr: Expr) -> int:
        return expr.evaluate(lambda atom: self.atoms[atom] if atom in self.atoms else self.env[atom.name])

    def operand(self, operand: S.Operand) -> Any:
        if isinstance(operand, S.ScalarReg):
            if operand.row >= 0:
                return self.leaves[operand.row]
            return self.scalars[operand]
        if isinstance(operand, S.Literal):
            return operand.value
        return self.number(operand)

    def memory(self, buffer: S.Buffer) -> Memory:
        found = self.memories.get(buffer)
        if found is None:
            if buffer.kind == "arg":
                found = memory_of(self.leaves[buffer.row])
            else:
                assert buffer.size_bytes is not None
                found = Memory(garbage(self.number(buffer.size_bytes)))
            self.memories[buffer] = found
        return found

    def window(self, view: S.View) -> Window:
        memory = self.memory(view.buffer)
        return Window(memory.data, memory.start + self.number(view.offset), tuple(map(self.number, view.shape)),
                      tuple(map(self.number, view.strides)), view.dtype)

    def set(self, reg: S.ScalarReg, value: Any) -> None:
        with np.errstate(all="ignore"):
            self.scalars[reg] = np.asarray(value).astype(MEMORY[reg.dtype])[()]
        if reg.expr is not None:
            self.atoms[reg.expr.terms[0][0][0]] = int(self.scalars[reg])

    def node(self, item: Any) -> tuple[Window, Any]:
        return self.window(item.view), [(s, self.number(e), self.number(t)) for s, e, t in item.indexes]

    def steps(self, steps: Sequence[S.Step]) -> None:
        for step in steps:
            self.step(step)

    def step(self, step: S.Step) -> None:
        if isinstance(step, S.Nest):
            inputs = [(i.kind, i.dtype, self.window(i.view) if i.view is not None else
                       self.operand(i.operand) if i.operand is not None else i.axis) for i in step.inputs]
            run_nest(tuple(map(self.number, step.axes)), inputs, step.ops, step.outs, self.node)
        elif isinstance(step, S.Contract):
            a, b, out = map(self.window, (step.a, step.b, step.out))
            batch, m, n, k = tuple(map(self.number, step.batch)), *map(self.number, (step.m, step.n, step.k))
            if a.shape != (*batch, m, k) or b.shape != (*batch, k, n) or out.shape != (*batch, m, n):
                raise Violation(f"product of {a.shape} and {b.shape} into {out.shape}")
            residual = step.residual
            run_contract(step.dtype, a, b, out, self.window(step.bias) if step.bias else None, step.act,
                         self.window(residual) if residual else None)
        elif isinstance(step, S.CallStep):
            results = run_call(step.kernel, [self.argument(arg) for arg in step.args], step.is_tuple)
            for made, value in zip(step.results, results, strict=True):
                if made.view is not None:
                    self.memories[made.view.buffer] = whole_memory(value, made.dtype)
                    for reg, extent in zip(made.extents, value.shape, strict=True):
                        if reg is not None:
                            self.set(reg, extent)
                    assert tuple(map(self.number, made.view.shape)) == value.shape
                elif made.dst is not None:
                    self.set(made.dst, value if made.imag is None else value.real)
                    if made.imag is not None:
                        self.set(made.imag, value.imag)
        elif isinstance(step, S.ScalarOpStep):
            self.set(step.dst, scalar_op(step.op, step.operand_dtype, [self.operand(a) for a in step.args]))
        elif isinstance(step, S.LoadStep):
            window = self.window(step.view)
            self.set(step.dst, read(window.data, window.addresses(), window.dtype))
        elif isinstance(step, S.StoreStep):
            window = self.window(step.view)
            write(window.data, window.addresses(), window.dtype, np.asarray(self.operand(step.value)))
        elif isinstance(step, S.SetStep):
            self.set(step.dst, self.operand(step.value))
        elif isinstance(step, S.TrapStep):
            if step.cond is None or self.operand(step.cond):
                raise Trapped(step.code, step.position)
        elif isinstance(step, S.AllocStep):
            self.memories.pop(step.buffer, None)
        elif isinstance(step, S.ForStep):
            for value in range(*map(self.number, (step.start, step.stop, step.step))):
                self.set(step.var, value)
                if not self.trip(step.body):
                    break
        elif isinstance(step, S.WhileStep):
            while self.trip(step.body):
                self.trips += 1
                assert self.trips < 10_000
        elif isinstance(step, S.IfStep):
            self.steps(step.then if self.operand(step.cond) else step.orelse)
        else:
            raise {S.BreakStep: _Break, S.ContinueStep: _Continue, S.ExitStep: _Exit}[type(step)]

    def argument(self, arg: S.CallArg) -> Any:
        if arg.view is not None:
            return as_array(self.window(arg.view), arg.is_written)
        if arg.operand is None:
            return arg.value if arg.kind == "const" else build(arg.kind, list(map(self.argument, arg.items)), ())
        value = self.operand(arg.operand)
        if arg.imag is not None:
            value = complex(value, self.operand(arg.imag))
        return PYTHON[arg.python](value) if arg.python else MEMORY[arg.dtype](value)

    def trip(self, body: Sequence[S.Step]) -> bool:
        """One trip of a loop; False when it leaves the loop."""
        try:
            self.steps(body)
        except _Break:
            return False
        except _Continue:
            pass
        return True

    def result(self, result: S.Result) -> Any:
        if result.items or result.kind in ("tuple", "list", "dict"):
            return build(result.kind, [self.result(item) for item in result.items], result.keys)
        if result.view is not None:
            window = self.window(result.view)
            return read(window.data, window.addresses(), window.dtype)
        if result.operand is not None:
            return self.operand(result.operand)
        return self.leaves[result.row] if result.kind == "arg" else result.value


def build(kind: str, items: list[Any], keys: Sequence[Any]) -> Any:
    """A container of results."""
    return tuple(items) if kind == "tuple" else items if kind == "list" else dict(zip(keys, items, strict=True))


def scalar_op(op: str, dtype: str, args: list[Any]) -> Any:
    """One scalar operation on native values."""
    with np.errstate(all="ignore"):
        if op == "cast":
            return args[0]
        dtypes = ["bool" if op == "select" and i == 0 else dtype for i in range(len(args))]
        typed = [np.asarray(a).astype(MEMORY[d]) for a, d in zip(args, dtypes, strict=True)]
        return SCALAR[op](*typed)


INT = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "min": min, "max": max,
       "floordiv": lambda a, b: a // b if b else 0, "mod": lambda a, b: a % b if b else 0,
       "eq": lambda a, b: int(a == b), "ne": lambda a, b: int(a != b), "lt": lambda a, b: int(a < b),
       "le": lambda a, b: int(a <= b)}


class GuardFailed(Exception):
    """A guard of the code does not hold."""


class CodeEvaluator:
    """Runs register code over NumPy arrays; a pointer register holds a Memory."""

    def __init__(self, code: C.Code, leaves: Mapping[int, Any]) -> None:
        self.code, self.leaves = code, leaves
        self.regs: list[Any] = [None] * len(code.types)
        self.outputs: list[Memory | None] = [None] * len(code.outputs)
        self.trips = 0

    def run(self) -> Any:
        """The result. Raises GuardFailed and Trapped."""
        code, regs = self.code, self.regs
        for reg, value in code.consts.items():
            regs[reg] = value
        for leaf in code.leaves:
            value = self.leaves[leaf.row]
            if leaf.ptr >= 0:
                regs[leaf.ptr] = memory_of(value)
            for reg, extent in zip(leaf.extents, value.shape if leaf.extents else (), strict=True):
                regs[reg] = extent
            for reg, stride in zip(leaf.strides, value.strides if leaf.strides else (), strict=True):
                regs[reg] = stride
            if leaf.scalar >= 0:
                regs[leaf.scalar] = value
        guards = 0
        for instr in code.bind:
            if isinstance(instr, C.Guard):
                if not regs[instr.a]:
                    raise GuardFailed(code.guards[guards])
                guards += 1
            else:
                self.instr(instr)
        assert guards == len(code.guards)
        for i, output in enumerate(code.outputs):
            if output.early:
                self.allocate(i)
        regs[C.ARENA] = Memory(garbage(regs[code.arena_bytes]))
        with contextlib.suppress(_Exit):
            self.body(code.body)
        return self.result(code.result)

    def allocate(self, index: int) -> None:
        output = self.code.outputs[index]
        size = int(np.prod([self.regs[r] for r in output.shape], initial=1)) * np.dtype(MEMORY[output.dtype]).itemsize
        self.outputs[index] = self.regs[output.ptr] = Memory(garbage(size))

    def window(self, ref: C.Ref, shape: tuple[int, ...], dtype: str) -> Window:
        memory = self.regs[ref.base]
        offset = self.regs[ref.offset] if ref.offset >= 0 else 0
        return Window(memory.data, memory.start + offset, shape, tuple(self.regs[r] for r in ref.strides), dtype)

    def body(self, body: Sequence[C.Instr]) -> None:
        for instr in body:
            self.instr(instr)

    def instr(self, instr: C.Instr) -> None:
        regs = self.regs
        if isinstance(instr, C.Int):
            if instr.op == "select":
                regs[instr.dst] = regs[instr.a] if regs[instr.c] else regs[instr.b]
            else:
                regs[instr.dst] = INT[instr.op](regs[instr.a], regs[instr.b])
        elif isinstance(instr, C.NestCode):
            self.nest(instr)
        elif isinstance(instr, C.ContractCode):
            batch, (m, n, k) = tuple(regs[r] for r in instr.batch), (regs[r] for r in (instr.m, instr.n, instr.k))
            a = self.window(instr.a, (*batch, m, k), instr.dtype)
            b = self.window(instr.b, (*batch, k, n), instr.dtype)
            if instr.pack >= 0:
                pack = self.code.packs[instr.pack]
                assert (pack.k, pack.n) == (k, n)
                assert self.regs[instr.b.base].data is memory_of(self.leaves[pack.row]).data or pack.row >= 0
            residual = instr.residual
            run_contract(instr.dtype, a, b, self.window(instr.out, (*batch, m, n), instr.dtype),
                         self.window(instr.bias, (n,), instr.dtype) if instr.bias else None, instr.act,
                         self.window(residual, (*batch, m, n), instr.dtype) if residual else None)
        elif isinstance(instr, C.Call):
            self.call(self.code.calls[instr.site])
        elif isinstance(instr, C.Scalar):
            value = scalar_op(instr.op, instr.dtype, [regs[r] for r in instr.args])
            self.set(instr.dst, value)
        elif isinstance(instr, C.Cast):
            assert self.code.types[instr.src] == instr.frm and self.code.types[instr.dst] == instr.to
            self.set(instr.dst, regs[instr.src])
        elif isinstance(instr, C.Load):
            window = self.window(C.Ref(instr.base, instr.offset, ()), (), instr.memory)
            self.set(instr.dst, read(window.data, window.addresses(), window.dtype))
        elif isinstance(instr, C.Store):
            window = self.window(C.Ref(instr.base, instr.offset, ()), (), instr.memory)
            write(window.data, window.addresses(), window.dtype, np.asarray(regs[instr.src]))
        elif isinstance(instr, C.Move):
            value = regs[instr.src]
            if isinstance(value, Memory) and self.code.types[instr.dst] == "i64":
                value = value.data.ctypes.data + value.start
            regs[instr.dst] = value
        elif isinstance(instr, C.Trap):
            if instr.cond < 0 or regs[instr.cond]:
                raise Trapped(instr.code, instr.position)
        elif isinstance(instr, C.Alloc):
            self.allocate(instr.output)
        elif isinstance(instr, C.For):
            for value in range(regs[instr.start], regs[instr.stop], regs[instr.step]):
                regs[instr.var] = value
                if not self.trip(instr.body):
                    break
        elif isinstance(instr, C.While):
            while self.trip(instr.body):
                self.trips += 1
                assert self.trips < 10_000
        elif isinstance(instr, C.If):
            self.body(instr.then if regs[instr.cond] else instr.orelse)
        else:
            raise {C.Break: _Break, C.Continue: _Continue, C.Exit: _Exit}[type(instr)]

    def call(self, site: C.CallSite) -> None:
        """A call-out."""
        results = run_call(site.kernel, [self.argument(arg) for arg in site.args], site.is_tuple)
        for made, value in zip(site.results, results, strict=True):
            if made.output >= 0:
                self.outputs[made.output] = self.regs[self.code.outputs[made.output].ptr] = whole_memory(value, made.dtype)
                for reg, is_known, extent in zip(made.shape, made.is_known, value.shape, strict=True):
                    assert not is_known or self.regs[reg] == extent
                    self.regs[reg] = extent
            elif made.reg >= 0:
                self.set(made.reg, value if made.imag < 0 else value.real)
                if made.imag >= 0:
                    self.set(made.imag, value.imag)

    def argument(self, arg: C.CallOperand) -> Any:
        if arg.ref is not None:
            return as_array(self.window(arg.ref, tuple(self.regs[r] for r in arg.shape), arg.dtype), arg.is_written)
        if arg.reg < 0:
            return arg.value if arg.kind == "const" else build(arg.kind, list(map(self.argument, arg.items)), ())
        value = self.regs[arg.reg] if arg.imag < 0 else complex(self.regs[arg.reg], self.regs[arg.imag])
        return PYTHON[arg.python](value) if arg.python else MEMORY[arg.dtype](value)

    def set(self, reg: int, value: Any) -> None:
        with np.errstate(all="ignore"):
            typed = np.asarray(value).astype(MEMORY[self.code.types[reg]])[()]
        self.regs[reg] = int(typed) if self.code.types[reg] in ("i64", "i32", "bool") else typed

    def trip(self, body: Sequence[C.Instr]) -> bool:
        """One trip of a loop; False when it leaves the loop."""
        try:
            self.body(body)
        except _Break:
            return False
        except _Continue:
            pass
        return True

    def nest(self, nest: C.NestCode) -> None:
        regs = self.regs
        axes = tuple(regs[r] for r in nest.axes)
        inputs = []
        for item in nest.inputs:
            if item.kind == "view":
                assert item.ref is not None
                inputs.append((item.kind, item.dtype, self.window(item.ref, axes, item.memory)))
            elif item.kind == "scalar":
                assert self.code.types[item.reg] == item.dtype
                inputs.append((item.kind, item.dtype, regs[item.reg]))
            else:
                inputs.append((item.kind, item.dtype, item.axis))
        run_nest(axes, inputs, nest.ops, nest.outs, lambda item: (
            self.window(item.ref, axes, item.memory), [(s, regs[e], regs[t]) for s, e, t in item.indexes]))

    def result(self, spec: C.ResultSpec) -> Any:
        regs = self.regs
        if spec.kind in ("tuple", "list", "dict"):
            return build(spec.kind, [self.result(item) for item in spec.items], spec.keys)
        if spec.kind in ("new", "view"):
            shape = tuple(regs[r] for r in spec.shape)
            if spec.kind == "new":
                memory = self.outputs[spec.output]
                assert memory is not None
                return np.frombuffer(memory.data.tobytes(), MEMORY[spec.dtype]).reshape(shape)
            memory = self.outputs[spec.output] if spec.output >= 0 else memory_of(self.leaves[spec.row])
            assert memory is not None
            window = Window(memory.data, memory.start + regs[spec.offset], shape, tuple(regs[r] for r in spec.strides),
                            spec.dtype)
            return read(window.data, window.addresses(), window.dtype)
        if spec.kind == "scalar":
            return regs[spec.reg]
        return self.leaves[spec.row] if spec.kind == "arg" else spec.value
