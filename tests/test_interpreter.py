"""The interpreter: NumPy's and Python's own values, errors and effects, instruction by instruction; limits."""

from __future__ import annotations

import copy
import sys
import traceback
import types

import numpy as np
import pytest
from msbc_corpus import FUNCTIONS, corpus

from prebake.templates import registry
from prebake.vm.errors import LimitError, MemoryLimitError, PrebakeError, StepLimitError
from prebake.vm.lang.assembler import assemble
from prebake.vm.lang.bytecode import Program
from prebake.vm.lang.opcodes import TABLE
from prebake.vm.run import interpreter
from prebake.vm.run.cost_table import PLAIN, RULES, UFUNC_METHODS
from prebake.vm.run.interpreter import run_program

HEAD = """
.program "case:f"
.registers 8
.param x
.param y default=0
.const None
.const int 0
.const int 1
.const int 2
"""


def program(body: str, extra: str = "") -> Program:
    """A verified program; parameters are loaded into r0 and r1."""
    made = assemble(HEAD + extra + "LOAD_TENSOR r0 p0\nLOAD_TENSOR r1 p1\n" + body)
    made.verify()
    return made


def run(body: str, *args: object, extra: str = "", **limits: int) -> object:
    return program(body, extra).run(*args, **limits)


def assert_same(a: object, b: object) -> None:
    """Equal in type, dtype, shape and value, through containers."""
    assert type(a) is type(b)
    if isinstance(a, (np.ndarray, np.generic)):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    else:
        assert a == b or (a != a and b != b)


def test_handlers_and_table_agree_exactly():
    handlers = {name for name in vars(interpreter) if name.startswith("exec_")}
    assert handlers == {f"exec_{row.name.lower()}" for row in TABLE}
    assert set(interpreter.HANDLERS) == {row.code for row in TABLE}


@pytest.mark.parametrize("case", [case for case in corpus() if case.name in FUNCTIONS], ids=lambda case: case.name)
def test_functions_equal_python(case):
    expected = FUNCTIONS[case.name](*case.args())
    assert_same(case.program.run(*case.args()), expected)
    again = Program.from_bytes(case.program.to_bytes())
    assert_same(again.run(*case.args(), max_steps=5000, max_bytes=1 << 20), expected)


def test_every_opcode_program():
    case = next(case for case in corpus() if case.name == "everything")
    x = case.args()[0]
    y = np.zeros_like(x)
    y[:1] = 0.5
    y = (y + x - 0.5) * x / 2 + 1
    y = np.where(~(-y < 0), -y, y)
    s = np.sum(y, axis=0, keepdims=True)
    m = np.max(y) + np.float32(0 + 1)  # the loop over range(2)
    result = case.program.run(x)
    np.testing.assert_allclose(result[0], np.exp(s))
    np.testing.assert_allclose(result[1], y)
    np.testing.assert_allclose(result[2], m)
    assert result[3] == x.shape[0] and result[4] == 0


