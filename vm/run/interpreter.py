"""The reference semantics of MSBC: one handler `exec_<opcode>` per instruction, one NumPy call per instruction.

Registers hold Python objects and every handler is what Python and NumPy do for the source expression; nothing is
fused, reordered or checked ahead. Limits (`max_steps`, `max_bytes`) are kept by `limits.Guard`, which looks at an
instruction before and after it runs; without limits it does not exist and costs nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...templates import registry
from ..errors import PrebakeError
from ..lang.bytecode import UNBOUND, Capture, Program
from ..lang.opcodes import BUILD_KINDS, BY_CODE, COMPARE_OPS, TABLE
from . import debug  # noqa: F401  (gives the bodies of the `debug.*` kernels)
from .callees import CALL_OTHER, MAKE, call_other, make
from .source_errors import loaded_module, point_at_source, unbound_local

Hook = Callable[[Program, int, list], None]
_END = object()  # of an iterator


class Frame:
    """One activation: registers, arguments, and the iterators of the loops that are running (by head)."""

    __slots__ = ("args", "loops", "program", "read_capture", "regs", "result")

    def __init__(self, program: Program, args: Sequence[object], read_capture: Callable[[int], object]) -> None:
        self.program, self.args, self.read_capture = program, args, read_capture
        self.regs: list[Any] = [UNBOUND] * program.n_regs
        self.loops: dict[int, Iterator] = {}
        self.result: object = None


Handler = Callable[[Frame, tuple[int, ...], int], "int | None"]  # -> next instruction, None: the following one


# --- control flow

def exec_if_true(frame: Frame, args: tuple[int, ...], pc: int) -> int | None:
    return None if frame.regs[args[0]] else args[1]


def exec_if_tensor_gt(frame: Frame, args: tuple[int, ...], pc: int) -> int | None:
    return None if frame.regs[args[0]] > frame.regs[args[1]] else args[2]


def exec_jump(frame: Frame, args: tuple[int, ...], pc: int) -> int | None:
    return args[0]


def _enter(frame: Frame, var: int, trips: Iterator, pc: int, exit_: int) -> int | None:
    first = next(trips, _END)
    if first is _END:
        return exit_
    frame.regs[var] = first
    frame.loops[pc] = trips
    return None


def exec_loop_range(frame: Frame, args: tuple[int, ...], pc: int) -> int | None:
    var, start, stop, step, exit_ = args
    regs = frame.regs
    return _enter(frame, var, iter(range(regs[start], regs[stop], regs[step])), pc, exit_)


def exec_loop_each(frame: Frame, args: tuple[int, ...], pc: int) -> int | None:
    var, seq, exit_ = args
    return _enter(frame, var, iter(frame.regs[seq]), pc, exit_)


def exec_loop_while(frame: Frame, args: tuple[int, ...], pc: int) -> int | None:
    return None


def exec_loop_until_tensor_eq(frame: Frame, args: tuple[int, ...], pc: int) -> int | None:
    return args[2] if frame.regs[args[0]] == frame.regs[args[1]] else None


def exec_loop_test(frame: Frame, args: tuple[int, ...], pc: int) -> int | None:
    return None if frame.regs[args[0]] else args[1]


def exec_loop_next(frame: Frame, args: tuple[int, ...], pc: int) -> int | None:
    head = args[0]
    trips = frame.loops.get(head)
    if trips is None:
        return head  # a while loop
    value = next(trips, _END)
    if value is _END:
        del frame.loops[head]
        return None
    frame.regs[frame.program.code[head].args[0]] = value
    return head + 1


def exec_break(frame: Frame, args: tuple[int, ...], pc: int) -> int | None:
    return args[0]


def exec_continue(frame: Frame, args: tuple[int, ...], pc: int) -> int | None:
    return args[0]


def exec_return(frame: Frame, args: tuple[int, ...], pc: int) -> int | None:
    frame.result = frame.regs[args[0]]
    return -1


# --- environment

def exec_load_const(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    frame.regs[args[0]] = frame.program.constants[args[1]]


def exec_load_capture(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    frame.regs[args[0]] = frame.read_capture(args[1])


def exec_load_attr(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    frame.regs[args[0]] = getattr(frame.regs[args[1]], frame.program.constants[args[2]])  # type: ignore[call-overload]


def _pairs(items: list) -> dict:
    return dict(zip(items[::2], items[1::2], strict=True))


_BUILDERS: dict[str, Callable[[list], object]] = {
    "tuple": tuple, "list": list, "slice": lambda items: slice(*items), "dict": _pairs,
}
assert tuple(_BUILDERS) == BUILD_KINDS


def exec_build(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = _BUILDERS[BUILD_KINDS[args[1]]]([regs[r] for r in args[3:]])


def exec_move(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    frame.regs[args[0]] = frame.regs[args[1]]


def exec_unpack(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    source, wanted = frame.regs[args[0]], args[1]
    items: list[object] = []
    for item in source:
        if len(items) == wanted:
            raise ValueError(f"too many values to unpack (expected {wanted})")
        items.append(item)
    if len(items) < wanted:
        raise ValueError(f"not enough values to unpack (expected {wanted}, got {len(items)})")
    for register, item in zip(args[2:], items, strict=True):
        frame.regs[register] = item


# --- tensor

def exec_load_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    frame.regs[args[0]] = frame.args[args[1]]


def exec_store_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]][regs[args[1]]] = regs[args[2]]


def exec_view_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = regs[args[1]][regs[args[2]]]


_FILLS = (np.empty, np.zeros, np.ones)


def exec_alloc_buffer(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = _FILLS[args[2]](regs[args[1]], dtype=regs[args[3]])


def exec_unary_neg_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    frame.regs[args[0]] = -frame.regs[args[1]]


def exec_unary_not_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    frame.regs[args[0]] = ~frame.regs[args[1]]


def exec_cast_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    frame.regs[args[0]] = frame.regs[args[1]].astype(frame.regs[args[2]])


def exec_binary_add_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = regs[args[1]] + regs[args[2]]


def exec_binary_sub_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = regs[args[1]] - regs[args[2]]


def exec_binary_mul_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = regs[args[1]] * regs[args[2]]


def exec_binary_div_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = regs[args[1]] / regs[args[2]]


_COMPARE: dict[str, Callable[[Any, Any], object]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "is": operator.is_, "is not": operator.is_not,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
}
assert tuple(_COMPARE) == COMPARE_OPS


def exec_compare_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = _COMPARE[COMPARE_OPS[args[3]]](regs[args[1]], regs[args[2]])


def exec_inplace_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = registry.resolve_inplace(args[3])(regs[args[1]], regs[args[2]])


def exec_select_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = np.where(regs[args[1]], regs[args[2]], regs[args[3]])


_KEEPDIMS: tuple[dict[str, Any], ...] = ({}, {"keepdims": True})  # np.matrix and others take none


def exec_reduce_sum_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = np.sum(regs[args[1]], axis=regs[args[2]], **_KEEPDIMS[args[3]])


def exec_reduce_max_tensor(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = np.max(regs[args[1]], axis=regs[args[2]], **_KEEPDIMS[args[3]])


def exec_call_kernel(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    regs = frame.regs
    regs[args[0]] = registry.resolve(args[1])(*[regs[r] for r in args[3:]])


def _exec_other(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    """`py.call_other` of a program that was compiled in this process."""
    regs = frame.regs
    regs[args[0]] = call_other(*[regs[r] for r in args[3:]])


def _exec_make(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    """`py.make` of such a program."""
    regs = frame.regs
    regs[args[0]] = make(*[regs[r] for r in args[3:]])


def exec_sync_device(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    return None


def exec_tensor_shape_ref(frame: Frame, args: tuple[int, ...], pc: int) -> None:
    frame.regs[args[0]] = frame.regs[args[1]].shape[args[2]]


HANDLERS: dict[int, Handler] = {row.code: globals()[f"exec_{row.name.lower()}"] for row in TABLE}

# --- running

def run_program(program: Program, args: Sequence[object], read_capture: Callable[[int], object] | None = None, *,
                max_steps: int | None = None, max_bytes: int | None = None, hook: Hook | None = None,
                precision: str = "float32") -> object:
    """The result of a verified program for positional arguments.

    args: one object per parameter; parameters left out at the end take their defaults.
    read_capture: capture index -> object; without it, globals are read from loaded modules (`module_captures`).
    max_steps, max_bytes: StepLimitError and MemoryLimitError past these (see `limits.Guard`).
    precision: of float32 products (option `precision`).
    hook(program, index, registers): called before every instruction; it may change the registers.
    Exceptions are Python's and NumPy's own, with traceback entries for the user's lines.
    NumPy's floating-point warnings are silent.
    """
    frame = Frame(program, fill_defaults(program, args), read_capture or module_captures(program))
    code = _prepare(program, precision)
    check_unbound = any(value is UNBOUND for value in program.constants)
    pc = 0
    try:
        with np.errstate(all="ignore"):
            if max_steps is None and max_bytes is None and hook is None and not check_unbound:
                while pc >= 0:
                    handler, operands, _ = code[pc]
                    following = handler(frame, operands, pc)
                    pc = pc + 1 if following is None else following
                return frame.result
            guard = None
            if max_steps is not None or max_bytes is not None:
                from .limits import Guard

                guard = Guard(frame, max_steps, max_bytes)
            while pc >= 0:
                handler, operands, reads = code[pc]
                if hook is not None:
                    hook(program, pc, frame.regs)
                if check_unbound:
                    for register in reads:
                        if frame.regs[register] is UNBOUND:
                            raise unbound_local(program, pc)
                if guard is not None:
                    guard.before(pc)
                following = handler(frame, operands, pc)
                if guard is not None:
                    guard.after(pc)
                pc = pc + 1 if following is None else following
            return frame.result
    except Exception as error:
        raise point_at_source(error, program, pc)  # noqa: B904 - it is the same exception


def _prepare(program: Program, precision: str) -> list[tuple[Handler, tuple[int, ...], tuple[int, ...]]]:
    """(handler, operands, registers read) of each instruction for a precision, kept on the program."""
    known = program.__dict__.setdefault("_prepared", {})
    prepared = known.get(precision)
    if prepared is None:
        prepared = [(HANDLERS[ins.op], ins.args, registers_read(ins.op, ins.args)) for ins in program.code]
        if program.__dict__.get("calls_objects"):  # compiled here: it may call what it was not made for
            for at, ins in enumerate(program.code):
                if HANDLERS[ins.op] is exec_call_kernel and ins.args[1] == CALL_OTHER and ins.args[2] > 2:
                    prepared[at] = (_exec_other, *prepared[at][1:])
                elif HANDLERS[ins.op] is exec_call_kernel and ins.args[1] == MAKE:
                    prepared[at] = (_exec_make, *prepared[at][1:])
        if precision != "float32":
            from .precision import handlers

            prepared = handlers(prepared, [ins.op for ins in program.code], precision)
        known[precision] = prepared
    return prepared


def registers_read(op: int, args: tuple[int, ...]) -> tuple[int, ...]:
    """The registers that an instruction reads, in operand order."""
    reads: list[int] = []
    for position, (_, kind) in enumerate(BY_CODE[op].operands):
        if kind == "src":
            reads.append(args[position])
        elif kind == "srcs":  # always the last operand
            reads += args[position + 1:]
    return tuple(reads)


def fill_defaults(program: Program, args: Sequence[object]) -> list[object]:
    """One object per parameter. Raises TypeError for too many arguments or one without a default."""
    values = list(args)
    if len(values) > len(program.params):
        raise TypeError(f"{program.name} takes {len(program.params)} arguments, {len(values)} were given")
    for param in program.params[len(values):]:
        if param.default < 0:
            raise TypeError(f"{program.name} misses the argument '{param.name}'")
        values.append(program.constants[param.default])
    return values


def module_captures(program: Program) -> Callable[[int], object]:
    """A reader of captures for a program without its function: globals of loaded modules."""

    def read(index: int) -> object:
        return read_global(program, program.captures[index])

    return read


def read_global(program: Program, capture: Capture) -> object:
    """The present value of a captured global. Raises PrebakeError where bytecode alone cannot reach it."""
    if capture.scope != "global":
        raise PrebakeError(f"{program.name} reads '{capture.name}' from the function that enclosed it; bytecode alone "
                           "has no such value: call the decorated function, or pass it as an argument")
    module = loaded_module(capture.module)
    if module is None:
        raise PrebakeError(f"{program.name} reads '{capture.name}' of module {capture.module}, which is not loaded: "
                           f"import {capture.module} first")
    try:
        return vars(module)[capture.name]
    except KeyError:
        raise NameError(f"name '{capture.name}' is not defined") from None
