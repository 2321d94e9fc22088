"""MSBC as bytes: round trips, determinism, digests, and files that are cut, changed or forged."""

from __future__ import annotations

import copy
import math
import os
import pickle
import struct
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from msbc_corpus import corpus

from prebake.vm import dtypes
from prebake.vm.errors import VerifyError
from prebake.vm.lang import codec
from prebake.vm.lang.bytecode import (
    MAGIC,
    UNBOUND,
    Capture,
    Instruction,
    Param,
    Position,
    Program,
    SourceFunction,
    Unbound,
    seal,
)
from prebake.vm.lang.opcodes import Op


def make_program(**changes: object) -> Program:
    """A small program; keyword arguments replace its fields."""
    base = Program(
        name="m:f", params=(Param("x"), Param("y", 0)), n_regs=3, symbols=("?", "x.shape[0]"), constants=(2.0,),
        captures=(Capture("global", "m", "SCALE"),), kernels=(0x8108,),
        code=(Instruction(Op.LOAD_TENSOR, (0, 0), 2, 1), Instruction(Op.TENSOR_SHAPE_REF, (1, 0, -1)),
              Instruction(Op.CALL_KERNEL, (2, 0x8108, 1, 0), 2, 1), Instruction(Op.RETURN, (2,))),
        positions=(Position(0, 1, 7, 8), Position(0, 2, 5, 9), Position(0, 2, 12, 40), Position(0, 3, 5, 13)),
        functions=(SourceFunction("m", "f", "00ff", "m.py", 1, ("def f(x, y=2.0):", "    n = ...", "    return y")),))
    return replace(base, **changes)  # type: ignore[arg-type]


def faults_of(data: bytes) -> list[str]:
    """The faults with which `from_bytes` refuses the bytes; an empty list when it takes them."""
    try:
        Program.from_bytes(data)
    except VerifyError as error:
        return error.faults
    return []


# --- round trips

def test_file_starts_with_the_magic_and_version():
    data = make_program().to_bytes()
    assert data[:4] == bytes.fromhex("4D534243") == MAGIC
    assert struct.unpack_from("<H", data, 4) == (codec.MSBC_VERSION,)


def test_corpus_round_trips():
    for case in corpus():
        data = case.program.to_bytes()
        again = Program.from_bytes(data)
        assert again == case.program and hash(again) == hash(case.program)
        for field in fields(Program):
            if field.name != "constants":  # NaN is not itself
                assert getattr(again, field.name) == getattr(case.program, field.name), field.name
        assert codec.encode_program(again) == data
        assert Program.from_bytes(bytearray(data)) == Program.from_bytes(memoryview(data)) == again


CONSTANTS = (
    None, True, False, 0, 1, -1, 127, 128, -128, -129, 255, 2**63, -(2**63), 2**64, 10**400, -(10**5000), 0.0, -0.0,
    1.5, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 1j, complex(-0.0, 0.0), complex(math.inf, -0.0), "",
    "a", "\n\"'\\", "é漢🙂", "\ud800", "\0", ..., (), (1,), (True, 1, 1.0), ((), ((None,),)), np.dtype("float32"),
    np.dtype("bool"), np.dtype("complex128"), np.dtype(">i2"), np.dtype("uint64"), UNBOUND,
)


@pytest.mark.parametrize("value", CONSTANTS, ids=lambda value: type(value).__name__)
def test_constant_round_trips_with_its_type(value):
    code = (Instruction(Op.LOAD_CONST, (0, 0)), Instruction(Op.RETURN, (0,)))
    program = Program("m:f", (), 1, ("?",), (value,), (), (), code, (Position(0, 0, 1, 1),) * 2)
    again = Program.from_bytes(program.to_bytes()).constants[0]
    assert type(again) is type(value)
    assert _bits(again) == _bits(value)


def _bits(value: object) -> object:
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, complex):
        return struct.pack("<dd", value.real, value.imag)
    if isinstance(value, tuple):
        return tuple((type(item), _bits(item)) for item in value)
    return value


@pytest.mark.parametrize("bits", [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001, 0x7FFFFFFFFFFFFFFF])
def test_nan_keeps_its_bits(bits):
    value = struct.unpack("<d", struct.pack("<Q", bits))[0]
    program = Program.from_bytes(make_program(constants=(value,)).to_bytes())
    assert struct.pack("<d", program.constants[0]) == struct.pack("<Q", bits)
    assert program == make_program(constants=(value,))


def test_bfloat16_constant():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    program = Program.from_bytes(make_program(constants=(np.dtype(ml_dtypes.bfloat16),)).to_bytes())
    assert program.constants[0] == np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("value", [object(), [1], {}, b"x", {1}, np.float32(1), np.ones(1)],
                         ids=lambda value: type(value).__name__)
def test_what_is_no_constant_is_refused(value):
    program = make_program(constants=(value,))
    with pytest.raises(VerifyError, match="cannot be a constant"):
        program.to_bytes()