# --- values, identity and effects

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("body, expected", [
    ("BINARY_ADD_TENSOR r2 r0 r1\nRETURN r2", lambda x, y: x + y),
    ("BINARY_SUB_TENSOR r2 r0 r1\nRETURN r2", lambda x, y: x - y),
    ("BINARY_MUL_TENSOR r2 r0 r1\nRETURN r2", lambda x, y: x * y),
    ("BINARY_DIV_TENSOR r2 r0 r1\nRETURN r2", lambda x, y: x / y),
    ("UNARY_NEG_TENSOR r2 r0\nRETURN r2", lambda x, y: -x),
    ("SELECT_TENSOR r2 r0 r1 r0\nRETURN r2", lambda x, y: np.where(x, y, x)),
    *[(f"COMPARE_TENSOR r2 r0 r1 {sign}\nRETURN r2", rule) for sign, rule in (
        ("==", lambda x, y: x == y), ("!=", lambda x, y: x != y), ("<", lambda x, y: x < y),
        ("<=", lambda x, y: x <= y),
        (">", lambda x, y: x > y), (">=", lambda x, y: x >= y))],
    ("CALL_KERNEL r2 0x8b05 (r0 r1)\nRETURN r2", lambda x, y: x // y),
])
@pytest.mark.parametrize("x, y", [
    (X, np.float32(2)), (X, 2), (X, 2.5), (X.astype(np.int8), 3), (X, X[:, ::-1] + 1), (X.T, np.ones((3, 1))),
    (np.zeros((0, 3)), 2.0), (np.float32(3), np.float64(2)), (3, 2), (2.5, 2),
], ids=str)
def test_operators(body, expected, x, y):
    assert_same(run(body, x, y), expected(x, y))


def test_exceptions_are_the_originals():
    for body, args, kind, text in (
        ("BINARY_ADD_TENSOR r2 r0 r1\nRETURN r2", (np.ones(3), np.ones(2)), ValueError, "broadcast"),
        ("BINARY_DIV_TENSOR r2 r0 r1\nRETURN r2", (1.0, 0), ZeroDivisionError, "division"),
        ("VIEW_TENSOR r2 r0 r1\nRETURN r2", (np.ones(3), 3), IndexError, "out of bounds"),
        ("VIEW_TENSOR r2 r0 r1\nRETURN r2", ({"a": 1}, "b"), KeyError, "'b'"),
        ("LOAD_CONST r2 c1\nREDUCE_MAX_TENSOR r2 r0 r2 0\nRETURN r2", (np.ones((0, 4)),), ValueError, "zero-size"),
        ("IF_TRUE r0 0x04\nMOVE r2 r1\nRETURN r0", (np.ones(2),), ValueError, "ambiguous"),
        ("UNPACK r0 (r2 r3)\nRETURN r2", ((1, 2, 3),), ValueError, "too many values to unpack (expected 2)"),
        ("UNPACK r0 (r2 r3)\nRETURN r2", ((1,),), ValueError, "not enough values to unpack (expected 2, got 1)"),
        ("TENSOR_SHAPE_REF r2 r0 1\nRETURN r2", (np.ones(3),), IndexError, "out of range"),
    ):
        with pytest.raises(kind) as caught:
            run(body, *args)
        assert type(caught.value) is kind and text in str(caught.value)


def test_identity_and_views():
    x = np.arange(4.0)
    assert run("RETURN r0", x) is x
    assert run("MOVE r2 r0\nRETURN r2", x) is x
    view = run("BUILD r2 2 (r1)\nVIEW_TENSOR r2 r0 r2\nRETURN r2", x, 2)
    assert view.base is x and view.shape == (2,)
    cast = run("LOAD_CONST r2 c4\nCAST_TENSOR r2 r0 r2\nRETURN r2", x, extra=".const dtype float64\n")
    assert cast is not x and cast.base is None


def test_in_place_changes_arrays_and_rebinds_the_rest():
    body = "INPLACE_TENSOR r2 r0 r1 0x8b01\nRETURN r2"
    x = np.arange(3.0)
    assert run(body, x, 1) is x and x.tolist() == [1, 2, 3]
    items = [1]
    assert run(body, items, (2,)) is items and items == [1, 2]
    assert run(body, (1,), (2,)) == (1, 2)
    assert run(body, 5, 2) == 7
    with pytest.raises(np._core._exceptions.UFuncTypeError):
        run(body, np.arange(3), 0.5)


def test_overlapping_arguments():
    memory = np.ones(8)
    body = "INPLACE_TENSOR r0 r0 r2 0x8b03\nBINARY_ADD_TENSOR r3 r0 r1\nRETURN r3"
    result = run("LOAD_CONST r2 c3\n" + body, memory[:4], memory[2:6])
    assert result.tolist() == [4, 4, 3, 3]
    a = np.arange(5)
    run("BUILD r2 2 (r3 r4)\nBUILD r3 2 (r4 r5)\nVIEW_TENSOR r6 r0 r3\nSTORE_TENSOR r0 r2 r6\nRETURN r0".replace(
        "BUILD r2", "LOAD_CONST r3 c2\nLOAD_CONST r4 c0\nLOAD_CONST r5 c4\nBUILD r2", 1), a, extra=".const int -1\n")
    assert a.tolist() == [0, 0, 1, 2, 3]


@pytest.mark.parametrize("kind, dtype, expected", [(1, "float32", np.zeros((2, 3), np.float32)),
                                                   (2, "int8", np.ones((2, 3), np.int8))])
def test_alloc(kind, dtype, expected):
    body = f"LOAD_CONST r2 c4\nLOAD_CONST r3 c5\nALLOC_BUFFER r2 r2 {kind} r3\nRETURN r2"
    assert_same(run(body, 0, extra=f".const tuple (int 2, int 3)\n.const dtype {dtype}\n"), expected)


def test_build():
    got = run("BUILD r2 0 (r0 r1)\nBUILD r3 1 (r0)\nBUILD r4 3 (r0 r1)\nBUILD r5 2 (r0 r1)\nBUILD r6 0 ()\n"
              "BUILD r2 0 (r2 r3 r4 r5 r6)\nRETURN r2", 1, 2)
    assert got == ((1, 2), [1], {1: 2}, slice(1, 2), ())


# --- loops

@pytest.mark.parametrize("stop, expected", [(0, []), (1, [0]), (5, [0, 1, 2, 3, 4]), (-3, [])])
def test_range_loop(stop, expected):
    body = """
BUILD r2 1 ()
LOAD_CONST r3 c1
LOAD_CONST r4 c2
head:
LOOP_RANGE r5 r3 r0 r4 out
CALL_KERNEL r6 0x8a19 (r2 r5)
LOOP_NEXT head
out:
RETURN r2
"""
    assert run(body, stop) == expected
    assert run(body, stop, max_steps=100, max_bytes=10_000) == expected
    with pytest.raises(TypeError):
        run(body, 2.0)


def test_each_loop_walks_the_first_axis():
    body = """
BUILD r2 1 ()
head:
LOOP_EACH r3 r0 out
CALL_KERNEL r6 0x8a19 (r2 r3)
LOOP_NEXT head
out:
RETURN r2
"""
    rows = run(body, X)
    assert len(rows) == 2 and all(np.shares_memory(row, X) for row in rows)
    assert run(body, "ab") == ["a", "b"] and run(body, {"k": 1}) == ["k"] and run(body, np.zeros((0, 3))) == []


def test_break_continue_and_while():
    body = """
LOAD_CONST r2 c1
LOAD_CONST r3 c2
head:
LOOP_WHILE out
BINARY_ADD_TENSOR r2 r2 r3
LOOP_UNTIL_TENSOR_EQ r2 r0 out
COMPARE_TENSOR r4 r2 r1 >=
IF_TRUE r4 more
BREAK out
more:
CONTINUE next
next:
LOOP_NEXT head
out:
RETURN r2
"""
    assert run(body, 4, 100) == 4
    assert run(body, 400, 7) == 7


# --- arguments, captures

def test_defaults_and_counts():
    p = program("BUILD r2 0 (r0 r1)\nRETURN r2")
    assert p.run(1) == (1, None) and p.run(1, 2) == (1, 2)
    with pytest.raises(TypeError, match="misses the argument 'x'"):
        p.run()
    with pytest.raises(TypeError, match="takes 2 arguments, 3 were given"):
        p.run(1, 2, 3)


def test_globals_are_read_at_each_call():
    module = types.ModuleType("prebake_test_globals")
    module.SCALE = 3
    p = program("LOAD_CAPTURE r2 g0\nBINARY_MUL_TENSOR r2 r0 r2\nRETURN r2",
                extra='.capture global "prebake_test_globals" "SCALE"\n')
    with pytest.raises(PrebakeError, match="import prebake_test_globals first"):
        p.run(2)
    sys.modules["prebake_test_globals"] = module
    try:
        assert p.run(2) == 6
        module.SCALE = 4
        assert p.run(2) == 8
        del module.SCALE
        with pytest.raises(NameError, match="name 'SCALE' is not defined"):
            p.run(2)
    finally:
        del sys.modules["prebake_test_globals"]


def test_closures_need_their_function():
    p = program("LOAD_CAPTURE r2 g0\nRETURN r2", extra='.capture closure "m" "k"\n')
    with pytest.raises(PrebakeError, match="'k' from the function that enclosed it"):
        p.run(1)
    assert run_program(p, [1], lambda index: ("capture", index)) == ("capture", 0)


# --- hooks, unbound locals, places of errors

def test_hook_sees_every_instruction_and_may_change_registers():
    p = program("BINARY_ADD_TENSOR r2 r0 r1\nRETURN r2")
    seen = []

    def hook(program, index, registers):
        assert program is p
        seen.append(index)
        if index == 2:
            registers[1] = 40

    assert run_program(p, [2, 3], hook=hook) == 42
    assert seen == [0, 1, 2, 3]


def test_unbound_local():
    source = """
.const UNBOUND
.function "m" "f" "00" "m.py" 7
.line "def f(x, y=None):"
.line "    if y: z = x"
.line "    return z"
"""
    body = """
LOAD_CONST r2 c4 @0:7:1-2
IF_TRUE r1 join @0:8:5-16
MOVE r2 r0 @0:8:11-16
join:
RETURN r2 @0:9:5-13
"""
    made = assemble(HEAD + source + "LOAD_TENSOR r0 p0 @0:7:7-8\nLOAD_TENSOR r1 p1 @0:7:10-11\n" + body)
    made.verify()
    assert made.run(5, True) == 5
    with pytest.raises(UnboundLocalError, match="cannot access local variable 'z' where it is not associated"):
        made.run(5)


def test_error_points_at_the_source_line():
    source = """
.function "m" "outer.<locals>.scale" "00" "model.py" 20
.line "def scale(x, y=None):"
.line "    return x * y"
"""
    made = assemble(HEAD + source + "LOAD_TENSOR r0 p0 @0:20:11-12\nLOAD_TENSOR r1 p1 @0:20:14-15\n"
                    "BINARY_MUL_TENSOR r2 r0 r1 @0:21:12-17\nRETURN r2 @0:21:5-17\n")
    with pytest.raises(ValueError, match="broadcast") as caught:
        made.run(np.ones(2), np.ones(3))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.name) == ("model.py", 21, "scale")
    assert (last.colno, last.end_colno) == (11, 16)
    assert caught.value.__notes__ == ["  in outer.<locals>.scale, model.py:21\n    return x * y"]


