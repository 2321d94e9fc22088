"""What the layers of the typer share: the program, registers of values, the steps being emitted, facts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...templates.records import fresh, record
from ..lang.bytecode import Program
from .extents import Expr
from .facts import Facts
from .liveness import constant_registers, live_registers
from .reading import LiveReader, RecordedReader
from .steps import Buffer, Operand, ScalarReg, Step
from .values import Value


class NeedRuntimeLoop(Exception):
    """A loop that was being unrolled has an exit that is decided only at run time."""


class NeedUnroll(Exception):
    """A loop body indexes a container with its variable: the loop must unroll."""


class DeadEnd(Exception):
    """What follows in this block never runs: the program raises here."""


@record
class Retry(Exception):
    """A carried register changed in a way that its cell does not allow."""

    reg: int
    why: str  # 'array' (needs an array cell) | 'shape' (one whose extents change) | 'apart' (unlike those of other arrays)
    #           | 'type' | 'turn' (arrays change places)
    joined: tuple[str, str] | None = None  # a type that holds both
    value: Value | None = None  # what did not fit


@record
class Loop:
    """The innermost loops being typed. static: unrolling; else carried registers and their cells."""

    static: bool
    exit: int
    carried: tuple[int, ...] = ()
    cells: dict[int, Value] = fresh(factory=dict)
    array_cells: set[int] = fresh(factory=set)
    runtime_ifs: int = 0
    late: bool = True  # cells may be made when they are first written
    runs: bool = False  # at least one trip is certain
    live: int = 0  # registers that are read in a later trip or after the loop, as bits
    began: int = 2**62  # the typer's clock when the first trip did; never, where nothing is typed for several trips
    entry: dict[int, Value] = fresh(factory=dict)  # what cells held when the loop began
    joined: dict[int, tuple[str, str]] = fresh(factory=dict)  # cells of two types: (dtype, Python type of some)
    loose: set[int] = fresh(factory=set)  # array cells whose extents change from trip to trip
    extents: dict[int, tuple[ScalarReg | None, ...]] = fresh(factory=dict)  # theirs, where they change
    common: dict[Expr, ScalarReg] = fresh(factory=dict)  # one register for extents that change alike, by entry value
    apart: set[int] = fresh(factory=set)  # array cells with extents of their own
    unsure: set[int] = fresh(factory=set)  # joined cells that a trip may leave as a Python scalar
    turn: int = 1  # trips after which arrays that change places are where they were: so many are typed as one; 0: not so
    kept: set[int] = fresh(factory=set)  # carried arrays that some trip leaves as they were, or shares


@record
class ReturnSite:
    """A RETURN that was reached: its value and where its result must be written."""

    value: Value
    steps: list[Step]
    index: int
    conditional: bool


@record
class Compaction:
    """Steps that take elements out; they are dropped when nobody reads what they leave."""

    region: list[Step]
    steps: list[Step]
    buffers: list[Buffer]
    count: Expr | None


class State:
    """The state of one typing. Layers on top: emitting, cells, loops, control, and the rules of instructions."""

    def __init__(self, program: Program, reader: LiveReader | RecordedReader, wide_counters: bool = False) -> None:
        self.program = program
        self.wide_counters = wide_counters  # integers that a loop counts in small steps are not watched for 64 bits
        self.code = program.code
        self.reader = reader
        self.rounding = ""  # of the operands of float32 products: '', 'bf16' or 'f16'
        self.facts = Facts(reader.sample)
        self.regs: list[Value | None] = [None] * program.n_regs
        self.steps: list[Step] = []
        self.pc = 0
        self.loops: list[Loop] = []
        self.depth = 0  # enclosing run-time regions
        self.splits = 0  # how many branches may still have the rest of the program typed behind each side
        self.rests: list[tuple[int, int]] = []  # behind each enclosing branch: the rest of the block that it stands in
        self.returns: list[ReturnSite] = []
        self.live, self.writes = live_registers(program)
        self.constant_of = constant_registers(program)
        self.constant_regs = sum([1 << reg for reg in self.constant_of])
        self.leaves: dict[int, Value] = {}
        self.written: dict[int, Buffer] = {}  # rows of arguments that a step writes
        self.serial: dict[Buffer, int] = {}  # how often a buffer was written after it was made
        self.has_odd = False  # whether one of values.ODD has occurred
        self.clock = 0  # counts what is made and written while the program is typed
        self.born: dict[Buffer, int] = {}  # when a temporary was made
        self.stored: dict[Buffer, int] = {}  # when the program wrote into a buffer last, cells being filled aside
        self.compactions: list[Compaction] = []
        self.mask_places: list[tuple[Any, list[Step], int, str, Any]] = []  # of masks: how often and where they hold
        self.shown_read_only: set[Buffer] = set()  # a view shows them through which NumPy refuses to write
        self.read_only: set[Buffer] = set()  # buffers whose contents a copy stands for: writing them is refused

    # what lower layers ask of higher ones

    @contextmanager
    def unrounded(self) -> Iterator[None]:
        """Products in here are none of those that the option `precision` speaks of."""
        rounding, self.rounding = self.rounding, ""
        try:
            yield
        finally:
            self.rounding = rounding

    def run_block(self, pc: int, end: int) -> str:
        """Execute [pc, end): `Control`."""
        raise NotImplementedError

    def truth(self, value: Value) -> bool | Operand:
        """Python truth: `Control`."""
        raise NotImplementedError

    def constant(self, value: object) -> Value:
        """A constant of the program as a value: `Typer`."""
        raise NotImplementedError

    def get(self, reg: int) -> Value:
        """A register's value: `Typer`."""
        raise NotImplementedError

    def subscript(self, base: Value, index: Value) -> Value:
        """base[index]: `Typer`."""
        raise NotImplementedError

    def children(self, value: Value) -> list[Value]:
        """The items of a sequence: `Typer`."""
        raise NotImplementedError

    def is_sequence(self, value: Value) -> bool:
        """Whether `children` knows the items: `Typer`."""
        raise NotImplementedError

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """a OP b: `Typer`."""
        raise NotImplementedError

    def step_instruction(self, pc: int) -> None:
        """One instruction that is no control flow: `Typer`."""
        raise NotImplementedError
