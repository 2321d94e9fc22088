"""What a register may hold while a Program is typed: arrays as views, scalars as operands, structure as structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ...templates.records import record
from .extents import Expr
from .steps import Buffer, Literal, Operand, ScalarReg, Step, View

# memory dtype -> native dtype that computes it (templates/scalars.py); of u64 the bits
COMPUTE = {"bool": "bool", "i8": "i32", "i16": "i32", "u8": "i32", "u16": "i32", "i32": "i32", "u32": "i64",
           "i64": "i64", "u64": "i64", "f16": "f32", "bf16": "f32", "f32": "f32",
           "f64": "f64"}
HALVES = frozenset(("f16", "bf16"))  # rounded after each operation (halves.py)
ODD = HALVES | {"u64"}  # of which not every kernel is planned (unsigned.py)


def is_float(dtype: str) -> bool:
    """Whether a memory or native dtype is a real float."""
    return dtype[0] == "f" or dtype in HALVES


@record
class Arr:
    """An ndarray: a view and, when it is the very object of a signature row, that row."""

    view: View
    row: int = -1
    origin: Selected | None = None  # the elements of a mask: how the same is computed without taking them out
    key: object = None  # of a bool array: equal for arrays that were computed alike

    @property
    def dtype(self) -> str:
        return self.view.dtype

    @property
    def shape(self) -> tuple[Expr, ...]:
        return self.view.shape

    @property
    def ndim(self) -> int:
        return len(self.view.shape)


@record
class Selected:
    """What `x[mask]` (or an elementwise value of such arrays) is: `dense()` where `mask` holds.

    sources: buffers it was made from, its own too, and how often they had been written; region: the steps it belongs to.
    It may be used only there and while the sources are as they were.
    """

    dense: Callable[[], Arr]
    mask: Arr
    sources: tuple[tuple[Buffer, int], ...]
    region: list[Step]
    count: Expr | None = None  # how often the mask holds, once that was asked


@record
class Num:
    """A scalar. python: 'int', 'float', 'bool', or '' for a NumPy scalar of memory dtype `dtype`.

    A Python int's operand is always an Expr; a bool's a Literal or a register; others Literal, register or Expr (i64).
    cell: the register behind a value that control flow assigns. maybe: the Python type that it has instead on some
    paths ('' : on none); its value is the same there.
    """

    operand: Operand
    dtype: str
    python: str = ""
    row: int = -1
    cell: ScalarReg | None = None
    maybe: str = ""

    @property
    def native(self) -> str:
        return COMPUTE[self.dtype]

    @property
    def is_constant(self) -> bool:
        return isinstance(self.operand, Literal) or (isinstance(self.operand, Expr) and self.operand.value is not None)

    @property
    def constant(self) -> int | float | bool:
        """The value of a constant scalar."""
        if isinstance(self.operand, Literal):
            return self.operand.value
        assert isinstance(self.operand, Expr) and self.operand.value is not None
        return self.operand.value


@record
class Cplx:
    """Complex numbers as two real parts of one shape; dtype 'c64' or 'c128'. python: 'complex' for Python's own.

    row: the signature row that an array is the very object of.
    """

    re: Any  # Arr or Num, as im is
    im: Any
    dtype: str
    python: str = ""
    row: int = -1


@record
class Static:
    """A value known while planning: None, a string, a dtype, Ellipsis, the unbound marker."""

    value: object


SOME_TEXT = object()  # of a Static: a text that depends on values, of an error mostly


@record
class Seq:
    """A tuple or list of values; row: the signature row it is, or -1 for one that the program built."""

    items: list[Value]
    kind: str  # 'tuple' | 'list'
    row: int = -1
    fields: tuple[str, ...] = ()  # of a named tuple


@record
class Map:
    """A dict with known keys."""

    items: dict[object, Value]
    row: int = -1


@record
class Lazy:
    """A container or object of a signature row; children are read when they are used."""

    row: int
    kind: str  # 'sequence' | 'mapping' | 'object' | 'callee'


@record
class SliceV:
    """slice(start, stop, step), parts are values."""

    start: Value
    stop: Value
    step: Value


@record
class Range:
    """range(start, stop, step) as a value."""

    start: Expr
    stop: Expr
    step: Expr


@record
class Zipped:
    """What zip() and enumerate() yield over columns of which some have as many items as an array has rows."""

    columns: list[Value]  # Arr, Cplx, Range, Zipped
    length: Expr


Value: TypeAlias = "Arr | Num | Cplx | Static | Seq | Map | Lazy | SliceV | Range | Zipped"


def python_int(value: Expr) -> Num:
    """A Python int."""
    return Num(value, "i64", "int")


def is_python(value: Value) -> bool:
    """Whether a value is one of Python's own real numbers."""
    return isinstance(value, Num) and value.python != ""


def python_bool(value: bool) -> Num:
    """A Python bool that is decided."""
    return Num(Literal(bool(value), "bool"), "bool", "bool")


def python_float(value: float) -> Num:
    """A Python float literal."""
    return Num(Literal(float(value), "f64"), "f64", "float")