def test_limits_point_at_the_source_too():
    case = next(case for case in corpus() if case.name == "create")
    x, _ = case.args()
    with pytest.raises(MemoryLimitError) as caught:
        case.program.run(x, 1000, max_bytes=1 << 20)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    told = "".join([last.filename, last.line or "", *getattr(caught.value, "__notes__", ())])
    assert "msbc_corpus.py" in told and "np.eye(n)" in told


# --- limits

def test_every_kernel_has_a_cost_rule():
    ufunc_methods = {k.name for k in registry.KERNELS if k.id >= 0x9000}
    named = {k.name for k in registry.KERNELS} - ufunc_methods
    assert set(RULES) & set(PLAIN) == set()
    missing, gone = named - set(RULES) - set(PLAIN), (set(RULES) | set(PLAIN)) - named
    assert not missing and not gone, "rule in vm/run/cost_table.py what a limited run thinks that these kernels cost"
    assert {name.rpartition(".")[2] for name in ufunc_methods} == set(UFUNC_METHODS)


def kernel(name: str, n: int, constants: str = "") -> Program:
    """A program that calls a kernel with its first n parameters, or constants c4 and on after the first."""
    id_ = registry.BY_NAME[name].id
    loads, registers = "", ["r0"][:n]
    for i in range(n - 1):
        loads += f"LOAD_CONST r{i + 2} c{i + 4}\n"
        registers.append(f"r{i + 2}")
    return program(f"{loads}CALL_KERNEL r7 {id_} ({' '.join(registers)})\nRETURN r7", constants)


