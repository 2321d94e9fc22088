"""Well-formedness of a Program: every fault at once, each with its cause and its cure.

Three passes: the tables (here), the instructions one by one (`operands.py`), the control-flow graph (`flow.py`). What
needs ranks or dtypes of arguments is left to typing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...templates.records import record
from ..bindings import SCOPES
from ..errors import VerifyError
from .bytecode import UNBOUND, Program
from .flow import FlowCheck
from .operands import OperandCheck
from .symbols import MAX_TABLE, UNKNOWN, SymbolError, defined_names, symbol_roots

_MAX_WORD = 0xFFFF
_REBUILD = "make the bytecode again from its source"
_KIND_ORDER = {2: 0, 0: 1, 1: 2}  # positional only, positional or keyword, keyword only


@record(eq=True)
class Fault:
    """One fault: instruction index (-1 for a table), what is wrong, why, and what to do."""

    index: int
    what: str
    cause: str
    cure: str

    def __str__(self) -> str:
        if self.index < 0:
            return f"Invalid program: {self.what}"
        return f"Invalid control flow graph at instruction 0x{self.index:02X}: {self.what}"


def check_program(program: Program, earlier: Sequence[str] = ()) -> None:
    """Nothing for a well-formed program. Raises VerifyError with every fault, `earlier` ones (of the file) first."""
    faults = find_faults(program)
    if not faults and not earlier:
        return
    from .asm import list_faults

    raise VerifyError([*earlier, *map(str, faults)], list_faults(program, faults) if faults else "")


def find_faults(program: Program) -> list[Fault]:
    """Every fault of a program: those of its tables, then by instruction."""
    faults: list[Fault] = []

    def report(index: int, what: str, cause: str, cure: str) -> None:
        faults.append(Fault(index, what, cause, cure))

    tables = _TableCheck(program, faults)
    tables.run()
    if not program.code:
        tables.fault("there are no instructions", "every program ends in a RETURN")
    elif len(program.code) > _MAX_WORD:
        tables.fault(f"{len(program.code)} instructions, a target can name {_MAX_WORD}")
    else:
        operands = OperandCheck(program, report)
        operands.run()
        for kernel in program.kernels:
            if kernel not in operands.kernels_used:
                tables.fault(f"kernel 0x{kernel:04X} is listed, but no instruction uses it")
        if operands.is_readable:
            FlowCheck(program, report, operands.constant_truth, operands.malformed).run()
    faults.sort(key=lambda fault: fault.index)
    return faults


class _TableCheck:
    """Everything around the instructions."""

    def __init__(self, program: Program, faults: list[Fault]) -> None:
        self.program, self.faults = program, faults

    def fault(self, what: str, cause: str = "", cure: str = _REBUILD) -> None:
        self.faults.append(Fault(-1, what, cause, cure))

    def run(self) -> None:
        p = self.program
        if ":" not in p.name:
            self.fault(f"the name {_short(p.name)} is not 'module:qualname'")
        if not 0 <= p.n_regs <= _MAX_WORD:
            self.fault(f"{p.n_regs} registers, an operand can name {_MAX_WORD}")
        self._params()
        for number, capture in enumerate(p.captures):
            if capture.scope not in ("global", "closure"):
                self.fault(f"capture {number} has scope {_short(capture.scope)}, expected 'global' or 'closure'")
            if not all(part.isidentifier() for part in re.split("[.|]", capture.name)):
                self.fault(f"capture {number} is called {_short(capture.name)}, which is no name")
        for number, binding in enumerate(p.bindings):
            if binding.scope not in SCOPES:
                self.fault(f"binding {number} has scope {_short(binding.scope)}, expected one of {', '.join(SCOPES)}")
        for number, constant in enumerate(p.constants):
            if type(constant) is tuple and _holds_unbound(constant):
                self.fault(f"constant {number} holds UNBOUND inside a tuple")
        self._symbols()
        if any(a >= b for a, b in zip(p.kernels, p.kernels[1:], strict=False)):
            self.fault("the list of kernels is not in ascending order")
        self._positions()

    def _params(self) -> None:
        p = self.program
        names: set[str] = set()
        before = None
        for number, param in enumerate(p.params):
            label = f"parameter {number} ({_short(param.name)})"
            if not param.name.isidentifier():
                self.fault(f"{label}: that is no name")
            if param.name in names:
                self.fault(f"{label}: the name is taken")
            names.add(param.name)
            if not -1 <= param.default < len(p.constants):
                self.fault(f"{label}: its default is constant {param.default} of {len(p.constants)}")
            elif param.default >= 0 and p.constants[param.default] is UNBOUND:
                self.fault(f"{label}: its default is UNBOUND")
            if param.kind not in _KIND_ORDER:
                self.fault(f"{label}: kind {param.kind}, expected 0, 1 or 2")
                continue
            if before is not None:
                if _KIND_ORDER[param.kind] < _KIND_ORDER[before.kind]:
                    self.fault(f"{label}: it stands after parameters of a later kind")
                elif param.kind != 1 and param.default < 0 <= before.default:
                    self.fault(f"{label}: it has no default, the one before it has")
            before = param

    def _symbols(self) -> None:
        p = self.program
        if not p.symbols or p.symbols[0] != UNKNOWN:
            self.fault("the symbol table does not start with '?'")
        if len(p.symbols) < 2:
            return
        if sum(map(len, p.symbols)) > MAX_TABLE:
            self.fault(f"the symbol table has more than {MAX_TABLE} characters")
            return
        names = {param.name for param in p.params}
        names.update([capture.name.partition(".")[0] for capture in p.captures])
        names |= defined_names(p.symbols)
        for number, text in enumerate(p.symbols):
            try:
                missing = symbol_roots(text) - names
            except SymbolError as error:
                self.fault(f"symbol {number} ({_short(text)}) does not parse: {error}")
                continue
            for name in sorted(missing):
                self.fault(f"broken shape link: symbol {number} ({_short(text)}) starts from '{_short(name)}', which "
                           "is neither a parameter nor a captured name",
                           "an extent must lead back to something that is known when the function is called",
                           'state it, for instance jit(shapes={"x": "b d"}), or derive it from a parameter\'s shape')

    def _positions(self) -> None:
        p = self.program
        if len(p.positions) != len(p.code):
            self.fault(f"{len(p.code)} instructions, {len(p.positions)} source positions")
        for number, function in enumerate(p.functions):
            if not (function.module and function.qualname and function.digest):
                self.fault(f"function {number} has no module, qualified name or digest")
        # without source text any line will do
        bounds = [(f.first_line, f.first_line + len(f.lines)) if f.lines else (0, 1 << 33) for f in p.functions]
        total = len(bounds)
        for index, position in enumerate(p.positions):
            function_at = position.function
            if function_at >= total:
                if total or function_at:
                    self.fault(f"the source position of instruction 0x{index:02X} names function {function_at} "
                               f"of {total}")
                continue
            low, high = bounds[function_at]
            if not low <= position.line < high:
                self.fault(f"the source position of instruction 0x{index:02X} is line {position.line}, the text of "
                           f"{_short(p.functions[function_at].qualname)} has lines {low} to {high - 1}")


def _holds_unbound(value: tuple) -> bool:
    return any(item is UNBOUND or (type(item) is tuple and _holds_unbound(item)) for item in value)


def _short(text: str) -> str:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return shown if shown.isprintable() else ascii(shown)
