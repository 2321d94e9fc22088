"""The frontend: programs do what Python does, shown code, refusals with their places."""

from __future__ import annotations

import copy
import importlib.util
import linecache
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from prebake.vm.errors import UnsupportedError, VerifyError
from prebake.vm.lang.bytecode import Program
from prebake.vm.lang.frontend import REFUSALS, compile_function, render_refusals
from prebake.vm.lang.source import module_name
from prebake.vm.lang.verifier import check_program
from prebake.vm.run.interpreter import run_program

HERE = Path(__file__).parent
CASES = HERE / "cases" / "frontend"


def load(path: Path, name: str):
    """A module from a file, registered so that its functions find it."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


table = load(CASES / "table.py", "frontend_table")
expressions, statements, functions, _ = [load(CASES / f"{name}.py", f"frontend_{name}") for name in (
    "expressions", "statements", "functions", "whole_programs")]


def interpret(fn, args, program: Program | None = None):
    """Run a function's program in the interpreter with captures read as a dispatcher does."""
    program = program or compile_function(fn)
    check_program(program)
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    own = module_name(fn)

    def read(index: int) -> object:
        capture = program.captures[index]
        if capture.scope == "closure":
            return cells[capture.name].cell_contents
        scope = fn.__globals__ if capture.module == own else vars(sys.modules[capture.module])
        return scope[capture.name]

    return run_program(program, args, read)


def outcome(call):
    """('value', result) or ('error', type) of a call."""
    try:
        with np.errstate(all="ignore"):
            return "value", call()
    except Exception as error:
        return "error", type(error)


def assert_same(a, b, path="result"):
    """Equal values of equal types, bit for bit."""
    assert type(a) is type(b), f"{path}: {type(a)} is not {type(b)}"
    if isinstance(a, np.ndarray | np.generic):
        assert a.dtype == b.dtype and a.shape == b.shape, f"{path}: {a.dtype}{a.shape} is not {b.dtype}{b.shape}"
        assert a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"), path
        assert a.strides == b.strides, f"{path}: strides"
    elif isinstance(a, tuple | list):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{path}[{i}]")
    elif isinstance(a, dict):
        assert list(a) == list(b), path
        for key in a:
            assert_same(a[key], b[key], f"{path}[{key!r}]")
    elif hasattr(a, "__dict__") and not isinstance(a, type):
        assert_same(vars(a), vars(b), path)
    else:
        assert a == b or (a != a and b != b), f"{path}: {a!r} is not {b!r}"
        assert repr(a) == repr(b), path


@pytest.mark.parametrize("number", range(len(table.CASES)),
                         ids=[f"{fn.__qualname__.rpartition('.')[2]}-{i}" for i, (fn, _) in enumerate(table.CASES)])
def test_programs_do_what_python_does(number):
    fn, args = table.CASES[number]
    program = compile_function(fn)
    assert Program.from_bytes(program.to_bytes()).to_bytes() == program.to_bytes()
    theirs, ours = table.arguments(args), table.arguments(args)
    want = outcome(lambda: fn(*theirs))
    got = outcome(lambda: interpret(fn, ours, program))
    assert_same(got, want)
    assert_same(ours, theirs, "arguments")


def test_compiling_twice_gives_the_same_bytes():
    for fn, _ in table.CASES:
        assert compile_function(fn).to_bytes() == compile_function(fn).to_bytes()


def test_errors_raised_in_programs_carry_their_text():
    with pytest.raises(ValueError, match=r"n is -3, {3}-3, and must not be negative"):
        interpret(statements.raises, [-3])


# --- random control flow

control_flow = load(CASES / "control_flow.py", "frontend_control_flow")