WIDE = ".const tuple (int 1000000, int 1000000)\n"
BIG = ".const int 1000000000000\n"


@pytest.mark.parametrize("name, x, constants", [
    ("np.zeros", (10**6, 10**6), ""), ("np.empty", 10**13, ""), ("np.ones", [10**5] * 3, ""),
    ("np.full", (10**6, 10**6), BIG), ("np.zeros_like", X, ""), ("np.arange", 10**13, ""), ("np.eye", 10**6, ""),
    ("np.identity", 10**6, ""), ("np.tri", 10**6, ""), ("np.diag", np.zeros(10**5), ""),
    ("np.diagflat", np.zeros(10**5), ""), ("np.outer", np.ones(10**5), None), ("np.kron", np.ones(10**5), None),
    ("np.add.outer", np.ones(10**5), None), ("np.repeat", X, BIG), ("arr.repeat", X, BIG), ("np.tile", X, BIG),
    ("np.tile", X, ".const tuple (int 1000000000, int 0)\n"), ("np.pad", X, BIG),
    ("np.pad", X, ".const tuple (int 100000, int 1000000)\n"), ("np.resize", X, BIG), ("np.resize", X, WIDE),
    ("np.linspace", 0.0, BIG + BIG), ("np.geomspace", 1.0, BIG + BIG), ("np.logspace", 0.0, BIG + BIG),
    ("np.indices", (10**6, 10**6), ""), ("np.hanning", 10**12, ""), ("np.triu_indices", 10**6, ""),
    ("np.vander", X[0], BIG), ("np.fft.fft", X, BIG), ("np.fft.fftfreq", 10**12, ""), ("np.fft.fft2", X, WIDE),
    ("np.split", np.zeros(0), BIG), ("np.array_split", np.zeros(3), BIG), ("np.bincount", np.array([10**12]), ""),
    ("np.histogram", X, BIG), ("np.mgrid", slice(0, 10**12), ""), ("np.r_", slice(0, 1, 1e12j), ""),
    ("np.ix_", (np.zeros(3),), ""), ("py.list", range(10**12), ""), ("py.tuple", range(10**12), ""),
    ("py.sum", range(10**12), ""), ("py.sorted", range(10**12), ""), ("py.any", range(10**12), ""),
    ("math.factorial", 10**9, ""), ("math.comb", 10**9, ".const int 500000000\n"), ("math.prod", range(1, 10**6), ""),
    ("op.pow", 10**10, ".const int 10000000000\n"), ("op.lshift", 1, BIG), ("py.pow", 10, BIG), ("op.mul", "ab", BIG),
    ("op.mul", (1, 2), BIG), ("op.mul", [0], BIG), ("op.mod", "%1000000000d", BIG),
    ("py.format", 1, '.const str "1000000000d"\n'), ("py.round", 7, ".const int -1000000000\n"), ("np.diff", X, BIG),
    ("np.linalg.matrix_power", np.eye(300), f".const int {2**60000:#x}\n"), ("np.power", 10, f".const int {2**70}\n"),
    ("np.array", np.ones(1), '.const str "U90000"\n'), ("arr.astype", X, '.const str "O"\n'),
    ("np.bartlett", np.float32(1e12), ""), ("np.kaiser", np.float64(1e12), '.const float 3.0\n'),
    ("np.hanning", np.array(1e12), ""), ("py.round", np.int64(7), ".const int -1000000000\n"),
    ("math.comb", np.int64(10**9), ".const int 500000000\n"), ("math.factorial", np.int64(10**9), ""),
    ("np.repeat", X, ".const tuple (int 1000000000, int 1)\n"),
    ("debug.dump_tensor", X, '.const str "x"\n'),
], ids=lambda value: value if isinstance(value, str) and "." in value[:9] else "")
def test_one_call_cannot_exhaust_memory_or_time(name, x, constants):
    """Stopped by an estimate, before the call: nothing here could come back otherwise."""
    extra = "" if constants is None else constants
    count = 1 + extra.count(".const")
    if name == "np.zeros_like":
        made = program("LOAD_CONST r2 c0\nLOAD_CONST r3 c4\nCALL_KERNEL r7 0x8505 (r0 r2 r2 r2 r3)\nRETURN r7", WIDE)
    elif constants is None:
        made = program(f"CALL_KERNEL r7 {registry.BY_NAME[name].id} (r0 r0)\nRETURN r7")
    elif name == "np.ix_":
        made = program("CALL_KERNEL r7 0x8611 (r0)\nLOAD_CONST r2 c4\nCALL_KERNEL r7 0x852e (r0 r2)\nRETURN r7", BIG)
    else:
        made = kernel(name, count, extra)
    with pytest.raises(LimitError):
        made.run(x, max_steps=5_000, max_bytes=1 << 26)


