"""`Program`: MSBC in memory. The codec, digest and verification entry points hang on it.

A Program is made once for a function; it holds no extents. Equal programs have equal bytes on every Python version.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MAGIC = b"MSBC"
MSBC_VERSION = 1


@dataclass(frozen=True)
class Instruction:
    """One instruction. args: operand words in the table's order; `srcs`/`dsts` operands are inlined as count, items.

    dtype: hint from `vm/dtypes.py` (0 = unknown); shape: index into the symbol table (0 = `?`, unknown).
    """

    op: int
    args: tuple[int, ...]
    dtype: int = 0
    shape: int = 0


@dataclass(frozen=True)
class Param:
    """A parameter: default is a constant index, or -1. kind: 0 positional or keyword, 1 keyword only, 2 positional only."""

    name: str
    default: int = -1
    kind: int = 0


@dataclass(frozen=True)
class Capture:
    """A name read from outside: scope 'global' (of `module`) or 'closure' (a free variable of the function)."""

    scope: str
    module: str
    name: str


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Position:
    """Where an instruction came from: index into `functions`, 1-based line, 1-based column, end column."""

    function: int
    line: int
    column: int
    end_column: int


@dataclass(frozen=True)
class Program:
    name: str  # qualified name, "module:qualname"
    params: tuple[Param, ...]
    n_regs: int
    symbols: tuple[str, ...]  # symbols[0] == "?"; e.g. "x.shape[0]"
    constants: tuple[object, ...]
    captures: tuple[Capture, ...]
    kernels: tuple[int, ...]  # sorted ids used
    code: tuple[Instruction, ...]
    positions: tuple[Position, ...]  # one per instruction
    functions: tuple[SourceFunction, ...] = field(default=())