def run_random(seed: int) -> str:
    """'same', or the kind of refusal, of one random program; fails when Python and the program differ."""
    text, name = control_flow.source(seed), f"<control-flow-{seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict = {"__name__": "control_flow_case"}
    exec(compile(text, name, "exec"), scope)
    try:
        program = compile_function(scope["f"])
        check_program(program)
    except UnsupportedError as error:
        assert error.kind == "unknown-name", f"seed {seed}: {error}"  # a name that only a comprehension binds
        return error.kind
    except VerifyError as error:
        assert all(" of None" in fault for fault in error.faults), f"seed {seed}:\n{text}\n{error}"
        return "none"
    finally:
        del linecache.cache[name]
    for args in ((0, 1), (3, -2), (7, 5)):
        want = outcome(lambda: scope["f"](*args))  # noqa: B023 - called at once
        got = outcome(lambda: run_program(program, args, max_steps=200_000))  # noqa: B023
        if want[0] == got[0] == "error" and {want[1], got[1]} <= {NameError, UnboundLocalError}:
            continue  # which of the two a comprehension raises depends on Python's version
        assert want == got, f"seed {seed}, arguments {args}:\n{text}"
    return "same"


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_random_control_flow(start):
    results = [run_random(seed) for seed in range(start, start + 100)]
    assert results.count("same") > 60


@pytest.mark.slow
def test_much_random_control_flow():
    results = [run_random(seed) for seed in range(10_000, 30_000)]
    assert results.count("same") > 12_000


# --- shown code

GOLDEN = sorted(CASES.glob("*.txt"))


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_golden_bytecode(path, tmp_path):
    """`# python` source, then `# code`: one line an instruction, as the disassembler names it, without positions."""
    source, _, expected = path.read_text().partition("# code\n")
    file = tmp_path / f"golden_{path.stem}.py"
    file.write_text(source.removeprefix("# python\n"))
    module = load(file, file.stem)
    program = compile_function(module.f)
    check_program(program)
    assert list_code(program) == expected.strip().splitlines()


def list_code(program: Program) -> list[str]:
    """Instructions without addresses, positions and comments."""
    lines = []
    for line in program.disassemble().splitlines():
        if line.startswith("0x"):
            code, _, comment = line.partition(";")
            words = code.partition("@")[0].split()
            lines.append(" ".join(words) + (f" ; {comment.strip()}" if comment.strip() else ""))
    return lines


# --- refusals

def compile_text(tmp_path: Path, body: str):
    """Compile the function `f` of a source text."""
    file = tmp_path / "refused_module.py"
    file.write_text("import math\nimport random\nimport numpy as np\nGLOBAL = 1\n\n\n" + textwrap.dedent(body))
    module = load(file, "refused_module")
    linecache.checkcache(str(file))
    return compile_function(module.f)


