"""The plan's vocabulary: buffers, views, and the few general kinds of step.

A plan is a tree of regions whose leaves are steps; everything integer is an `Expr` over entry symbols, loop variables
and scalar registers. Passes (`passes.py`) rewrite lists of steps; `lower.py` turns the final list into register code.

Invariants between passes (`check_plan`): every view lies inside its buffer for all extents that the plan's facts
allow; every element is written before it is read; types agree.
"""

from __future__ import annotations

from typing import TypeAlias

from ...templates.records import fresh, record
from .extents import Evaluator, Expr, const, mul
from .signature import Signature

ITEM_BYTES = {"bool": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8,
              "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "c64": 8, "c128": 16}  # steps see complex memory as two real views


@record
class Buffer:
    """Memory that views point into.

    kind: 'arg' (array leaf `row` of the signature), 'temp' (arena), 'out' (an array of its own, held by the dispatcher
    until the call ends: a result that the caller receives, or what a call-out made). size_bytes: capacity; for 'arg'
    unknown (None). constant: an argument that cannot change (frozen), so that packs of it may be kept. writable: for
    'arg', whether a step writes into it.
    """

    kind: str
    dtype: str
    size_bytes: Expr | None
    row: int = -1
    constant: bool = False
    name: str = ""
    home: View | None = None  # of 'temp' and 'out': the view of the whole, in C order
    is_trip_local: bool = False  # of 'temp': in a loop that holds every access, no trip reads what another one wrote

    def __repr__(self) -> str:
        return f"{self.kind}:{self.name or hex(id(self) & 0xFFFF)}"


@record
class View:
    """A strided window: byte offset and byte strides (0 = broadcast, negative allowed) into a buffer."""

    buffer: Buffer
    dtype: str  # memory dtype, a key of ITEM_BYTES
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    offset: Expr
    is_read_only: bool = False  # NumPy's view of it is, whatever its memory is: broadcast_to, diagonal, ...

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def window(self, shape: tuple[Expr, ...], strides: tuple[Expr, ...], offset: Expr | None = None) -> View:
        """What NumPy would call a view of this view."""
        return View(self.buffer, self.dtype, shape, strides, self.offset if offset is None else offset, self.is_read_only)

    def read_only(self) -> View:
        """The same window, not to be written through."""
        return View(self.buffer, self.dtype, self.shape, self.strides, self.offset, True)

    def is_same(self, other: View) -> bool:
        """The same elements in the same order, by normal form."""
        return (self.buffer is other.buffer and self.dtype == other.dtype and self.offset is other.offset
                and self.shape == other.shape and self.strides == other.strides)

    def __repr__(self) -> str:
        return f"{self.buffer}+{self.offset}{list(self.shape)}:{self.dtype}"


@record
class ScalarReg:
    """A runtime scalar: dtype is native ('bool', 'i32', 'i64', 'f32', 'f64'). For i64, `expr` is it as an atom.

    row: the scalar leaf of the signature that it holds when the call begins (no step writes it), or -1.
    """

    dtype: str
    name: str = ""
    expr: Expr | None = None
    row: int = -1

    def __repr__(self) -> str:
        return f"%{self.name or hex(id(self) & 0xFFFF)}:{self.dtype}"


@record(eq=True)
class Literal:
    """A scalar constant of a native dtype."""

    value: float | int | bool
    dtype: str


Operand: TypeAlias = "ScalarReg | Literal | Expr"  # a scalar: register, constant, or i64 expression


# --- Nest -------------------------------------------------------------------------------------------------------------

@record
class NestInput:
    """A value that enters a nest at each point of its iteration space; dtype is native (loads convert to it).

    kind 'view': `view` has exactly the nest's axes (strides 0 where it broadcasts).
    kind 'scalar': `operand`, the same at every point.  kind 'iota': the i64 index along `axis`.
    """

    kind: str
    dtype: str
    view: View | None = None
    operand: Operand | None = None
    axis: int = -1


@record
class NestOp:
    """One node of the scalar DAG. args are slots: 0..len(inputs)-1 are inputs, then one slot per op in order.

    op: a name of templates/scalars.py, or 'cast' (from args[0]'s dtype to dtype), or 'gather' (a load of `view`, whose
    axes are the nest's, displaced by sum(wrap(slot value) * stride) over `indexes`; a value outside [-extent, extent)
    traps IndexError at `position`). dtype: of the result; `operand_dtype`: of the operands (differs for predicates, cast).
    Nothing changes a node that is no gather: nests share it.
    """

    op: str
    dtype: str
    operand_dtype: str
    args: tuple[int, ...] = ()
    view: View | None = None
    indexes: tuple[tuple[int, Expr, Expr], ...] = ()  # (slot, extent, stride in bytes)
    position: int = 0


@record
class NestOut:
    """A slot's way out: stored at each point, or reduced over `reduced` axes (bit mask; the view's strides are 0 there).

    reduce: a name of templates/scalars.py REDUCTIONS. An empty reduction yields its identity (max/min/arg* of nothing
    are refused before: a guard). mask: a bool slot; points where it is false are not stored ('store' and 'compress' only).
    'compress' reduces all axes: the values of the points where the mask holds are appended from the view's offset on, in C
    order; the buffer has room for all points, and what lies behind the last value is undefined.
    indexes: scatter, as for NestOp 'gather'.
    """

    slot: int
    reduce: str
    view: View
    reduced: int = 0
    mask: int = -1
    indexes: tuple[tuple[int, Expr, Expr], ...] = ()
    position: int = 0


@record
class Nest:
    """An iteration space, inputs, a scalar DAG and outputs that store or reduce. Points are visited in no fixed order,
    so an output view may overlap an input view only where both are equal element for element."""

    axes: tuple[Expr, ...]
    inputs: list[NestInput]
    ops: list[NestOp]
    outs: list[NestOut]
    position: int = 0  # instruction index in the Program

    def slot_dtype(self, slot: int) -> str:
        """Native dtype of a slot."""
        n = len(self.inputs)
        return self.inputs[slot].dtype if slot < n else self.ops[slot - n].dtype


# --- Contract ---------------------------------------------------------------------------------------------------------

@record
class Contract:
    """Batched matrix product out[..., m, n] = act(a[..., m, k] @ b[..., k, n] + bias[n] + residual[..., m, n]); f32, f64.

    Views of a, b, out, residual have len(batch) + 2 axes (strides 0 where they broadcast), any strides. bias: a 1-axis
    view of n elements. bias and residual may be None. act: 'none' or 'relu' (max(x, 0), NaN kept). The output overlaps
    no operand. rounding: '' or the type of 16 bits ('bf16', 'f16') that the elements of a and b are rounded to.
    """

    batch: tuple[Expr, ...]
    m: Expr
    n: Expr
    k: Expr
    a: View
    b: View
    out: View
    dtype: str
    bias: View | None = None
    act: str = "none"
    position: int = 0
    residual: View | None = None
    rounding: str = ""


# --- call-outs --------------------------------------------------------------------------------------------------------

@record
class CallArg:
    """An operand of a call-out.

    kind: 'array' (`view`), 'scalar' (`operand`; python: 'int', 'float', 'bool', or '' for a NumPy scalar of `dtype`),
    'complex' (`operand` and `imag`; python 'complex' or ''), 'const' (`value`), 'tuple' | 'list' (`items`).
    """

    kind: str
    view: View | None = None
    operand: Operand | None = None
    imag: Operand | None = None
    dtype: str = ""
    python: str = ""
    value: object = None
    items: tuple[CallArg, ...] = ()
    is_written: bool = False  # 'array': the callee writes into it


@record
class CallResult:
    """What a call-out leaves.

    kind: 'array' (`view`: the whole of an 'out' buffer, whose memory is what the callee made; `extents`: for each axis
    the register that receives its extent, None where the plan knows it), 'scalar' (`dst`; `dtype` and `python` as for
    operands), 'complex' (`dst` and `imag`), 'ignored'.
    """

    kind: str
    dtype: str = ""
    view: View | None = None
    extents: tuple[ScalarReg | None, ...] = ()
    dst: ScalarReg | None = None
    imag: ScalarReg | None = None
    python: str = ""

    def registers(self) -> list[ScalarReg]:
        """Scalar registers that the call sets."""
        return [reg for reg in (*self.extents, self.dst, self.imag) if reg is not None]


@record
class CallStep:
    """A kernel of the registry, called through the interpreter's own implementation with the GIL held.

    It may raise; whatever it makes is checked against `results`. is_tuple: it returns a sequence of results.
    """

    kernel: int
    args: tuple[CallArg, ...]
    results: tuple[CallResult, ...]
    is_tuple: bool = False
    position: int = 0

    def views(self, written: bool = False) -> list[View]:
        """Views of the operands; those that are written alone."""
        found: list[View] = []
        pending = list(self.args)
        while pending:
            arg = pending.pop()
            pending.extend(arg.items)
            if arg.view is not None and (arg.is_written or not written):
                found.append(arg.view)
        return found

    def made(self) -> list[View]:
        """Views of the arrays that the call makes."""
        return [result.view for result in self.results if result.view is not None]


# --- scalars and control ----------------------------------------------------------------------------------------------

@record
class ScalarOpStep:
    """dst = op(args) on registers; op of templates/scalars.py or 'cast'. operand_dtype as in NestOp."""

    op: str
    dst: ScalarReg
    args: tuple[Operand, ...]
    operand_dtype: str


@record
class LoadStep:
    """dst = the one element of a 0-axis view, converted to dst's dtype."""

    dst: ScalarReg
    view: View


@record
class StoreStep:
    """The one element of a 0-axis view = value, converted to the view's dtype."""

    view: View
    value: Operand


@record
class SetStep:
    """dst = value (same native dtype)."""

    dst: ScalarReg
    value: Operand


@record
class TrapStep:
    """Stop with PB_TRAP_<code> when cond is non-zero (always, when cond is None)."""

    code: str  # 'INDEX', 'ZERO_DIVISION', 'OVERFLOW', 'VALUE', 'INTERPRET', 'RAISE' (what the program raises there)
    cond: Operand | None
    position: int = 0
    text: str = ""  # of the error; '': what the dispatcher says for the code


@record
class AllocStep:
    """Allocate the 'out' buffer whose shape is known only now (its result spec's extents hold registers).

    is_scratch: it may be no result: other steps write it, not before this one.
    """

    buffer: Buffer
    is_scratch: bool = False


@record
class ForStep:
    """for var in range(start, stop, step): step is a non-zero constant or checked before; trips are fixed at entry."""

    var: ScalarReg
    start: Expr
    stop: Expr
    step: Expr
    body: list[Step]


@record
class WhileStep:
    """Repeat body until a BreakStep leaves it."""

    body: list[Step]


@record
class IfStep:
    """cond is a bool operand (non-zero is true)."""

    cond: Operand
    then: list[Step]
    orelse: list[Step]


@record
class BreakStep:
    """Leave the innermost For/While."""


@record
class ContinueStep:
    """Next trip of the innermost For/While."""


@record
class ExitStep:
    """End of the program (results are in place)."""


Step: TypeAlias = ("Nest | Contract | CallStep | ScalarOpStep | LoadStep | StoreStep | SetStep | TrapStep | AllocStep | "
                   "ForStep | WhileStep | IfStep | BreakStep | ContinueStep | ExitStep")


# --- the plan -----------------------------------------------------------------------------------------------------------

@record(eq=True)
class Fact:
    """A question about entry extents that the plan relied on: `expr` is non-zero exactly when `answer` is True."""

    expr: Expr
    answer: bool
    text: str


@record
class Result:
    """Tree of what the caller receives.

    kind: 'new' (out buffer `view`: the whole of it), 'view' (`view` of argument or of another result's buffer),
    'arg' (the very object of signature row `row`), 'scalar' (`operand`; python: 'int'|'float'|'bool' or '' for a
    NumPy scalar of `dtype`), 'const' (`value`), 'tuple' | 'list' | 'dict' (items, keys), 'complex' (a scalar whose parts
    are the items), 'choice' (that of the items whose number is `operand`).
    """

    kind: str
    view: View | None = None
    row: int = -1
    operand: Operand | None = None
    dtype: str = ""
    python: str = ""
    value: object = None
    items: tuple[Result, ...] = ()
    keys: tuple[object, ...] = ()


@record
class Note:
    """What a fusion did, or why it did not: text around the values that extents have for the call at hand."""

    before: str
    extents: tuple[Expr, ...] = ()
    after: str = ""


@record
class Plan:
    """One for a signature and a set of facts; symbolic in every extent."""

    name: str
    steps: list[Step]
    result: Result
    facts: list[Fact]
    signature: Signature
    sample: dict[str, int] = fresh(factory=dict)  # extents at hand when it was planned: hints, never truths
    log: list[tuple[str, float, str]] = fresh(factory=list)  # (pass, milliseconds, note)
    notes: dict[str, list[Note]] = fresh(factory=dict)  # by the fusion rule that they are about

    @property
    def fired(self) -> dict[str, list[str]]:
        """Fusion rule -> what it did here, or why it did not: for `explain`."""
        evaluate = Evaluator(lambda atom: self.sample[str(atom.name)])

        def example(extent: Expr) -> str:
            try:
                return str(evaluate(extent))
            except KeyError:
                return repr(extent)

        return {rule: [note.before + " x ".join(map(example, note.extents)) + note.after for note in notes]
                for rule, notes in self.notes.items()}


def walk(steps: list[Step]) -> list[Step]:
    """Every step, regions included, in program order."""
    if _REGIONS.isdisjoint(map(type, steps)):
        return steps[:]
    found: list[Step] = []
    for step in steps:
        found.append(step)
        if isinstance(step, IfStep):
            found += walk(step.then)
            found += walk(step.orelse)
        elif isinstance(step, (ForStep, WhileStep)):
            found += walk(step.body)
    return found


_REGIONS = frozenset((ForStep, WhileStep, IfStep))


def contiguous_strides(shape: tuple[Expr, ...], item_bytes: int) -> tuple[Expr, ...]:
    """Byte strides of C order."""
    step = const(item_bytes)
    strides = [step]
    for extent in shape[:0:-1]:
        step = mul(step, extent)
        strides.append(step)
    strides.reverse()
    return tuple(strides) if shape else ()
