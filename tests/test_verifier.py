"""The verifier: text cases with the expected fault on its line, the form of messages, its time."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from msbc_corpus import corpus

from prebake.vm.errors import VerifyError
from prebake.vm.lang.assembler import assemble
from prebake.vm.lang.bytecode import UNBOUND, Capture, Instruction, Param, Position, Program
from prebake.vm.lang.flow import MAX_NESTING
from prebake.vm.lang.opcodes import Op
from prebake.vm.lang.verifier import find_faults

CASES = sorted((Path(__file__).parent / "cases" / "verifier").glob("*.masm"))
_EXPECTED = re.compile(r"^;! (0x[0-9A-F]{2}|--) (.*)$", re.M)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path):
    """`;! index text` lines are the faults, in order; a file without them is valid."""
    source = path.read_text()
    expected = [(-1 if at == "--" else int(at, 16), text) for at, text in _EXPECTED.findall(source)]
    found = [(fault.index, fault.what) for fault in find_faults(assemble(source))]
    assert sorted(index for index, _ in found) == sorted(index for index, _ in expected), found
    for index, text in expected:
        assert any(at == index and text in what for at, what in found), (index, text, found)


def test_corpus_is_valid():
    for case in corpus():
        assert find_faults(case.program) == [], case.name
        case.program.verify()


def _endless() -> Program:
    return assemble("""
