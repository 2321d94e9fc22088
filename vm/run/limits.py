"""Limits of a run: `Guard` looks at every instruction before and after it runs.

Before: what it would cost is estimated (`estimates.py`), so that one call can neither exhaust memory nor take for ever.
After: the bytes that registers keep alive are counted. A step is one instruction plus one for each `WORK_PER_STEP`
nanoseconds of estimated work in it, so that a number of steps bounds the time too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...templates import registry
from ..errors import LimitError, MemoryLimitError, StepLimitError
from ..lang.bytecode import Program
from ..lang.flow import READS, READS_FROM, WRITES, WRITES_FROM
from ..lang.opcodes import BUILD_KINDS, COMPARE_OPS, Op
from .cost_table import kernel_cost
from .estimates import CONTAINERS, FREE, MAX_NODES, Cost, binary, elementwise, extent_of
from .kernel_costs import astype_cost, filled_cost, item_size

if TYPE_CHECKING:
    from .interpreter import Frame

WORK_PER_STEP = 8192
# Attributes of arrays that are data; others are machinery (ctypes, flags) or huge (data as text)
ARRAY_ATTRIBUTES = frozenset(("shape", "ndim", "size", "dtype", "T", "mT", "real", "imag", "nbytes", "itemsize",
                              "strides", "flat", "base"))
# Values that keep nothing alive and cost nothing to combine, ints below 2**62 among them
_SCALARS = frozenset((int, float, bool, complex, type(None), type(...), np.bool_, np.float32, np.float64, np.int64,
                      np.int32, np.float16))
# Kernels that walk an iterator to its end
_CONSUMERS = frozenset((
    "py.sum", "py.any", "py.all", "py.min", "py.max", "py.tuple", "py.list", "py.sorted", "py.list_extend",
    "py.dict_update", "py.text", "math.prod", "math.fsum", "math.hypot", "math.dist", "py.reversed", "py.zip",
))
# Kernels that put an operand into a container that others may hold
_MUTATORS = frozenset(("py.list_append", "py.list_extend", "py.list_insert", "py.dict_update"))
# Kernels that hand out what a container holds
_ITEM_READERS = frozenset(("py.getattr", "py.dict_get", "py.list_pop", "py.dict_items", "py.dict_values", "py.zip",
                           "py.enumerate", "py.reversed", "py.min", "py.max"))
_NUMPY_OPERANDS = (np.ndarray, np.generic, bool, int, float, complex, str, type(None), type(...), slice, np.dtype,
                   np.flatiter, range, *CONTAINERS)
_alloc_cost = filled_cost(0, 1)


class _Watch(NamedTuple):
    """What the guard needs to know of one instruction, worked out once."""

    cost: Callable[[Guard, tuple[int, ...]], Cost] | None
    args: tuple[int, ...]
    op: int
    kernel: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]


class Guard:
    """The account of one run. None for a limit means that it is not kept."""

    def __init__(self, frame: Frame, max_steps: int | None, max_bytes: int | None) -> None:
        self.frame = frame
        self.regs = frame.regs
        self.watches = _watches(frame.program)
        self.max_steps, self.max_bytes = max_steps, max_bytes
        self.steps_left = float("inf") if max_steps is None else max_steps
        self.bytes_limit = float("inf") if max_bytes is None else max_bytes
        self.charges = [0] * len(frame.regs)  # bytes that each register keeps alive
        self.live = 0  # their sum, and
        self.hidden = 0  # bytes put into containers, where a register's account does not see them go
        self.estimate = FREE

    # --- before

    def before(self, pc: int) -> None:
        """Pay for the instruction. Raises StepLimitError or MemoryLimitError where it does not fit."""
        self.steps_left -= 1
        if self.steps_left < 0:
            raise StepLimitError(f"more than {self.max_steps} steps")
        watch = self.watches[pc]
        if watch.cost is None:
            self.estimate = FREE
            return
        self.estimate = cost = watch.cost(self, watch.args)
        if cost is FREE:
            return
        if self.live + self.hidden + cost.size_bytes > self.bytes_limit:
            raise MemoryLimitError(f"a result of about {cost.size_bytes} bytes, {self.live + self.hidden} are in use, "
                                   f"the limit is {self.max_bytes}")
        self.steps_left -= cost.work // WORK_PER_STEP
        if self.steps_left < 0:
            raise StepLimitError(f"about {cost.work} ns of work, more than is left of {self.max_steps} steps")

    def kernel_cost(self, name: str, registers: Sequence[int]) -> Cost:
        """The estimate for a kernel over registers. Raises LimitError for operands that no limited run may pass."""
        regs = self.regs
        values = [self.finite(r) if name in _CONSUMERS else regs[r] for r in registers]
        if name.startswith(("np.", "arr.", "ops.")):
            _check_numpy_operands(name, values)
        elif name in ("py.getattr", "py.hasattr"):
            check_attribute(values[0], values[1])
        return kernel_cost(name, values)

    def finite(self, register: int) -> object:
        """The register's value; an iterator is replaced by one over the same items, which are then countable."""
        value = self.regs[register]
        if isinstance(value, tuple) and any(_is_lazy(item) for item in value):  # collected `*args`
            value = self.regs[register] = tuple(_listed(item) if _is_lazy(item) else item for item in value)
        if isinstance(value, range) and len(value) > MAX_NODES * 50:
            raise LimitError(f"walking a range of {len(value)} items")
        if not _is_lazy(value):
            return value
        items = _listed(value)
        self.regs[register] = iter(items)
        return items

    # --- after

    def after(self, pc: int) -> None:
        """Account for what the instruction left in registers. Raises MemoryLimitError."""
        _, args, op, kernel, reads, writes = self.watches[pc]
        regs, charges = self.regs, self.charges
        if op == _STORE:
            if not isinstance(regs[args[0]], np.ndarray):
                self.hidden += charges[args[2]] + 64
        elif kernel in _MUTATORS:
            self.hidden += sum([charges[r] for r in reads[1:]]) + self.estimate.size_bytes + 64
        for register in writes:
            value = regs[register]
            if type(value) in _SCALARS:
                size_bytes = 0 if type(value) is not int else value.bit_length() >> 3
            else:
                size_bytes = self._size(op, kernel, value, reads)
            if size_bytes != charges[register]:
                self.live += size_bytes - charges[register]
                charges[register] = size_bytes
        if self.live + self.hidden > self.bytes_limit:
            raise MemoryLimitError(f"{self.live + self.hidden} bytes are in use, the limit is {self.max_bytes}")

    def _size(self, op: int, kernel: str, value: object, reads: tuple[int, ...]) -> int:
        """Bytes that a register with this value keeps alive."""
        sources = [self.charges[r] for r in reads]
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject or value.dtype.kind not in "biufcV":
                raise LimitError(f"an array of dtype {value.dtype}: limited runs take numeric arrays")
            if op in _CALLERS_OWN:
                return 0
            root = _root(value)
            if op in _KEEPS_CHARGE:
                inherited = max(sources, default=0)
                return max(inherited, root.nbytes) if root is value and op == _VIEW else inherited
            if root is not value and any(_root(self.regs[r]) is root for r in reads
                                         if isinstance(self.regs[r], np.ndarray)):
                return max(sources)
            return max(sources, default=0) if kernel in _ITEM_READERS else root.nbytes
        if op in _CALLERS_OWN or op == _LOAD_CONST:
            return 0
        if op in _KEEPS_CHARGE:
            return max(sources, default=0)
        if isinstance(value, (tuple, list, dict, slice)) or hasattr(value, "__next__"):
            return self.estimate.size_bytes + sum(sources) + 64
        if isinstance(value, (str, bytes)):
            return len(value) * 4
        return 0