@pytest.mark.parametrize("body, x", [
    ("BINARY_ADD_TENSOR r2 r0 r1\nRETURN r2", (np.zeros((10**5, 1)), np.zeros((1, 10**5)))),
    ("BINARY_MUL_TENSOR r2 r0 r1\nRETURN r2", ([1, 2], 10**12)),
    ("BINARY_MUL_TENSOR r2 r0 r1\nRETURN r2", (10**12, "x")),
    ("BINARY_MUL_TENSOR r2 r0 r1\nRETURN r2", (np.int64(10**12), [1])),
    ("COMPARE_TENSOR r2 r0 r1 <\nRETURN r2", (np.zeros((10**5, 1)), np.zeros((1, 10**5)))),
    ("COMPARE_TENSOR r2 r1 r0 in\nRETURN r2", (range(10**12), 0.5)),
    ("SELECT_TENSOR r2 r0 r1 r1\nRETURN r2", (np.zeros((10**5, 1), bool), np.zeros((1, 10**5)))),
    ("VIEW_TENSOR r2 r0 r1\nRETURN r2", (np.zeros((2, 10**4)), np.zeros(10**6, int))),
    ("LOAD_CONST r2 c0\nALLOC_BUFFER r2 r0 1 r2\nRETURN r2", ((10**6, 10**6), 0)),
    ("CALL_KERNEL r2 0x8001 (r0 r1)\nRETURN r2", (np.zeros((10**6, 0)), np.zeros((0, 10**6)))),
    ("CALL_KERNEL r2 0x8001 (r0 r1)\nRETURN r2", (np.zeros((3000, 3000), int), np.zeros((3000, 3000), int))),
    ("INPLACE_TENSOR r2 r0 r1 0x8b07\nRETURN r2", (10**10, 10**10)),
    ("INPLACE_TENSOR r2 r0 r1 0x8b08\nRETURN r2", (1, 10**11)),
    ("INPLACE_TENSOR r2 r0 r1 0x8b03\nRETURN r2", ([1], 10**11)),
    (f"CALL_KERNEL r2 {registry.BY_NAME['np.ndindex'].id} (r0)\nRETURN r2", ((0, 10**9), 0)),
    (f"CALL_KERNEL r2 {registry.BY_NAME['op.matmul'].id} (r0 r1)\nRETURN r2", ([(None, 1)], np.ones(2))),
    (f"CALL_KERNEL r2 {registry.BY_NAME['np.matmul'].id} (r0 r1)\nRETURN r2", ([[None, 1]], [[1], [1]])),
    ("BINARY_ADD_TENSOR r2 r0 r1\nRETURN r2", ([None, "a"], np.ones(2))),
])
def test_operators_are_estimated_too(body, x):
    with pytest.raises(LimitError):
        run(body, *x, max_steps=5_000, max_bytes=1 << 26)


