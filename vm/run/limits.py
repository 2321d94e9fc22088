"""Limits of a run: `Guard` looks at every instruction before and after it runs.

Before: what it would cost is estimated (`estimates.py`), so that one call can neither exhaust memory nor take for ever.
After: the bytes that registers keep alive are counted. A step is one instruction plus one for each `WORK_PER_STEP`
nanoseconds of estimated work in it, so that a number of steps bounds the time too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ...templates import registry
from ..errors import LimitError, MemoryLimitError, StepLimitError
from ..lang.flow import READS, READS_FROM, WRITES, WRITES_FROM
from ..lang.opcodes import BUILD_KINDS, COMPARE_OPS, Op
from .cost_table import kernel_cost
from .estimates import CONTAINERS, MAX_NODES, Cost, binary, elementwise, extent_of
from .kernel_costs import astype_cost, filled_cost, item_size

if TYPE_CHECKING:
    from .interpreter import Frame

WORK_PER_STEP = 8192
# Attributes of arrays that are data; others are machinery (ctypes, flags) or huge (data as text)
ARRAY_ATTRIBUTES = frozenset(("shape", "ndim", "size", "dtype", "T", "mT", "real", "imag", "nbytes", "itemsize",
                              "strides", "flat", "base"))
# Kernels that walk an iterator to its end
_CONSUMERS = frozenset((
    "py.sum", "py.any", "py.all", "py.min", "py.max", "py.tuple", "py.list", "py.sorted", "py.list_extend",
    "py.dict_update", "math.prod", "math.fsum", "math.hypot", "math.dist", "py.reversed",
))
_LAZY = frozenset(("py.zip", "py.enumerate"))  # take iterators, but one item at a time
# Kernels that put an operand into a container that others may hold
_MUTATORS = frozenset(("py.list_append", "py.list_extend", "py.list_insert", "py.dict_update"))
# Kernels that hand out what a container holds
_ITEM_READERS = frozenset(("py.getattr", "py.dict_get", "py.list_pop", "py.dict_items", "py.dict_values", "py.zip",
                           "py.enumerate", "py.reversed", "py.min", "py.max"))
_BINARY = {Op.BINARY_ADD_TENSOR: "add", Op.BINARY_SUB_TENSOR: "sub", Op.BINARY_MUL_TENSOR: "mul",
           Op.BINARY_DIV_TENSOR: "truediv"}
_KEEPS_CHARGE = frozenset((Op.MOVE, Op.LOAD_ATTR, Op.VIEW_TENSOR, Op.UNPACK, Op.LOOP_EACH, Op.LOOP_NEXT))
_PLAIN_WALK = frozenset((Op.IF_TRUE, Op.IF_TENSOR_GT, Op.LOOP_TEST, Op.LOOP_UNTIL_TENSOR_EQ, Op.UNARY_NEG_TENSOR,
                         Op.UNARY_NOT_TENSOR, Op.SELECT_TENSOR, Op.REDUCE_SUM_TENSOR, Op.REDUCE_MAX_TENSOR))
_alloc_cost = filled_cost(0, 1)


class Guard:
    """The account of one run. None for a limit means that it is not kept."""

    def __init__(self, frame: Frame, max_steps: int | None, max_bytes: int | None) -> None:
        self.frame = frame
        self.max_steps, self.max_bytes = max_steps, max_bytes
        self.steps_left = float("inf") if max_steps is None else max_steps
        self.charges = [0] * len(frame.regs)  # bytes that each register keeps alive
        self.live = 0  # their sum
        self.hidden = 0  # bytes put into containers, where a register's account does not see them go
        self.estimate = Cost(0, 0)

    # --- before

    def before(self, pc: int) -> None:
        """Pay for the instruction. Raises StepLimitError or MemoryLimitError where it does not fit."""
        ins = self.frame.program.code[pc]
        self.steps_left -= 1
        if self.steps_left < 0:
            raise StepLimitError(f"more than {self.max_steps} steps")
        self.estimate = cost = self._cost(ins.op, ins.args)
        if self.max_bytes is not None and self.live + self.hidden + cost.size_bytes > self.max_bytes:
            raise MemoryLimitError(f"a result of about {cost.size_bytes} bytes, {self.live + self.hidden} are in use, "
                                   f"the limit is {self.max_bytes}")
        self.steps_left -= cost.work // WORK_PER_STEP
        if self.steps_left < 0:
            raise StepLimitError(f"about {cost.work} ns of work, more than is left of {self.max_steps} steps")

    def _cost(self, op: int, args: tuple[int, ...]) -> Cost:
        regs = self.frame.regs
        if op == Op.CALL_KERNEL:
            return self._kernel_cost(registry.BY_ID[args[1]].name, args[3:])
        name = _BINARY.get(op)  # type: ignore[call-overload]
        if name is not None:
            return binary(name, regs[args[1]], regs[args[2]])
        if op == Op.INPLACE_TENSOR:
            name = registry.BY_ID[args[3]].name
            a, b = regs[args[1]], self._finite(args[2])
            if isinstance(a, (set, dict)):
                return elementwise((b,))
            return kernel_cost(name, (a, b))
        if op == Op.COMPARE_TENSOR:
            name = COMPARE_OPS[args[3]]
            if name in ("is", "is not"):
                return Cost(0, 1)
            if name in ("in", "not in"):
                return elementwise((regs[args[1]], self._finite(args[2])), 32)
            return elementwise((regs[args[1]], regs[args[2]]), 16)
        if op in _PLAIN_WALK:
            return elementwise([regs[args[i]] for i in READS[op]], 8)
        if op == Op.VIEW_TENSOR or op == Op.STORE_TENSOR:
            return self._indexing_cost(op, args)
        if op == Op.CAST_TENSOR:
            return astype_cost((regs[args[1]], regs[args[2]]))
        if op == Op.ALLOC_BUFFER:
            return _alloc_cost((regs[args[1]], regs[args[3]]))
        if op == Op.LOAD_ATTR:
            _check_attribute(regs[args[1]], self.frame.program.constants[args[2]])
        elif op == Op.BUILD:
            return Cost(64 + 16 * len(args), 100 * len(args) + self._hash_work(args))
        elif op == Op.UNPACK:
            return Cost(0, 100 * len(args))
        return Cost(0, 0)

    def _hash_work(self, args: tuple[int, ...]) -> int:
        if BUILD_KINDS[args[1]] != "dict":
            return 0
        # a key is hashed from end to end, without Python's own guard against deep nesting
        return extent_of([self.frame.regs[r] for r in args[3::2]]).elements * 50

    def _indexing_cost(self, op: int, args: tuple[int, ...]) -> Cost:
        regs = self.frame.regs
        base, index = (regs[args[1]], regs[args[2]]) if op == Op.VIEW_TENSOR else (regs[args[0]], regs[args[1]])
        if isinstance(base, (dict, *CONTAINERS, str)):
            work = extent_of((index,)).elements * 50
            if isinstance(index, slice):
                return Cost(len(base) * 8, len(base) * 8)
            return Cost(0, work)
        parts = index if isinstance(index, tuple) else (index,)
        picks = [part for part in parts if isinstance(part, (list, np.ndarray))]
        stored = [regs[args[2]]] if op == Op.STORE_TENSOR else []
        if not picks:
            # basic: a view, or a store into one
            if op == Op.VIEW_TENSOR:
                return Cost(0, 100 * len(parts))
            return Cost(0, elementwise([base, *stored]).work)
        # integer and boolean arrays: their broadcast, times the axes that they leave alone
        extent = extent_of(picks)
        chosen = max(extent.elements, elementwise(picks).work // 4)
        shape = getattr(base, "shape", ())
        used = sum(p.ndim if isinstance(p, np.ndarray) and p.dtype == np.bool_ else 1
                   for p in parts if p is not None and p is not ...)
        rest = 1
        for n in sorted(shape, reverse=True)[:max(len(shape) - used, 0)]:
            rest *= n
        n = chosen * rest
        item = getattr(getattr(base, "dtype", None), "itemsize", 8)
        return Cost(n * item if op == Op.VIEW_TENSOR else 0, n * 16 + sum(extent_of((s,)).elements for s in stored) * 8)

    def _kernel_cost(self, name: str, registers: Sequence[int]) -> Cost:
        regs = self.frame.regs
        values = [self._finite(r) if name in _CONSUMERS else regs[r] for r in registers]
        group = name.partition(".")[0]
        if group in ("np", "arr", "ops"):
            self._check_numpy_operands(name, values)
        elif name in ("py.getattr", "py.hasattr"):
            _check_attribute(values[0], values[1])
        elif name in _LAZY:
            extent_of([v for v in values if isinstance(v, CONTAINERS)])
        return kernel_cost(name, values)

    def _check_numpy_operands(self, name: str, values: Sequence[object]) -> None:
        for value, parameter in zip(values, registry.BY_NAME[name].parameters, strict=False):
            if parameter.name == "dtype" or name == "arr.view":
                if value is not values[0]:
                    item_size(value)
            elif isinstance(value, int) and value.bit_length() > 64:
                raise LimitError("Python ints beyond 64 bits become objects: not in limited runs")
            elif not isinstance(value, (np.ndarray, np.generic, bool, int, float, complex, str, type(None), type(...),
                                        slice, np.dtype, np.flatiter, range, *CONTAINERS)):
                raise LimitError(f"a {type(value).__name__} as an operand of {name}: not in limited runs")

    def _finite(self, register: int) -> object:
        """The register's value; an iterator is replaced by one over the same items, which are then countable."""
        value = self.frame.regs[register]
        if isinstance(value, tuple) and any(_is_lazy(item) for item in value):  # collected `*args`
            value = self.frame.regs[register] = tuple(_listed(item) if _is_lazy(item) else item for item in value)
        if isinstance(value, range) and len(value) > MAX_NODES * 50:
            raise LimitError(f"walking a range of {len(value)} items")
        if not _is_lazy(value):
            return value
        items = _listed(value)
        self.frame.regs[register] = iter(items)
        return items

    # --- after

    def after(self, pc: int) -> None:
        """Account for what the instruction left in registers. Raises MemoryLimitError."""
        ins = self.frame.program.code[pc]
        op, args = ins.op, ins.args
        if op == Op.STORE_TENSOR:
            if not isinstance(self.frame.regs[args[0]], np.ndarray):
                self.hidden += self.charges[args[2]] + 64
        elif op == Op.LOOP_NEXT:
            head = self.frame.program.code[args[0]]
            if head.op != Op.LOOP_WHILE:
                source = self.charges[head.args[1]] if head.op == Op.LOOP_EACH else 0
                self._charge(head.args[0], source)
        elif op == Op.LOOP_EACH or op == Op.LOOP_RANGE:
            self._charge(args[0], self.charges[args[1]] if op == Op.LOOP_EACH else 0)
        else:
            if op == Op.CALL_KERNEL and registry.BY_ID[args[1]].name in _MUTATORS:
                self.hidden += sum(self.charges[r] for r in args[4:]) + self.estimate.size_bytes + 64
            self._results(op, args)
        if self.max_bytes is not None and self.live + self.hidden > self.max_bytes:
            raise MemoryLimitError(f"{self.live + self.hidden} bytes are in use, the limit is {self.max_bytes}")

    def _results(self, op: int, args: tuple[int, ...]) -> None:
        written = [args[i] for i in WRITES[op]]
        if WRITES_FROM[op]:
            written += args[WRITES_FROM[op]:]
        if not written:
            return
        read = [args[i] for i in READS[op]]
        if READS_FROM[op]:
            read += args[READS_FROM[op]:]
        sources = [self.charges[r] for r in read]
        for register in written:
            self._charge(register, self._size(op, args, self.frame.regs[register], read, sources))

    def _size(self, op: int, args: tuple[int, ...], value: object, read: list[int], sources: list[int]) -> int:
        """Bytes that a register with this value keeps alive."""
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject or value.dtype.kind not in "biufcV":
                raise LimitError(f"an array of dtype {value.dtype}: limited runs take numeric arrays")
            if op in (Op.LOAD_TENSOR, Op.LOAD_CAPTURE):
                return 0  # the caller's
            root = _root(value)
            if op in _KEEPS_CHARGE or op == Op.INPLACE_TENSOR:
                inherited = max(sources, default=0)
                return max(inherited, root.nbytes) if root is value and op == Op.VIEW_TENSOR else inherited
            if root is not value and any(_root(v) is root for v in (self.frame.regs[r] for r in read)
                                         if isinstance(v, np.ndarray)):
                return max(sources)
            if op == Op.CALL_KERNEL and registry.BY_ID[args[1]].name in _ITEM_READERS:
                return max(sources, default=0)
            return root.nbytes
        if op in (Op.LOAD_TENSOR, Op.LOAD_CAPTURE, Op.LOAD_CONST):
            return 0
        if op in _KEEPS_CHARGE:
            return max(sources, default=0)
        if isinstance(value, (tuple, list, dict, slice)) or hasattr(value, "__next__"):
            return self.estimate.size_bytes + sum(sources) + 64
        if isinstance(value, (str, bytes)):
            return len(value) * 4
        return 0

    def _charge(self, register: int, size_bytes: int) -> None:
        self.live += size_bytes - self.charges[register]
        self.charges[register] = size_bytes


def _root(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _is_lazy(value: object) -> bool:
    return hasattr(value, "__next__") and not isinstance(value, np.flatiter)


def _listed(iterator: Any) -> list:
    items = list(islice(iterator, MAX_NODES + 1))
    if len(items) > MAX_NODES:
        raise LimitError(f"an iterator of more than {MAX_NODES} items")
    return items


def _check_attribute(value: object, name: object) -> None:
    """Raise LimitError for attributes that are machinery, not data."""
    if not isinstance(name, str):
        return
    if name.startswith("__") or (isinstance(value, (np.ndarray, np.generic, np.flatiter))
                                 and name not in ARRAY_ATTRIBUTES):
        raise LimitError(f"the attribute {name} of a {type(value).__name__}: not in limited runs")