.program "m:spin"
.registers 1
.param x
.function "m" "spin" "00" "spin.py" 3
.line "def spin(x):"
.line "    while True:"
.line "        x = x + x"
.line "    return x"
LOAD_TENSOR r0 p0 @0:3:10-11
LOOP_WHILE 0x04 @0:4:5-15
BINARY_ADD_TENSOR r0 r0 r0 @0:5:9-14
LOOP_NEXT 0x01 @0:4:5-15
RETURN r0 @0:6:5-13
""")


def test_message_shows_the_fault_under_its_instruction():
    with pytest.raises(VerifyError) as caught:
        Program.from_bytes(_endless().to_bytes())
    assert caught.value.faults == ["Invalid control flow graph at instruction 0x01: this while loop never ends"]
    lines = str(caught.value).split("\n")
    assert lines[0] == caught.value.faults[0]
    at = next(i for i, line in enumerate(lines) if line.startswith("0x01"))
    assert lines[at - 1] == "; spin.py:4  while True:"
    assert lines[at].split()[:2] == ["0x01", "LOOP_WHILE"]
    assert lines[at + 1].strip() == "^ this while loop never ends"
    assert lines[at + 2].split(None, 1) == ["source", "spin.py:4  while True:"]
    assert lines[at + 3].split()[0] == "cause" and lines[at + 4].split()[0] == "fix"
    assert "break" in lines[at + 4]
    assert lines[at + 5] == "; spin.py:5  x = x + x"


def test_index_is_hexadecimal_with_two_digits():
    code = [Instruction(Op.LOAD_TENSOR, (0, 0))] + [Instruction(Op.MOVE, (0, 0))] * 73
    code += [Instruction(Op.MOVE, (0, 1)), Instruction(Op.RETURN, (0,))]
    program = _program(code)
    with pytest.raises(VerifyError) as caught:
        program.verify()
    assert str(caught.value).startswith("Invalid control flow graph at instruction 0x4A: register r1 is read")
    # a long program is shown around its faults only
    assert "0x4A  MOVE" in caught.value.listing and "0x10  MOVE" not in caught.value.listing
    assert "; ..." in caught.value.listing


def _program(code: list[Instruction], n_regs: int = 2, **fields: object) -> Program:
    base = Program("m:f", (Param("x"),), n_regs, ("?",), (None, True, 0), (), (), tuple(code),
                   tuple(Position(0, 0, 1, 1) for _ in code))
    return replace(base, **fields)  # type: ignore[arg-type]


def test_every_fault_is_listed_at_once():
    program = _program([Instruction(0xEE, ()), Instruction(Op.MOVE, (9, 0)), Instruction(Op.LOAD_CONST, (0, 77)),
                        Instruction(Op.MOVE, (0, 1), 0x55, 4)], captures=(Capture("local", "m", "a b"),), name="f")
    with pytest.raises(VerifyError) as caught:
        program.verify()
    text = "\n".join(caught.value.faults)
    for piece in ("not 'module:qualname'", "scope local", "a b, which is no name", "0x00: unknown opcode",
                  "0x01: operand 'dst' is register 9", "0x02: operand 'value' is constant 77",
                  "0x03: broken shape link", "0x03: unknown dtype hint 0x55", "0x03: register r1 is read",
                  "0x03: a path runs off"):
        assert piece in text, piece


def test_unbound_is_a_local_not_a_value():
    code = [Instruction(Op.LOAD_CONST, (0, 0)), Instruction(Op.RETURN, (0,))]
    assert find_faults(_program(code, constants=(UNBOUND,))) == []
    assert "inside a tuple" in find_faults(_program(code, constants=((1, (UNBOUND,)),)))[0].what
    assert "UNBOUND" in find_faults(_program(code, constants=(UNBOUND,), params=(Param("x", 0),)))[0].what


def test_numbers_too_long_to_print():
    code = [Instruction(Op.LOAD_TENSOR, (0, 0)), Instruction(Op.LOAD_CONST, (1, 0)),
            Instruction(Op.REDUCE_SUM_TENSOR, (0, 0, 1, 0)), Instruction(Op.RETURN, (0,))]
    with pytest.raises(VerifyError, match=r"the axis of a reduction is .an int of 16610 bits, 'a'."):
        _program(code, constants=((10**5000, "a"),)).verify()


def test_nesting_is_limited():
    def nested(depth: int) -> Program:
        code = [Instruction(Op.LOAD_TENSOR, (0, 0))]
        code += [Instruction(Op.IF_TRUE, (0, depth + 2))] * depth
        code += [Instruction(Op.MOVE, (0, 0)), Instruction(Op.RETURN, (0,))]
        return _program(code)
    assert find_faults(nested(MAX_NESTING)) == []
    assert "nest deeper" in find_faults(nested(MAX_NESTING + 1))[0].what


def test_hostile_sizes_stay_cheap():
    """The largest program a file can hold, every instruction faulty: seconds at most."""
    start = time.process_time()
    wide = _program([Instruction(Op.LOAD_CONST, (65534, 2)), Instruction(Op.IF_TRUE, (65533, 3))] * 32000
                    + [Instruction(Op.RETURN, (65534,))], n_regs=65535)
    with pytest.raises(VerifyError) as caught:
        Program.from_bytes(wide.to_bytes())
    assert len(caught.value.faults) >= 32000
    assert "more faults" in caught.value.listing
    assert time.process_time() - start < 10


def test_verifier_is_fast_enough_to_run_at_every_load():
    """Budget 0.5 ms for a transformer layer; the bound here is wide, for slow and busy machines."""
    code = [Instruction(Op.LOAD_TENSOR, (0, 0))]
    code += [Instruction(Op.BINARY_ADD_TENSOR, (1 + i % 60, 0, 0)) for i in range(147)]
    code += [Instruction(Op.SYNC_DEVICE, ()), Instruction(Op.RETURN, (1,))]
    program = _program(code, n_regs=61)
    times = []
    for _ in range(50):
        start = time.perf_counter()
        program.verify()
        times.append(time.perf_counter() - start)
    assert sorted(times)[25] < 5e-3


@pytest.mark.parametrize("constant", [tuple(range(200_000)), "x" * 2_000_000, 1 << 8_000_000],
                         ids=["tuple", "str", "int"])
def test_large_constants_are_looked_at_once(constant):
    """Refusing costs no more when thousands of instructions use one large constant."""
    code = [Instruction(Op.LOAD_TENSOR, (0, 0)), Instruction(Op.LOAD_CONST, (1, 0))]
    code += [Instruction(Op.REDUCE_SUM_TENSOR, (0, 0, 1, 0)), Instruction(Op.LOAD_ATTR, (0, 0, 0)),
             Instruction(Op.ALLOC_BUFFER, (0, 1, 0, 1))] * 3000 + [Instruction(Op.LOAD_CONST, (1, 0))] * 100
    data = _program([*code, Instruction(Op.RETURN, (0,))], constants=(constant,)).to_bytes()
    start = time.process_time()
    with pytest.raises(VerifyError):
        Program.from_bytes(data)
    assert time.process_time() - start < 3