SPIN = """
LOAD_CONST r2 c2
head:
LOOP_WHILE out
LOOP_TEST r2 out
%s
LOOP_NEXT head
out:
RETURN r0
"""


@pytest.mark.parametrize("body, kind", [
    ("BINARY_ADD_TENSOR r3 r0 r0", StepLimitError),
    ("BINARY_ADD_TENSOR r1 r1 r2", StepLimitError),
    ("INPLACE_TENSOR r1 r1 r1 0x8b01", LimitError),  # an int that doubles
    ("BUILD r0 0 (r0 r0)", MemoryLimitError),  # a tuple that doubles
    ("CALL_KERNEL r3 0x8522 (r4)\nBUILD r4 0 (r3 r3)", MemoryLimitError),
    ("CALL_KERNEL r3 0x8a19 (r5 r0)\nCALL_KERNEL r3 0x8a1a (r5 r5)", LimitError),
])
def test_loops_end_at_a_limit(body, kind):
    start = "BUILD r4 0 (r0 r0)\nBUILD r5 1 (r0)\n"
    # the test register is not one constant throughout, or the verifier would refuse the loop
    made = program(start + SPIN.replace("LOAD_CONST r2 c2", "LOAD_CONST r2 c1\nLOAD_CONST r2 c2") % body)
    with pytest.raises(kind):
        made.run(np.ones((4, 4)), 3, max_steps=20_000, max_bytes=1 << 22)