# --- what each instruction costs

def _binary(name: str) -> Callable[[Guard, tuple[int, ...]], Cost]:
    def cost(guard: Guard, args: tuple[int, ...]) -> Cost:
        return binary(name, guard.regs[args[1]], guard.regs[args[2]])
    return cost


def _call(guard: Guard, args: tuple[int, ...]) -> Cost:
    return guard.kernel_cost(registry.BY_ID[args[1]].name, args[3:])


def _inplace(guard: Guard, args: tuple[int, ...]) -> Cost:
    a, b = guard.regs[args[1]], guard.finite(args[2])
    if isinstance(a, (set, dict)):
        return elementwise((b,))
    return kernel_cost(registry.BY_ID[args[3]].name, (a, b))


def _compare(guard: Guard, args: tuple[int, ...]) -> Cost:
    name = COMPARE_OPS[args[3]]
    if name in ("is", "is not"):
        return FREE
    if name in ("in", "not in"):
        return elementwise((guard.regs[args[1]], guard.finite(args[2])), 32)
    return elementwise((guard.regs[args[1]], guard.regs[args[2]]), 16)


def _reading(op: int) -> Callable[[Guard, tuple[int, ...]], Cost]:
    positions = READS[op]

    def cost(guard: Guard, args: tuple[int, ...]) -> Cost:
        return elementwise([guard.regs[args[i]] for i in positions], 8)
    return cost