def test_equal_constants_of_different_types_make_different_programs():
    programs = {make_program(constants=(value,)) for value in (1, 1.0, True, 1 + 0j, np.dtype("int64"))}
    assert len(programs) == 5
    assert make_program(constants=(0.0,)) != make_program(constants=(-0.0,))


def test_unbound_is_one_object():
    assert Unbound() is UNBOUND
    assert pickle.loads(pickle.dumps(UNBOUND)) is UNBOUND
    assert repr(UNBOUND) == "UNBOUND"


def test_words_of_an_axis_are_signed():
    for axis in (-1, -64, 0, 63):
        code = (Instruction(Op.LOAD_TENSOR, (0, 0)), Instruction(Op.TENSOR_SHAPE_REF, (1, 0, axis)),
                Instruction(Op.RETURN, (1,)))
        program = make_program(code=code, positions=(Position(0, 1, 1, 1),) * 3, kernels=())
        assert Program.from_bytes(program.to_bytes()).code[1].args == (1, 0, axis)


@pytest.mark.parametrize("changes", [
    {"code": (Instruction(300, ()),)}, {"code": (Instruction(1, (70000,)),)}, {"code": (Instruction(1, (-40000,)),)},
    {"code": (Instruction(1, (), 256),)}, {"code": (Instruction(1, (), 0, 65536),)}, {"n_regs": 2**32},
    {"kernels": (70000,)}, {"positions": (Position(70000, 1, 1, 1),)}, {"n_regs": -1},
])
def test_what_does_not_fit_its_field_is_refused(changes):
    with pytest.raises(VerifyError):
        make_program(**changes).to_bytes()


def test_pickle_and_copy():
    program = corpus()[0].program
    program.run(*corpus()[0].args(), max_steps=1000)  # keeps things on the program that do not pickle
    for again in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program), copy.copy(program)):
        assert again == program and again.digest == program.digest
        assert set(vars(again)) - {"_bytes", "digest"} == {f.name for f in fields(Program)}


# --- determinism and digests

def test_bytes_are_the_same_in_another_process():
    script = f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nimport msbc_corpus as m\n" \
             "sys.stdout.buffer.write(b''.join(c.program.to_bytes() for c in m.corpus()))"
    outputs = {subprocess.run([sys.executable, "-c", script], capture_output=True, check=True,
                              env={**os.environ, "PYTHONHASHSEED": seed}).stdout
               for seed in ("0", "1", "77")}
    assert len(outputs) == 1
    assert outputs.pop() == b"".join(case.program.to_bytes() for case in corpus())


def test_digest_ignores_what_only_points_at_the_source():
    program = make_program()
    function = program.functions[0]
    same = [
        replace(program, positions=tuple(Position(0, 1, 1, 2) for _ in program.positions)),
        replace(program, functions=(replace(function, first_line=40),)),
        replace(program, functions=(replace(function, file="other.py"),)),
        replace(program, functions=(replace(function, lines=("# comment",)),)),
    ]
    assert len(program.digest) == 32 and int(program.digest, 16) >= 0
    for other in same:
        assert other.digest == program.digest
        assert other.to_bytes() != program.to_bytes()


def test_digest_covers_the_rest():
    program = make_program()
    changed = [
        replace(program, name="m:g"), replace(program, params=(Param("x"), Param("z", 0))),
        replace(program, params=(Param("x"), Param("y", 0, 1))), replace(program, n_regs=4),
        replace(program, symbols=("?", "x.shape[1]")), replace(program, constants=(2,)),
        replace(program, captures=(Capture("closure", "m", "SCALE"),)), replace(program, kernels=(0x8108, 0x8109)),
        replace(program, code=(*program.code[:1], Instruction(Op.TENSOR_SHAPE_REF, (1, 0, 0)), *program.code[2:])),
        replace(program, code=(replace(program.code[0], dtype=3), *program.code[1:])),
        replace(program, code=(replace(program.code[0], shape=0), *program.code[1:])),
        replace(program, functions=(replace(program.functions[0], digest="00fe"),)),
        replace(program, functions=(replace(program.functions[0], module="n"),)),
        replace(program, functions=(replace(program.functions[0], qualname="g"),)),
    ]
    digests = {program.digest, *(other.digest for other in changed)}
    assert len(digests) == len(changed) + 1


# --- files that were cut or changed

def test_truncation_at_every_length():
    data = make_program().to_bytes()
    for size in range(len(data)):
        faults = faults_of(data[:size])
        assert faults and all(isinstance(fault, str) for fault in faults), size
        assert faults_of(seal(data[:size])), size  # a digest that fits does not help


def test_each_byte_of_the_header_and_table():
    data = make_program().to_bytes()
    for at in range(codec.PREFIX_BYTES):
        for change in (1, 0x80, 0xFF):
            edited = bytearray(data)
            edited[at] ^= change
            assert faults_of(bytes(edited)), at
            assert faults_of(seal(bytes(edited))), at


def test_each_byte_breaks_the_digest():
    data = make_program().to_bytes()
    for at in range(len(data)):
        edited = bytearray(data)
        edited[at] ^= 0x10
        assert any("digest" in fault or at < codec.PREFIX_BYTES for fault in faults_of(bytes(edited))), at