def test_a_list_cannot_be_extended_by_its_own_iterator():
    made = program("BUILD r2 1 (r0)\nCALL_KERNEL r3 0x8a03 (r2)\nCALL_KERNEL r4 0x8a1a (r2 r3)\nRETURN r2")
    assert len(made.run(1, max_steps=100, max_bytes=10_000)) == 2


def test_live_bytes_are_counted_not_all_that_was_ever_allocated():
    body = "LOAD_CONST r3 c1\nLOAD_CONST r4 c2\nhead:\nLOOP_RANGE r5 r3 r1 r4 out\nBINARY_ADD_TENSOR r6 r0 r0\n" \
           "LOOP_NEXT head\nout:\nRETURN r0"
    x = np.zeros(1 << 14)
    assert run(body, x, 100, max_bytes=1 << 20) is x  # 100 results of 128 KB, one alive at a time
    with pytest.raises(MemoryLimitError):
        run(body, x, 100, max_bytes=1 << 16)


def test_step_limit_counts_instructions_and_work():
    p = program("MOVE r2 r0\nMOVE r2 r0\nRETURN r2")
    assert p.run(1, max_steps=5) == 1
    with pytest.raises(StepLimitError):
        p.run(1, max_steps=4)
    q = program("BINARY_ADD_TENSOR r2 r0 r0\nRETURN r2")
    assert q.run(np.zeros(10), max_steps=4).shape == (10,)
    with pytest.raises(StepLimitError):
        q.run(np.zeros(10**6), max_steps=20)


def test_limits_do_not_touch_the_arguments_account():
    """Arguments and captures belong to the caller: only what the program makes counts."""
    x = np.zeros(1 << 20)
    assert run("BUILD r2 2 (r1)\nVIEW_TENSOR r2 r0 r2\nREDUCE_SUM_TENSOR r2 r2 r3 0\nRETURN r2".replace(
        "BUILD", "LOAD_CONST r3 c0\nBUILD", 1), x, None, max_bytes=1 << 24) == 0


@pytest.mark.parametrize("name", ["__class__", "ctypes", "flags", "data", "tobytes"])
def test_limited_runs_read_data_attributes_only(name):
    made = assemble(HEAD + f'.const str "{name}"\nLOAD_TENSOR r0 p0\nLOAD_ATTR r1 r0 c4\nRETURN r1\n')
    with pytest.raises(LimitError):
        made.run(X, max_steps=10)


def test_objects_are_not_run_under_limits():
    with pytest.raises(LimitError):
        run("BINARY_ADD_TENSOR r2 r0 r0\nRETURN r2", np.array([10**50], dtype=object), max_steps=10)


def test_arguments_are_not_changed_by_estimating():
    case = next(case for case in corpus() if case.name == "structure")
    args = case.args()
    before = copy.deepcopy(args)
    case.program.run(*args, max_steps=5000, max_bytes=1 << 20)
    assert repr(args) == repr(before)


def test_floating_point_warnings_are_silent(recwarn):
    assert np.isinf(run("BINARY_DIV_TENSOR r2 r0 r1\nRETURN r2", np.ones(2), np.zeros(2))).all()
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]