REFUSED = [
    ("yield", "def f(x):\n    yield x\n", "def"),
    ("async", "async def f(x):\n    return x\n", "async"),
    ("global", "def f(x):\n    global GLOBAL\n    GLOBAL = x\n", "global"),
    ("nonlocal", "def make():\n    n = 0\n    def f(x):\n        nonlocal n\n        n = x\n    return f\nf = make()\n",
     "nonlocal"),
    ("try", "def f(x):\n    try:\n        return x\n    except ValueError:\n        return 0\n", "try"),
    ("with", "def f(x):\n    with open('a') as h:\n        return x\n", "open"),
    ("class", "def f(x):\n    class A:\n        pass\n    return x\n", "class"),
    ("import", "def f(x):\n    import nowhere_at_all\n    return x\n", "import"),
    ("match", "def f(x):\n    match x:\n        case [1, 2]:\n            return 2\n    return 3\n", "match"),
    ("set", "def f(x):\n    return {1, 2}\n", "{1"),
    ("set", "def f(x):\n    return set(x)\n", "set("),
    ("set", "def f(x):\n    return {i for i in x}\n", "{i"),
    ("generator", "def f(x):\n    g = (i for i in x)\n    return g\n", "(i for"),
    ("generator", "def f(x):\n    return np.sum(i for i in x)\n", "(i for i"),
    ("f-string", "def f(x):\n    y = f'{x}'\n    return 1\n", "f'"),
    ("string", "def f(x):\n    return 'text'\n", "'text'"),
    ("string", "def f(x):\n    return x + 'a'\n", "'a'"),
    ("string", "def f(x):\n    return x.astype('U3')\n", "'U3'"),
    ("bytes", "def f(x):\n    return b'a'\n", "b'a'"),
    ("star-args", "def f(x):\n    return np.add(*x)\n", "*x"),
    ("star-args", "def g(a):\n    return a\ndef f(x):\n    return g(**x)\n", "x)"),
    ("star-params", "def f(*x):\n    return x\n", "x"),
    ("recursion", "def f(x):\n    return f(x)\n", "f(x)"),
    ("recursion", "def g(x):\n    return h(x)\ndef h(x):\n    return g(x)\ndef f(x):\n    return g(x)\n", "g(x)"),
    ("unknown-function", "def f(x):\n    return nowhere(x)\n", "nowhere"),
    ("unknown-function", "def f(x):\n    return np.apply_along_axis(np.sum, 0, x)\n", "np.apply"),
    ("unknown-function", "def f(x):\n    return math(x)\n", "math"),
    ("unknown-name", "def f(x):\n    return nowhere + x\n", "nowhere"),
    ("unknown-name", "def f(x):\n    return np.no_such_name\n", "np.no"),
    ("unknown-method", "def f(x):\n    return x.frobnicate()\n", "x.frob"),
    ("keyword", "def f(x):\n    return np.sum(x, like=1)\n", "1)"),
    ("keyword", "def f(x):\n    return np.exp(x, subok=False)\n", "False"),
    ("call-arguments", "def f(x):\n    return np.exp(x, x, x, x, x, x, x)\n", "np.exp"),
    ("call-arguments", "def f(x):\n    return np.reshape(x)\n", "np.reshape"),
    ("call-arguments", "def g(a):\n    return a\ndef f(x):\n    return g(x, x)\n", "g("),
    ("call-arguments", "def g(a, b):\n    return a\ndef f(x):\n    return g(x)\n", "g("),
    ("call-arguments", "def g(a):\n    return a\ndef f(x):\n    return g(x, c=1)\n", "1)"),
    ("attribute-store", "def f(x):\n    np.a = 1\n", "np.a"),
    ("attribute-store", "def f(x):\n    np.a += 1\n", "np.a"),
    ("delete", "def f(x):\n    del x[0]\n", "x[0]"),
    ("print", "def f(x):\n    print(x)\n", "print"),
    ("random", "def f(x):\n    return np.random.rand(3)\n", "np.random"),
    ("random", "def f(x):\n    return random.random()\n", "random.random"),
    ("function-value", "def f(x):\n    g = [np.sin]\n    return g\n", "np.sin"),
    ("function-value", "def f(x):\n    return lambda y: y\n", "lambda"),
    ("dynamic-call", "def f(x):\n    return x[0](1)\n", "x[0]"),
    ("dynamic-call", "def f(x, g):\n    return g(x)\n", "g(x)"),
    ("class-call", "class A:\n    pass\ndef f(x):\n    return A(*x)\n", "A(*x)"),
    ("raise", "def f(x):\n    raise\n", "raise"),
    ("raise", "class E(Exception):\n    pass\ndef f(x):\n    raise E('a')\n", "raise"),
    ("default-value", "def f(x, y=[]):\n    return x\n", "y=[]"),
    ("decorator", "import functools\ndef f(x):\n    @functools.cache\n    def g(y):\n        return y\n"
     "    return g(x)\n", "functools"),
    ("super", "def f(x):\n    return super()\n", "super"),
    ("helper-closure", "def make(n):\n    def g(x):\n        return x + n\n    return g\n"
     "class T:\n    g = staticmethod(make(2))\ndef f(x):\n    return T.g(x)\n", "n"),
    ("special-attribute", "def f(x):\n    return x.__class__\n", "x.__class__"),
    ("special-attribute", "def f(x):\n    return getattr(x, '__dict__')\n", "getattr"),
    ("class-attribute", "from dataclasses import dataclass\n@dataclass\nclass A:\n    n: int = 1\n    @classmethod\n"
     "    def g(cls):\n        return cls.n\n    def f(self, x):\n        return self.g()\nf = A.f\n", "cls.n"),
]


@pytest.mark.parametrize("kind, body, at", REFUSED, ids=[f"{k}-{i}" for i, (k, _, _) in enumerate(REFUSED)])
def test_refusals_name_kind_and_place(kind, body, at, tmp_path):
    with pytest.raises(UnsupportedError) as caught:
        compile_text(tmp_path, body)
    error = caught.value
    assert error.kind == kind, str(error)
    text = (tmp_path / "refused_module.py").read_text().splitlines()[error.line - 1]
    assert error.source == text
    assert text[error.column - 1:].startswith(at), str(error)
    assert error.hint and error.file.endswith("refused_module.py")
    assert "^" in str(error)


