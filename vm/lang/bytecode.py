"""`Program`: MSBC in memory; codec, digest, verification, text form and interpreter hang on it.

A Program is made once for a function; it holds no extents. Equal programs have equal bytes on every Python version.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from importlib import import_module
from typing import TypeVar

from ...templates.records import record
from .codec import (
    MAGIC,
    MSBC_VERSION,
    SECTIONS,
    UNBOUND,
    Malformed,
    Unbound,
    decode_sections,
    encode_program,
    program_digest,
    seal,
)
from .opcodes import Op

__all__ = ["MAGIC", "MSBC_VERSION", "UNBOUND", "Capture", "Instruction", "Param", "Position", "Program",
           "SourceFunction", "Unbound", "kept_on_program", "seal"]

_T = TypeVar("_T")


@record(eq=True)
class Instruction:
    """One instruction. args: operand words in the table's order; `srcs`/`dsts` operands are inlined as count, items.

    dtype: hint from `vm/dtypes.py` (0 = unknown); shape: index into the symbol table (0 = `?`, unknown). Words are
    unsigned, except the axis of TENSOR_SHAPE_REF, which is negative where the source's axis is.
    """

    op: int
    args: tuple[int, ...]
    dtype: int = 0
    shape: int = 0


@record(eq=True)
class Param:
    """A parameter: default is a constant index, or -1.

    kind: 0 positional or keyword, 1 keyword only, 2 positional only.
    """

    name: str
    default: int = -1
    kind: int = 0


@record(eq=True)
class Capture:
    """A name read from outside: scope 'global' (of `module`) or 'closure' (a free variable of the function).

    A name may lead on into a helper's closure: 'act|inner', see `vm/bindings.py`.
    """

    scope: str
    module: str
    name: str


@record(eq=True)
class Binding:
    """A name whose meaning is compiled in: scope, path and meaning as in `vm/bindings.py`."""

    scope: str
    module: str
    path: str
    meaning: str


@record(eq=True)
class SourceFunction:
    """A function this program was made from; digest covers its normal form (no formatting, comments, docstrings).

    file: base name only (the same bytes on every machine). first_line: 1-based line of `lines[0]`.
    """

    module: str
    qualname: str
    digest: str
    file: str
    first_line: int
    lines: tuple[str, ...]


@record(eq=True)
class Position:
    """Where an instruction came from: index into `functions`, 1-based line, 1-based column, end column."""

    function: int
    line: int
    column: int
    end_column: int


@record(slots=False)
class Program:
    """A function as MSBC. Two programs are equal when their bytes are."""

    name: str  # qualified name, "module:qualname"
    params: tuple[Param, ...]
    n_regs: int
    symbols: tuple[str, ...]  # symbols[0] == "?"; e.g. "x.shape[0]"
    constants: tuple[object, ...]
    captures: tuple[Capture, ...]
    kernels: tuple[int, ...]  # sorted ids used
    code: tuple[Instruction, ...]
    positions: tuple[Position, ...]  # one per instruction
    functions: tuple[SourceFunction, ...] = ()
    bindings: tuple[Binding, ...] = ()

    def __eq__(self, other: object) -> bool:
        return self._bytes == other._bytes if isinstance(other, Program) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __getstate__(self) -> dict[str, object]:
        # what the interpreter and others keep on a program is not part of it
        return {name: getattr(self, name) for name in self.__match_args__}

    @cached_property
    def _bytes(self) -> bytes:
        try:
            return encode_program(self)
        except Malformed as error:
            raise _refused([f"Invalid program {self.name}: {error}"]) from None

    def to_bytes(self) -> bytes:
        """The `.msbc` file: deterministic. Raises VerifyError where a field holds what no file can hold."""
        return self._bytes

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits; formatting, comments, file names and line numbers do not change them."""
        try:
            return program_digest(self)
        except Malformed as error:
            raise _refused([f"Invalid program {self.name}: {error}"]) from None

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Program:
        """The verified program of a `.msbc` file.

        Never crashes, hangs or allocates more than a small multiple of the file's size, whatever the bytes are.
        Raises VerifyError that lists every fault.
        """
        from .verifier import check_program

        data = bytes(data)
        found, faults = decode_sections(data)
        program = assemble_sections(found, faults)
        if program is None:
            raise _refused(faults)
        check_program(program, faults)
        program.__dict__["_bytes"] = data  # decoding is injective: every number has one form, no byte is skipped
        return program

    def verify(self) -> None:
        """Nothing for a well-formed program. Raises VerifyError that lists every fault."""
        from .verifier import check_program

        check_program(self)

    def disassemble(self) -> str:
        """The program as text, each group of instructions under its source line; `assembler.assemble` reads it back."""
        from .asm import disassemble

        return disassemble(self)

    def run(self, *args: object, max_steps: int | None = None, max_bytes: int | None = None) -> object:
        """The result for positional arguments (defaults are filled in), one NumPy call per instruction.

        Globals are read from the modules they belong to, which must be loaded. Raises what Python and NumPy would,
        PrebakeError for closure variables, StepLimitError and MemoryLimitError past the limits.
        """
        return _run_program()(self, args, max_steps=max_steps, max_bytes=max_bytes)


def assemble_sections(found: dict, faults: list[str]) -> Program | None:
    """The program of decoded sections; None, with the reasons added to `faults`, where one is missing."""
    if len(found) < len(SECTIONS):
        return None
    functions, sources = found["FUNC"], found["SRCS"]
    if len(functions) != len(sources):
        faults.append(f"Invalid MSBC file: {len(functions)} functions, source text of {len(sources)}")
        return None
    name, n_regs = found["PROG"]
    places = {p: Position(*p) for p in set(found["POSN"])}
    return Program(
        name=name,
        params=tuple([Param(*p) for p in found["PARM"]]),
        n_regs=n_regs,
        symbols=found["SYMB"],
        constants=found["CNST"],
        captures=tuple([Capture(*c) for c in found["CAPT"]]),
        kernels=found["KERN"],
        code=tuple([_instruction(*row) for row in found["CODE"]]),
        positions=tuple([places[p] for p in found["POSN"]]),
        functions=tuple([SourceFunction(*f, *s) for f, s in zip(functions, sources, strict=True)]),
        bindings=tuple([Binding(*b) for b in found["BIND"]]),
    )


_SHAPE_REF = int(Op.TENSOR_SHAPE_REF)


def _instruction(op: int, args: tuple[int, ...], dtype: int, shape: int) -> Instruction:
    if op == _SHAPE_REF and len(args) == 3 and args[2] >= 0x8000:
        args = (args[0], args[1], args[2] - 0x10000)
    return Instruction(op, args, dtype, shape)


def _refused(faults: list[str]) -> Exception:
    from ..errors import VerifyError

    return VerifyError(faults)


def _run_program() -> Callable[..., object]:
    # by name: this floor does not import the one above it
    return import_module("..run.interpreter", __package__).run_program


def kept_on_program(make: Callable[[Program], _T]) -> Callable[[Program], _T]:
    """The function, its result made once for each Program object and kept with it."""
    name = f"_{make.__name__}"

    @wraps(make)
    def kept(program: Program) -> _T:
        found: _T | None = program.__dict__.get(name)
        if found is None:
            found = program.__dict__[name] = make(program)
        return found

    return kept
