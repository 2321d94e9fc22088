"""Register code: what both back ends consume. The tape encodes it for the C loop, codegen prints it as C.

A register is a 64-bit slot with a fixed type. The integer part that depends on entry symbols alone is `bind` (run for
each new shape, in C, before results are allocated); `body` is structured code. Nothing here knows a Program or an Expr.
"""

from __future__ import annotations

from typing import TypeAlias

from ...templates.records import fresh, record

Reg = int
ARENA: Reg = 0  # register 0 holds the arena's address when the body starts


@record(eq=True)
class Int:
    """dst = a op b on i64. op: add sub mul floordiv mod min max eq ne lt le and or; 'select': dst = a if c else b.

    floordiv and mod round as Python's and yield 0 for b == 0 (`bind` runs before its guards have spoken).
    """

    op: str
    dst: Reg
    a: Reg
    b: Reg
    c: Reg = -1


@record(eq=True)
class Guard:
    """In `bind` only: the plan does not hold when a == 0."""

    a: Reg


@record(eq=True)
class Scalar:
    """dst = op(args), op of templates/scalars.py over operand dtype `dtype`."""

    op: str
    dtype: str
    dst: Reg
    args: tuple[Reg, ...]


@record(eq=True)
class Cast:
    """dst = src converted between native dtypes, as NumPy's astype."""

    dst: Reg
    to: str
    src: Reg
    frm: str


@record(eq=True)
class Load:
    """dst (native dtype) = *(memory dtype *)(base + offset). offset -1: none."""

    dst: Reg
    dtype: str
    memory: str
    base: Reg
    offset: Reg


@record(eq=True)
class Store:
    """*(memory dtype *)(base + offset) = src (native dtype)."""

    src: Reg
    dtype: str
    memory: str
    base: Reg
    offset: Reg


@record(eq=True)
class Move:
    """dst = src, any type; into an 'i64' from a 'ptr' it is the address as a number."""

    dst: Reg
    src: Reg


@record(eq=True)
class Trap:
    """Stop with the trap code when cond != 0 (cond -1: always)."""

    code: str
    cond: Reg
    position: int


@record(eq=True)
class Alloc:
    """Allocate result `output` (its shape registers are set); its ptr register receives the address."""

    output: int


@record(eq=True)
class For:
    """for var in range(start, stop, step)."""

    var: Reg
    start: Reg
    stop: Reg
    step: Reg
    body: tuple[Instr, ...]


@record(eq=True)
class While:
    """Repeat until Break."""

    body: tuple[Instr, ...]


@record(eq=True)
class If:
    cond: Reg
    then: tuple[Instr, ...]
    orelse: tuple[Instr, ...] = ()


@record(eq=True)
class Break:
    """Leave the innermost loop."""


@record(eq=True)
class Continue:
    """Next trip of the innermost loop."""


@record(eq=True)
class Exit:
    """End of the body."""


@record(eq=True)
class Ref:
    """Address of a view: base pointer register, byte offset register (-1: none), byte stride register for each axis."""

    base: Reg
    offset: Reg
    strides: tuple[Reg, ...]


@record(eq=True)
class In:
    """A nest's input. kind 'view' (memory dtype -> native dtype), 'scalar' (reg, of dtype), 'iota' (axis)."""

    kind: str
    dtype: str
    memory: str = ""
    ref: Ref | None = None
    reg: Reg = -1
    axis: int = -1


@record(eq=True)
class NodeOp:
    """A nest's DAG node; see steps.NestOp. memory: the view's dtype for 'gather'."""

    op: str
    dtype: str
    operand_dtype: str
    args: tuple[int, ...] = ()
    memory: str = ""
    ref: Ref | None = None
    indexes: tuple[tuple[int, Reg, Reg], ...] = ()  # (slot, extent register, stride register)
    position: int = 0


@record(eq=True)
class Out:
    """A nest's output; see steps.NestOut."""

    slot: int
    reduce: str
    memory: str
    ref: Ref
    reduced: int = 0
    mask: int = -1
    indexes: tuple[tuple[int, Reg, Reg], ...] = ()
    position: int = 0


@record(eq=True)
class NestCode:
    axes: tuple[Reg, ...]
    inputs: tuple[In, ...]
    ops: tuple[NodeOp, ...]
    outs: tuple[Out, ...]

    def slot_dtype(self, slot: int) -> str:
        """Native dtype of a slot."""
        n = len(self.inputs)
        return self.inputs[slot].dtype if slot < n else self.ops[slot - n].dtype


# Elements of a product's operands; bf16 and f16: float32 values, rounded so, which a pack holds in 16 bits.
PRODUCT_DTYPES: dict[str, int] = {"f32": 0, "f64": 1, "bf16": 2, "f16": 3}


