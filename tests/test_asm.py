"""The text form both ways."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import test_msbc_fuzz as fuzz
from msbc_corpus import ALL_OPCODES, corpus
from test_bytecode import CONSTANTS, make_program

from prebake.vm.errors import AssemblyError, VerifyError
from prebake.vm.lang.asm import disassemble, format_constant, quote
from prebake.vm.lang.assembler import assemble
from prebake.vm.lang.bytecode import Instruction, Position, Program
from prebake.vm.lang.opcodes import TABLE, Op


def test_corpus_reads_back_to_the_same_bytes():
    for case in corpus():
        text = case.program.disassemble()
        assert assemble(text) == case.program, case.name
        assert disassemble(assemble(text)) == text


def test_corpus_holds_every_opcode():
    used = {ins.op for case in corpus() for ins in case.program.code}
    assert used == {row.code for row in TABLE}


@pytest.mark.parametrize("seed", range(300))
def test_damaged_programs_read_back_too(seed):
    """Whatever an in-memory program holds, its text is complete: a listing of a fault hides nothing."""
    rng = random.Random(seed)
    program = rng.choice(corpus()).program
    for _ in range(3):
        program = rng.choice(fuzz.FIELD_MUTATORS)(rng, program)
    if len(program.positions) < len(program.code) or not program.functions:
        return
    try:
        data = program.to_bytes()
    except VerifyError:
        return
    assert assemble(program.disassemble()).to_bytes() == data


@pytest.mark.parametrize("value", CONSTANTS, ids=lambda v: format_constant(v)[:20])
def test_constants_read_back(value):
    program = make_program(constants=(value, float("nan")))
    assert assemble(program.disassemble()) == program


def test_text_shows_source_lines_names_and_values():
    lines = make_program().disassemble().split("\n")
    assert lines[:3] == [".msbc 1", '.program "m:f"', ".registers 3"]
    at = lines.index("; m.py:2  n = ...")
    assert lines[at + 1].split() == ["0x01", "TENSOR_SHAPE_REF", "r1", "r0", "-1", "@0:2:5-9"]
    call = lines[at + 2]
    assert call.startswith("0x02  CALL_KERNEL") and "r2 0x8108 (r0)" in call and "float32 s1" in call
    assert call.endswith("; np.exp  -> x.shape[0]")


@pytest.mark.parametrize("text", ["", "a", '"', "'", "\\", "\n\r\t\0", "é漢🙂", "\ud800", "\x85\u2028", '\\"x'])
def test_quote_is_one_ascii_line(text):
    import ast

    quoted = quote(text)
    assert quoted.isascii() and quoted.isprintable() and ast.literal_eval(quoted) == text


def test_hostile_names_do_not_break_lines():
    program = make_program(name="m:f\n.registers 9", symbols=("?", "x\n;"), constants=("\n",))
    text = program.disassemble()
    assert assemble(text) == program


def test_labels_and_compare_signs():
    program = assemble(ALL_OPCODES)
    loop = next(ins for ins in program.code if ins.op == Op.LOOP_RANGE)
    assert program.code[loop.args[-1] - 1] == Instruction(Op.LOOP_NEXT, (program.code.index(loop),))
    assert next(ins for ins in program.code if ins.op == Op.COMPARE_TENSOR).args[3] == 2
    assert program.kernels == (0x8108, 0x8B01)
    assert set(program.positions) == {Position(0, 0, 1, 1)}


@pytest.mark.parametrize("text, message", [
    ("NO_SUCH r0", "line 1: unknown instruction NO_SUCH"),
    (".thing 1", "line 1: unknown directive .thing"),
    ("\n\nMOVE r0 c1", "line 3: 'c1' is no operand of kind src"),
    ("JUMP nowhere", "line 1: no label 'nowhere'"),
    ("0x05 SYNC_DEVICE", "line 1: index 0x05, this is instruction 0x00"),
    (".const thing 1", "line 1: thing is no kind of constant"),
    (".const int", "line 1: .const"), (".const int x", "line 1: .const"), (".const bool maybe", "line 1: .const"),
    (".const dtype nonsense", "line 1: .const"),
    ('.const str "open', "line 1: a string that does not end"), (".program plain", "line 1: a quoted text"),
    (".param x size=3", "unknown option size"), ('.line "x"', "belongs to the .function"),
    (".registers 1 2", "one word too many"), ("MOVE r0 r1 : float31 s0", "unknown dtype hint float31"),
    ("UNPACK r0 (r1", "not closed"), ("what is this", "neither an instruction nor a directive"),
    (".msbc 2", "text of version 1"),
])
def test_errors_name_the_line(text, message):
    with pytest.raises(AssemblyError) as caught:
        assemble(text)
    assert message in str(caught.value)


def test_very_long_ints_are_hexadecimal():
    assert format_constant(1 << 20000).startswith("int 0x1000")
    assert assemble(f".const {format_constant(-(1 << 20000))}").constants == (-(1 << 20000),)


def test_listing_of_a_program_without_functions():
    program = replace(make_program(), functions=(), positions=())
    assert "0x03  RETURN" in program.disassemble()
    assert isinstance(program, Program)


def test_unknown_opcodes_and_surplus_words_are_shown():
    program = make_program(code=(Instruction(0xEE, (1, 2)), Instruction(Op.MOVE, (0, 1, 9))), positions=(), kernels=())
    text = program.disassemble()
    assert "OP_EE                1 2" in text and "MOVE                 r0 r1 9" in text
    assert assemble(text).code == program.code


def test_nan_constants_show_their_bits():
    text = format_constant(float(np.uint64(0x7FF8000000000001).view(np.float64)))
    assert text == "float bits:0x7ff8000000000001"