def _attribute(guard: Guard, args: tuple[int, ...]) -> Cost:
    check_attribute(guard.regs[args[1]], guard.frame.program.constants[args[2]])
    return FREE


def _build(guard: Guard, args: tuple[int, ...]) -> Cost:
    work = 100 * len(args)
    if BUILD_KINDS[args[1]] == "dict":
        # a key is hashed from end to end, without Python's own guard against deep nesting
        work += extent_of([guard.regs[r] for r in args[3::2]]).elements * 50
    return Cost(64 + 16 * len(args), work)


def _unpack(guard: Guard, args: tuple[int, ...]) -> Cost:
    return Cost(0, 100 * len(args))


def _cast(guard: Guard, args: tuple[int, ...]) -> Cost:
    return astype_cost((guard.regs[args[1]], guard.regs[args[2]]))


def _alloc(guard: Guard, args: tuple[int, ...]) -> Cost:
    return _alloc_cost((guard.regs[args[1]], guard.regs[args[3]]))


def _view(guard: Guard, args: tuple[int, ...]) -> Cost:
    base, index = guard.regs[args[1]], guard.regs[args[2]]
    if isinstance(index, int) and type(base) is not dict:
        return FREE
    return _indexing_cost(base, index, None)


def _store(guard: Guard, args: tuple[int, ...]) -> Cost:
    return _indexing_cost(guard.regs[args[0]], guard.regs[args[1]], (guard.regs[args[2]],))


def _indexing_cost(base: Any, index: Any, stored: tuple[object] | None) -> Cost:
    """Reading base[index], or writing what is stored there."""
    if isinstance(base, (dict, *CONTAINERS, str)):
        if isinstance(index, slice):
            return Cost(len(base) * 8, len(base) * 8)
        return Cost(0, extent_of((index,)).elements * 50)  # a key is hashed
    parts = index if isinstance(index, tuple) else (index,)
    picks = [part for part in parts if isinstance(part, (list, np.ndarray))]
    if not picks:  # basic: a view, or a store into one
        return Cost(0, 100 * len(parts) if stored is None else elementwise((base, *stored)).work)
    # integer and boolean arrays: their broadcast, times the axes that they leave alone
    chosen = elementwise(picks).work // 4
    shape = getattr(base, "shape", ())
    used = sum([p.ndim if isinstance(p, np.ndarray) and p.dtype == np.bool_ else 1
                for p in parts if p is not None and p is not ...])
    rest = 1
    for n in sorted(shape, reverse=True)[:max(len(shape) - used, 0)]:
        rest *= n
    n = chosen * rest
    if stored is not None:
        return Cost(0, n * 16 + extent_of(stored).elements * 8)
    return Cost(n * getattr(getattr(base, "dtype", None), "itemsize", 8), n * 16)