@record(eq=True)
class ContractCode:
    """See steps.Contract. Refs have len(batch) + 2 strides (bias: 1). pack: slot of a packed b, or -1."""


    dtype: str
    batch: tuple[Reg, ...]
    m: Reg
    n: Reg
    k: Reg
    a: Ref
    b: Ref
    out: Ref
    pack: int = -1
    bias: Ref | None = None
    act: str = "none"
    residual: Ref | None = None
    rounding: str = ""

    @property
    def product_dtype(self) -> int:
        """The number by which `pb_product_args` and packs know the elements."""
        return PRODUCT_DTYPES[self.rounding or self.dtype]


@record(eq=True)
class CallOperand:
    """An operand of a call-out; see steps.CallArg. native: type of the registers `reg` and `imag`."""

    kind: str
    dtype: str = ""
    ref: Ref | None = None
    shape: tuple[Reg, ...] = ()
    is_written: bool = False
    reg: Reg = -1
    imag: Reg = -1
    native: str = ""
    python: str = ""
    value: object = None
    items: tuple[CallOperand, ...] = ()


@record(eq=True)
class CallOutcome:
    """A result of a call-out; see steps.CallResult. output: index into outputs, whose ptr register is set.

    shape: for each axis the register that holds the planned extent, or receives it where `is_known` says no.
    """

    kind: str
    dtype: str = ""
    output: int = -1
    shape: tuple[Reg, ...] = ()
    is_known: tuple[bool, ...] = ()
    reg: Reg = -1
    imag: Reg = -1
    native: str = ""
    python: str = ""


@record(eq=True)
class CallSite:
    """One call-out of a body, run by the dispatcher."""

    kernel: int
    args: tuple[CallOperand, ...]
    results: tuple[CallOutcome, ...]
    is_tuple: bool
    position: int


@record(eq=True)
class Call:
    """Run call-out `site` through frame->call, which reads and writes registers of the frame: the frame's `reads` are
    what these registers hold now, and `writes` hold what the frame's do afterwards."""

    site: int
    reads: tuple[Reg, ...]
    writes: tuple[Reg, ...]


Instr: TypeAlias = ("Int | Guard | Scalar | Cast | Load | Store | Move | Trap | Alloc | For | While | If | Break | "
                    "Continue | Exit | NestCode | ContractCode | Call")


@record(eq=True)
class LeafRegs:
    """Registers the dispatcher fills from signature row `row`: an array's pointer, extents and strides (empty when
    they follow from C order or are constants), or a scalar's value."""

    row: int
    ptr: Reg = -1
    extents: tuple[Reg, ...] = ()
    strides: tuple[Reg, ...] = ()
    scalar: Reg = -1


@record(eq=True)
class Output:
    """An array held until the call ends. early: allocated by the dispatcher between bind and run; else by `Alloc`, or
    made by a call-out."""

    dtype: str
    shape: tuple[Reg, ...]
    ptr: Reg
    early: bool = True


@record(eq=True)
class Pack:
    """A constant operand b of a product, packed once by the stencil library: row's array seen as (k, n) at a byte offset
    with byte strides (numbers: a constant operand has a constant shape). dtype: one of PRODUCT_DTYPES."""

    row: int
    dtype: str
    k: int
    n: int
    offset: int
    row_stride: int
    col_stride: int


@record(eq=True)
class ResultSpec:
    """What the caller receives; see steps.Result. output: index into outputs for 'new' and for views of a result."""

    kind: str
    output: int = -1
    row: int = -1
    offset: Reg = -1
    shape: tuple[Reg, ...] = ()
    strides: tuple[Reg, ...] = ()
    dtype: str = ""
    reg: Reg = -1
    python: str = ""
    value: object = None
    items: tuple[ResultSpec, ...] = ()
    keys: tuple[object, ...] = ()
    is_read_only: bool = False  # of a view


@record
class Code:
    """A lowered plan. types: of each register ('i64' 'i32' 'bool' 'f32' 'f64' 'ptr'); consts: registers preset."""

    name: str
    types: list[str]
    consts: dict[Reg, int | float]
    leaves: tuple[LeafRegs, ...]
    bind: tuple[Instr, ...]
    guards: tuple[str, ...]  # text of each Guard, in order
    arena_bytes: Reg
    outputs: tuple[Output, ...]
    result: ResultSpec
    packs: tuple[Pack, ...]
    body: tuple[Instr, ...]
    symbols: dict[str, Reg] = fresh(factory=dict)  # symbol name ("x.shape[0]") -> register
    calls: tuple[CallSite, ...] = ()
    trap_texts: tuple[tuple[str, int, str], ...] = ()  # (code, position, text of the error) where the code does not tell it
    places: dict[int, int] = fresh(factory=dict)  # id() of a nest or product of the body -> instruction index in the Program

    def __repr__(self) -> str:
        """Equal for equal codes, by which builds tell them apart: without `places`, which holds addresses."""
        fields = [f"{name}={getattr(self, name)!r}" for name in self.__match_args__ if name != "places"]
        return f"Code({', '.join(fields)})"