def test_refusals_in_a_helper_point_into_the_helper(tmp_path):
    with pytest.raises(UnsupportedError) as caught:
        compile_text(tmp_path, "def g(a):\n    b = 1\n    return {a}\ndef f(x):\n    return g(x)\n")
    assert caught.value.line == 9
    assert caught.value.source == "    return {a}"


def test_columns_are_characters(tmp_path):
    with pytest.raises(UnsupportedError) as caught:
        compile_text(tmp_path, "def f(x):\n    äöü = 1; return äöü + {x}\n")
    error = caught.value
    assert error.source[error.column - 1:] == "{x}"


def test_every_kind_has_an_example_or_a_reason():
    tested = {kind for kind, _, _ in REFUSED}
    elsewhere = {"no-source", "not-a-function", "too-large", "tensor"}
    assert set(REFUSALS) - tested == elsewhere


def test_the_documents_list_the_table():
    page = HERE.parent / "docs" / "unsupported.md"
    assert page.read_text(encoding="utf-8") == render_refusals()


def test_no_source_is_refused():
    scope: dict = {}
    exec("def f(x):\n    return x\n", scope)
    with pytest.raises(UnsupportedError) as caught:
        compile_function(scope["f"])
    assert caught.value.kind == "no-source"


def test_only_functions_are_compiled():
    with pytest.raises(UnsupportedError) as caught:
        compile_function(np.sin)
    assert caught.value.kind == "not-a-function"


# --- what a program holds

def test_helpers_are_listed_with_their_modules():
    program = compile_function(functions.helpers)
    names = [f.qualname for f in program.functions]
    assert names == ["helpers", "shift", "accumulate", "nothing"]
    assert {f.module for f in program.functions} == {"frontend_functions"}
    assert program.name == "frontend_functions:helpers"
    for position in program.positions:
        function = program.functions[position.function]
        line = function.lines[position.line - function.first_line]
        assert len(line) >= position.column


def test_globals_are_read_again():
    program = compile_function(functions.globals_)
    assert [c.name for c in program.captures] == ["SCALE", "OFFSETS", "TABLE", "UNTYPED"]
    x = np.ones(4, np.float32)
    before = functions.SCALE
    try:
        functions.SCALE = 10.0
        assert_same(interpret(functions.globals_, [x], program), functions.globals_(x))
    finally:
        functions.SCALE = before


def test_helpers_read_the_globals_of_their_own_module(tmp_path):
    (tmp_path / "helper_home.py").write_text("GLOBAL = 5\ndef help(x):\n    return x * GLOBAL\n")
    load(tmp_path / "helper_home.py", "helper_home")
    file = tmp_path / "helper_user.py"
    file.write_text("import helper_home\nfrom helper_home import help\nGLOBAL = 7\n"
                    "def f(x):\n    return help(x) + GLOBAL + helper_home.GLOBAL\n")
    user = load(file, "helper_user")
    program = compile_function(user.f)
    assert {(c.module, c.name) for c in program.captures} == {("helper_home", "GLOBAL"), ("helper_user", "GLOBAL")}
    assert interpret(user.f, [2], program) == user.f(2) == 22


def test_shape_symbols_name_parameters():
    program = compile_function(expressions.shape_reference)
    assert "x.shape[0]" in program.symbols
    assert copy.deepcopy(program) == program


def test_types_as_defaults_are_dtypes():
    def f(x, dtype=np.float32):
        return x.astype(dtype)

    program = compile_function(f)
    assert program.constants[program.params[1].default] == np.dtype(np.float32)
    assert run_program(program, [np.ones(2)]).dtype == np.float32


def test_deep_nesting_is_refused(tmp_path):
    file = tmp_path / "deep_module.py"
    file.write_text("def f(x):\n    return " + "x + " * 1500 + "x\n")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(30_000)
    try:
        module = load(file, "deep_module")
    finally:
        sys.setrecursionlimit(limit)
    with pytest.raises(UnsupportedError) as caught:
        compile_function(module.f)
    assert caught.value.kind == "too-large"