@pytest.mark.parametrize("data, text", [
    (b"", "too short for a header"), (b"MSBC", "too short for a header"),
    (b"\x7fELF" + bytes(100), "not with 4d 53 42 43"), (b"MSBC" + bytes(200), "version 0"),
    (make_program().to_bytes()[:60], "truncated inside its section table"),
])
def test_message_names_what_is_wrong(data, text):
    assert text in faults_of(data)[0]


def test_digest_fault_comes_with_the_faults_behind_it():
    data = bytearray(make_program().to_bytes())
    at = data.index(b"x.shape[0]")
    data[at] = ord("q")
    faults = faults_of(bytes(data))
    assert "digest mismatch" in faults[0]
    assert any("broken shape link" in fault for fault in faults[1:])


def test_bytes_after_the_end_are_refused():
    data = make_program().to_bytes()
    assert any("after the last section" in fault for fault in faults_of(seal(data + bytes(40))))


def test_seal_gives_edited_bytes_a_digest():
    data = make_program().to_bytes()
    assert seal(data) == data
    edited = data.replace(b"m:f", b"m:g")
    assert faults_of(edited) != []
    assert Program.from_bytes(seal(edited)).name == "m:g"


@pytest.mark.parametrize("junk", [b"", b"M", b"MSBC", bytes(39), b"\xff" * 39])
def test_seal_leaves_short_junk_alone(junk):
    assert seal(junk) == junk


def test_seal_takes_any_longer_junk():
    for size in (40, 41, 100):
        assert len(seal(bytes(size))) == size
    assert faults_of(seal(bytes(100)))


# --- forged counts

def _section(data: bytes, tag: str) -> tuple[int, int]:
    """(offset, size) of a section."""
    at = codec.PREFIX_BYTES
    for number, name in enumerate(codec.SECTIONS):
        size = struct.unpack_from("<4sI", data, codec.HEADER_BYTES + 8 * number)[1]
        if name == tag:
            return at, size
        at += size
    raise KeyError(tag)


def _with_section(data: bytes, tag: str, body: bytes) -> bytes:
    at, size = _section(data, tag)
    edited = bytearray(data[:at] + body + data[at + size:])
    struct.pack_into("<I", edited, codec.HEADER_BYTES + 8 * codec.SECTIONS.index(tag) + 4, len(body))
    return seal(bytes(edited))


HUGE = b"\xff\xff\xff\xff\x0f"  # 2**32 - 1


@pytest.mark.parametrize("tag", [tag for tag in codec.SECTIONS if tag not in ("PROG", "CODE")])
def test_counts_are_checked_before_anything_is_allocated(tag):
    data = make_program().to_bytes()
    for count in (HUGE, b"\xff\xff\x03", b"\x80\x80\x80\x80\x80\x80"):
        faults = faults_of(_with_section(data, tag, count))
        assert any(f"section {tag}" in fault for fault in faults), faults


@pytest.mark.parametrize("body", [
    b"", b"\x01\x00", b"\xff\xff\x00\x00", b"\xff\xff\xff\xff", b"\x01\x00\x00\x00\x0c\x00\x00\x00\xff\xff",
    b"\x00\x00\x00\x00\x00\x00", b"\x01\x00\x00\x00\x0c\x00\x00\x00",
])
def test_forged_code_sections(body):
    assert any("section CODE" in fault for fault in faults_of(_with_section(make_program().to_bytes(), "CODE", body)))


@pytest.mark.parametrize("constant", [
    b"(" * 17, b"(\x01" * 17 + b"N", b"i\x00", b"i\x02\x01\x00", b"i" + HUGE, b"s" + HUGE, b"s\x01\xff", b"f\x00",
    b"d\x03foo", b"d\x07float32\x00", b"d\x01O", b"d\x02U9", b"d\x02<f", b"d\x03<f4", b"z", b"(" + HUGE,
])
def test_forged_constants(constant):
    faults = faults_of(_with_section(make_program().to_bytes(), "CNST", b"\x01" + constant))
    assert any("section CNST" in fault for fault in faults), faults


def test_numbers_have_one_spelling():
    data = make_program().to_bytes()
    at, size = _section(data, "PROG")
    body = data[at:at + size]
    assert body[:1] == b"\x03"
    faults = faults_of(_with_section(data, "PROG", b"\x83\x00" + body[1:]))
    assert any("shortest form" in fault for fault in faults)


def test_dtype_codes_are_one_table():
    assert dtypes.dtype_code("float32") == 0x02 == dtypes.CODES["float32"]
    assert dtypes.dtype_name(0) == "?" and dtypes.dtype_of(0) is None
    for code, name in dtypes.NAMES.items():
        if name != "bfloat16":
            assert dtypes.dtype_of(code) == np.dtype(name) and dtypes.dtype_code(np.dtype(name)) == code
        assert dtypes.is_known(code)
    for odd in ("U8", ">f4", "no such dtype", "i4,i4", object(), "f" * 100000, np.dtype("O")):
        assert dtypes.dtype_code(odd) == 0
    assert not dtypes.is_known(0x77)
