"""A `Driver` of a tape in place of a compiled kernel, so that the same tests serve both back ends."""

from __future__ import annotations

from types import SimpleNamespace

from prebake.pgo import drive
from prebake.templates.levels import load_stencils
from prebake.vm.plan.code import Code
from prebake.vm.run.tape import Tape


class TapeTable(SimpleNamespace):
    """The part of a stencil library's table that a driver asks for: packing."""

    def __init__(self, level: str | None) -> None:
        row = drive.KernelTable.from_address(load_stencils(level).table_address)  # both tables begin with a pb_library
        super().__init__(pack_bytes=row.pack_bytes, pack=row.pack)


def driver(code: Code, bounds: object = None, level: str | None = None) -> drive.Driver:
    """A driver of the code's tape."""
    tape = Tape(code, level)
    code.types += ["i64"] * (tape.n_regs - len(code.types))  # the driver makes as many registers as there are types
    bind, run = drive.ENTRY(tape.bind_address), drive.ENTRY(tape.run_address)
    kernel = SimpleNamespace(bind=lambda _, frame: bind(tape.plan_address, frame),
                             run=lambda _, frame: run(tape.plan_address, frame))
    return drive.Driver(code, TapeTable(level), kernel)  # type: ignore[arg-type]

