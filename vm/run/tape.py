"""The encoder: register code (vm/plan/code.py) -> a `Tape`, words that the C loop of the stencil library runs.

Structured loops become jumps; layouts of the words stand in templates/include/pb_tape.h and pb_nest.h. Nests are
encoded in tape_nest.py; those that differ in registers alone share a form (tape_forms.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from struct import pack_into
from typing import Any

from ...templates.levels import load_stencils
from ...templates.stencils import ODD_INDEX, STENCIL_INDEX, cast_index
from ...templates.tapecode import DIRECT, MEMORY_CODE, NATIVE_OF, OPCODE, TRAPS
from ..plan.code import (
    Alloc,
    Break,
    Call,
    Cast,
    Code,
    Continue,
    ContractCode,
    Exit,
    For,
    Guard,
    If,
    Instr,
    Int,
    Load,
    Move,
    NestCode,
    Ref,
    Reg,
    Scalar,
    Store,
    Trap,
    While,
)
from ..plan.planner_errors import PlanRefused
from .tape_forms import append_nest

_ACTS = {"none": 0, "relu": 1}
_RESIDUAL = 256  # PB_TAPE_RESIDUAL


class Tape:
    """Encoded code, and all that a dispatcher needs to run it.

    n_regs      registers of 8 bytes that a frame must have (the loops' hidden ones included)
    image       their first content, n_regs * 8 bytes: constants in place, zeros elsewhere. Whoever calls copies it into
                frame->r, then fills the registers of the leaves, then calls bind, allocates, and calls run
    plan_address    of the C `pb_tape`, the `plan` argument of both functions
    bind_address, run_address    of `pb_bind_fn` and `pb_run_fn` (pb_abi.h) in the stencil library

    The addresses are valid as long as the Tape lives.
    """

    __slots__ = ("_places", "_plan", "_times", "_words", "bind_address", "image", "n_regs", "plan_address", "run_address")

    def __init__(self, code: Code, level: str | None = None, is_timed: bool = False) -> None:
        """Encode `code` for the host's stencil library, or for that of CPU level `level` ("v3").

        is_timed: every run adds to the times of its steps (`step_times`).

        Raises PlanRefused for what the library has no stencil for (uint64), ImportError when there is no library.
        """
        library = load_stencils(level)
        encoder = _Encoder(code)
        try:
            bind = encoder.encode(code.bind)
            encoder.places.clear()
            body = encoder.encode(code.body)
        except KeyError as error:
            raise PlanRefused(f"no stencil: {error.args[0]}", kind="no-stencil") from None
        self._words = array("i", bind + body)
        start = self._words.buffer_info()[0]
        self.image = _image(code, encoder.n_regs)
        self.n_regs = encoder.n_regs
        self._places = encoder.places
        self._times = array("q", bytes(24 * len(body))) if is_timed else None
        times = self._times.buffer_info()[0] if self._times is not None else 0
        self._plan = array("Q", [start, start + len(bind) * self._words.itemsize, self.n_regs, times])
        self.plan_address = self._plan.buffer_info()[0]
        self.bind_address: int = library.bind_address
        self.run_address: int = library.run_address

    @property
    def size_bytes(self) -> int:
        """Memory of words and image."""
        return len(self._words) * self._words.itemsize + len(self.image)

    def step_times(self) -> list[tuple[Instr, int, int, int]]:
        """Each nest and product in program order: how often it ran so far, nanoseconds in all, and of its fastest run."""
        times = self._times
        if times is None:
            return []
        return [(instr, times[3 * at], times[3 * at + 1], times[3 * at + 2]) for at, instr in self._places]


def _image(code: Code, n_regs: int) -> bytes:
    image = bytearray(n_regs * 8)
    types = code.types
    for reg, value in code.consts.items():
        kind = types[reg]
        if kind == "f32":
            pack_into("<f", image, reg * 8, value)
        elif kind == "f64":
            pack_into("<d", image, reg * 8, value)
        else:
            pack_into("<Q", image, reg * 8, int(value) & 0xFFFFFFFFFFFFFFFF)
    return bytes(image)


class _Encoder:
    """Words of one instruction list after another; hands out the hidden registers of loops."""

    def __init__(self, code: Code) -> None:
        self.n_regs = len(code.types)
        self.outputs = code.outputs
        self.words: list[int] = []
        self.zeros = {reg for reg, value in code.consts.items() if value == 0 and repr(value)[0] != "-"}
        self.places: list[tuple[int, Instr]] = []  # of nests and products: the word where they begin
        self.guards = 0
        # of the loops around: the word that `continue` jumps to is patched into these places, likewise `break`
        self.continues: list[list[int]] = []
        self.breaks: list[list[int]] = []

    def encode(self, instrs: Sequence[Instr]) -> list[int]:
        """The words of a whole list, ended by `exit`."""
        self.words = words = []
        self._block(instrs)
        words.append(OPCODE["exit"])
        return words

    def _block(self, instrs: Sequence[Instr]) -> None:
        handlers = _HANDLERS
        for instr in instrs:
            handlers[type(instr)](self, instr)

    def _int(self, x: Int) -> None:
        if x.op == "select":
            self.words += (OPCODE["select"], x.dst, x.c, x.a, x.b)
        else:
            self.words += (OPCODE[x.op], x.dst, x.a, x.b)

    def _guard(self, x: Guard) -> None:
        self.guards += 1
        self.words += (OPCODE["guard"], x.a, self.guards)

    def _scalar(self, x: Scalar) -> None:
        args = x.args
        direct = DIRECT.get((x.op, x.dtype))
        if direct is not None:
            opcode, is_swapped = direct
            self.words += (opcode, x.dst, args[1], args[0]) if is_swapped else (opcode, x.dst, *args)
            return
        self.words += (OPCODE["scalar"], STENCIL_INDEX[x.op, x.dtype], x.dst, *args, *args[:1] * (3 - len(args)))

    def _convert(self, row: int, dst: Reg, src: Reg) -> None:
        self.words += (OPCODE["scalar"], row, dst, src, src, src)

    def _cast(self, x: Cast) -> None:
        self._convert(cast_index(x.frm, x.to), x.dst, x.src)

    def _load(self, x: Load) -> None:
        native = NATIVE_OF[x.memory]
        self.words += (OPCODE["load"], MEMORY_CODE[x.memory], x.dst, x.base, x.offset)
        if native != x.dtype:
            self._convert(cast_index(native, x.dtype), x.dst, x.dst)

    def _store(self, x: Store) -> None:
        native, src = NATIVE_OF[x.memory], x.src
        if native != x.dtype:
            src = self._hidden(1)
            once = x.dtype == "f64" and x.memory == "f16"
            self._convert(ODD_INDEX if once else cast_index(x.dtype, native), src, x.src)
        self.words += (OPCODE["store"], MEMORY_CODE[x.memory], src, x.base, x.offset)

    def _move(self, x: Move) -> None:
        self.words += (OPCODE["move"], x.dst, x.src)

    def _trap(self, x: Trap) -> None:
        self.words += (OPCODE["trap"], TRAPS[x.code], x.cond, x.position)

    def _alloc(self, x: Alloc) -> None:
        self.words += (OPCODE["alloc"], x.output, self.outputs[x.output].ptr)

    def _exit(self, x: Exit) -> None:
        self.words.append(OPCODE["exit"])

    # --- control: a jump's target is a word index from the start of the list ------------------------------------------

    def _hidden(self, count: int) -> int:
        reg = self.n_regs
        self.n_regs += count
        return reg

    def _jump(self) -> int:
        """A jump whose target is patched later: the place of the target."""
        self.words += (OPCODE["jump"], -1)
        return len(self.words) - 1

    def _patch(self, places: Sequence[int], target: int) -> None:
        for place in places:
            self.words[place] = target

    def _loop_body(self, body: Sequence[Instr]) -> tuple[list[int], list[int]]:
        self.continues.append([])
        self.breaks.append([])
        self._block(body)
        return self.continues.pop(), self.breaks.pop()

    def _for(self, x: For) -> None:
        hidden = self._hidden(3)
        self.words += (OPCODE["for_begin"], x.var, x.start, x.stop, x.step, hidden, -1)
        end = len(self.words) - 1
        first = len(self.words)
        continues, breaks = self._loop_body(x.body)
        self._patch(continues, len(self.words))
        self.words += (OPCODE["for_next"], x.var, hidden, first)
        self._patch([end, *breaks], len(self.words))

    def _while(self, x: While) -> None:
        first = len(self.words)
        continues, breaks = self._loop_body(x.body)
        self._patch(continues, first)
        self.words += (OPCODE["jump"], first)
        self._patch(breaks, len(self.words))

    def _if(self, x: If) -> None:
        self.words += (OPCODE["jump_if_zero"], x.cond, -1)
        otherwise = len(self.words) - 1
        self._block(x.then)
        if x.orelse:
            end = self._jump()
            self._patch([otherwise], len(self.words))
            self._block(x.orelse)
            self._patch([end], len(self.words))
        else:
            self._patch([otherwise], len(self.words))

    def _break(self, x: Break) -> None:
        self.breaks[-1].append(self._jump())

    def _continue(self, x: Continue) -> None:
        self.continues[-1].append(self._jump())

    # --- work ---------------------------------------------------------------------------------------------------------

    def _nest(self, x: NestCode) -> None:
        self.places.append((len(self.words), x))
        append_nest(x, self.words, self.zeros)

    def _contract(self, x: ContractCode) -> None:
        self.places.append((len(self.words), x))
        out = [x.product_dtype, len(x.batch), _ACTS[x.act], x.pack, x.m, x.n, x.k, *x.batch]
        for ref in (x.a, x.b, x.out):
            out += (ref.base, ref.offset, *ref.strides)
        bias = x.bias or Ref(-1, -1, (-1,))
        out += (bias.base, bias.offset, *bias.strides)
        if x.residual is not None:
            out[2] += _RESIDUAL
            out += (x.residual.base, x.residual.offset, *x.residual.strides)
        self.words += (OPCODE["contract"], len(out) + 1, *out)

    def _call(self, x: Call) -> None:
        self.words += (OPCODE["call"], x.site)


_HANDLERS: dict[type, Callable[[_Encoder, Any], None]] = {
    Int: _Encoder._int, Guard: _Encoder._guard, Scalar: _Encoder._scalar, Cast: _Encoder._cast, Load: _Encoder._load,
    Store: _Encoder._store, Move: _Encoder._move, Trap: _Encoder._trap, Alloc: _Encoder._alloc, For: _Encoder._for,
    While: _Encoder._while, If: _Encoder._if, Break: _Encoder._break, Continue: _Encoder._continue,
    Exit: _Encoder._exit, NestCode: _Encoder._nest, ContractCode: _Encoder._contract,
    Call: _Encoder._call,
}