_COSTS: dict[int, Callable[[Guard, tuple[int, ...]], Cost]] = {
    Op.BINARY_ADD_TENSOR: _binary("add"), Op.BINARY_SUB_TENSOR: _binary("sub"), Op.BINARY_MUL_TENSOR: _binary("mul"),
    Op.BINARY_DIV_TENSOR: _binary("truediv"), Op.CALL_KERNEL: _call, Op.INPLACE_TENSOR: _inplace,
    Op.COMPARE_TENSOR: _compare, Op.LOAD_ATTR: _attribute, Op.BUILD: _build, Op.UNPACK: _unpack, Op.CAST_TENSOR: _cast,
    Op.ALLOC_BUFFER: _alloc, Op.VIEW_TENSOR: _view, Op.STORE_TENSOR: _store,
    **{op: _reading(op) for op in (Op.IF_TRUE, Op.IF_TENSOR_GT, Op.LOOP_TEST, Op.LOOP_UNTIL_TENSOR_EQ,
                                   Op.UNARY_NEG_TENSOR, Op.UNARY_NOT_TENSOR, Op.SELECT_TENSOR, Op.REDUCE_SUM_TENSOR,
                                   Op.REDUCE_MAX_TENSOR)},
}
_STORE, _VIEW, _LOAD_CONST = int(Op.STORE_TENSOR), int(Op.VIEW_TENSOR), int(Op.LOAD_CONST)
_CALLERS_OWN = frozenset((int(Op.LOAD_TENSOR), int(Op.LOAD_CAPTURE)))
# The result lives in what an operand keeps alive.
_KEEPS_CHARGE = frozenset(map(int, (Op.MOVE, Op.LOAD_ATTR, Op.VIEW_TENSOR, Op.UNPACK, Op.LOOP_EACH, Op.LOOP_NEXT,
                                    Op.INPLACE_TENSOR)))


def _watches(program: Program) -> list[_Watch]:
    """One watch for each instruction, kept on the program."""
    watches = program.__dict__.get("_watches")
    if watches is None:
        watches = program.__dict__["_watches"] = [_watch(program, ins.op, ins.args) for ins in program.code]
    return watches


def _watch(program: Program, op: int, args: tuple[int, ...]) -> _Watch:
    if op == Op.LOOP_NEXT:  # writes the variable of the loop that it ends
        head = program.code[args[0]]
        if head.op == Op.LOOP_WHILE:
            return _Watch(None, args, op, "", (), ())
        return _Watch(None, args, op, "", head.args[1:2] if head.op == Op.LOOP_EACH else (), head.args[:1])
    reads = tuple([args[i] for i in READS[op]]) + (args[READS_FROM[op]:] if READS_FROM[op] else ())
    writes = tuple([args[i] for i in WRITES[op]]) + (args[WRITES_FROM[op]:] if WRITES_FROM[op] else ())
    kernel = registry.BY_ID[args[1]].name if op == Op.CALL_KERNEL else ""
    return _Watch(_COSTS.get(op), args, op, kernel, reads, writes)


def _check_numpy_operands(name: str, values: Sequence[object]) -> None:
    for position, (value, parameter) in enumerate(zip(values, registry.BY_NAME[name].parameters, strict=False)):
        if parameter.name == "dtype" or (name == "arr.view" and position):
            item_size(value)
        elif isinstance(value, int) and value.bit_length() > 64:
            raise LimitError("Python ints beyond 64 bits become objects: not in limited runs")
        elif not isinstance(value, _NUMPY_OPERANDS):
            raise LimitError(f"a {type(value).__name__} as an operand of {name}: not in limited runs")


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


def check_attribute(value: object, name: object) -> None:
    """Raise LimitError for attributes that are machinery, not data."""
    if not isinstance(name, str):
        return
    if name.startswith("__") or (isinstance(value, (np.ndarray, np.generic, np.flatiter))
                                 and name not in ARRAY_ATTRIBUTES):
        raise LimitError(f"the attribute {name} of a {type(value).__name__}: not in limited runs")
