"""Source digests: formatting does not change them, meaning does; text alone gives the same as a live function."""

from __future__ import annotations

import argparse
import ast
import collections
import difflib
import importlib.util
import inspect
import linecache
import os
import shutil
import subprocess
import textwrap
from types import FunctionType

import numpy as np
import pytest

from prebake.vm.errors import UnsupportedError
from prebake.vm.lang.source import (
    function_digest,
    function_digests,
    literal_constants,
    load_source,
    module_name,
    normal_form,
)

PLAIN = '''
SCALE = 2.0
SHAPE = (1,
         2)
COMPUTED = SCALE * 2


def f(x, y=1):
    """Doc."""
    # comment
    z = (x + y) * SCALE
    return z.reshape(SHAPE) + COMPUTED
'''

REFORMATTED = '''
SCALE = 2.0  # other comment
SHAPE = (1, 2)
COMPUTED = SCALE * 2
@some.decorator(option=1)
def f( x: int,
       y = 1 ) -> int :
    z=((x+y)*SCALE)

    return (z.reshape(
        SHAPE)
        + COMPUTED)
'''


def load(tmp_path, text, name="source_module"):
    """A module from a text."""
    file = tmp_path / f"{name}.py"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    linecache.checkcache(str(file))
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, file.read_text(encoding="utf-8")


def test_formatting_comments_docstrings_decorators_annotations_do_not_count():
    assert function_digest(PLAIN, "f") == function_digest(REFORMATTED, "f")


@pytest.mark.parametrize("old, new", [
    ("x + y", "x - y"), ("y=1", "y=1.0"), ("y=1", "y=True"), ("SCALE = 2.0", "SCALE = 3.0"), ("    2)", "    3)"),
    ("z.reshape", "z.resize"), ("def f(x, y", "def f(x, *, y"),
])
def test_meaning_counts(old, new):
    assert old in PLAIN
    assert function_digest(PLAIN, "f") != function_digest(PLAIN.replace(old, new), "f")


def test_computed_and_unnamed_constants_do_not_count():
    assert function_digest(PLAIN, "f") == function_digest(PLAIN.replace("SCALE * 2", "SCALE * 4"), "f")
    assert function_digest(PLAIN, "f") == function_digest("OTHER = 5\n" + PLAIN, "f")


def test_literal_constants_are_the_last_assignment_of_the_module():
    text = "A = 1\nB: float = -2.5\nC = [1]\nD = 'x'\nA = 3\nE = (1, (2, None))\nF = A\nA == 2\ndef f():\n" \
           "    return A, B, C, D, E, F\n    A_ = 1\n"
    node = ast.parse(text).body[-1]
    assert literal_constants(node, text) == {"A": 3, "B": -2.5, "D": "x", "E": (1, (2, None))}


MANY = '''
import functools
LIMIT = 3

def plain(x):
    return x + LIMIT

@functools.lru_cache(
    maxsize=None)
def decorated(x):

    if x:
        return 1
    """a string
at column 0"""
    return 2

class A:
    class B:
        def method(self, x):
            text = """
not indented
"""
            return x

        @staticmethod
        def fixed(x):
            return x * 2

    @property
    def value(self):
        return 1

def outer(n):
    def inner(x):
        return x * n
    return inner

def ends_dead(x):
    return x
    x = 5
    return x

square = lambda x: x * x
pair = (lambda x: x + 1, lambda x: x + 2)
call = dict(key=lambda x:
            x + 3)

if LIMIT > 2:
    def either(x):
        return 1
else:
    def either(x):
        return 2
'''


def test_live_functions_and_text_agree(tmp_path):
    module, text = load(tmp_path, MANY)
    live = [module.plain, module.decorated.__wrapped__, module.A.B.method, module.A.B.fixed, module.A.value.fget,
            module.outer, module.outer(2), module.ends_dead]
    for fn in live:
        source = load_source(fn)
        assert source.digest == function_digest(text, fn.__qualname__), fn.__qualname__
        assert source.lines[0] == text.splitlines()[source.first_line - 1]
        assert source.module == "source_module" and source.file == "source_module.py"
    for fn in (module.square, *module.pair, module.call["key"]):
        assert load_source(fn).digest in function_digests(text, "<lambda>")
    assert ast.unparse(load_source(module.pair[1]).node) == "lambda x: x + 2"
    assert load_source(module.either).digest in function_digests(text, "either")
    assert len(set(function_digests(text, "either"))) == 2


def test_lines_hold_the_whole_function(tmp_path):
    module, _ = load(tmp_path, MANY)
    assert load_source(module.decorated.__wrapped__).lines[-1] == "    return 2"
    assert load_source(module.ends_dead).lines[-1] == "    return x"
    assert len(load_source(module.ends_dead).lines) == 4
    assert load_source(module.A.B.method).lines[-1].strip() == "return x"


def test_positions_are_those_of_the_file(tmp_path):
    module, text = load(tmp_path, MANY)
    source = load_source(module.A.B.method)
    returns = [n for n in ast.walk(source.node) if isinstance(n, ast.Return)]
    line = text.splitlines()[returns[0].lineno + source.line_shift - 1]
    assert line[returns[0].col_offset:] == "return x"


def test_unknown_names_are_lookup_errors():
    with pytest.raises(LookupError):
        function_digest(PLAIN, "g")
    assert function_digests(PLAIN, "f.<locals>.g") == ()


def test_edited_files_are_refused(tmp_path):
    module, _ = load(tmp_path, "def f(x):\n    return x\n", "edited_module")
    (tmp_path / "edited_module.py").write_text("def g(y, z):\n    return y\n")
    linecache.checkcache(str(tmp_path / "edited_module.py"))
    with pytest.raises(UnsupportedError, match="edited after it was imported"):
        load_source(module.f)


def test_functions_of_a_script_carry_its_stem(tmp_path):
    module, _ = load(tmp_path, "def f(x):\n    return x\n", "a_script")
    module.f.__module__ = "__main__"
    assert module_name(module.f) == "a_script"


def test_normal_form_is_written_out():
    node = ast.parse("def f(a, b=2):\n    'doc'\n    return -a[b:]\n").body[0]
    assert normal_form(node) == (
        "(FunctionDef 'f'(arguments[][(arg 'a')(arg 'b')] None[][] None[(Constant 2)])"
        "[(Return(UnaryOp(USub)(Subscript(Name 'a')(Slice(Name 'b') None None))))])")


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_digests_are_equal_on_other_pythons(version, tmp_path):
    python = shutil.which(f"python{version}")
    program = "import sys\n" \
              "from prebake.vm.lang.source import function_digest\n" \
              "print(function_digest(open(sys.argv[1]).read(), sys.argv[2]))\n"
    if python is None:
        pytest.skip(f"no python{version} here")
    import prebake.vm.lang.source as here

    root = here.__file__.split("/prebake/")[0]
    file = tmp_path / "text.py"
    file.write_text(MANY + PLAIN + "def g(x):\n    raise ValueError(f'{x!r:>{3}} {x=} a{{b}}')\n")
    for name in ("f", "A.B.method", "g"):
        done = subprocess.run([python, "-c", program, str(file), name], capture_output=True, text=True,
                              env={"PYTHONPATH": root, "PATH": "/usr/bin"}, cwd=tmp_path)
        if "No module named 'numpy'" in done.stderr:
            pytest.skip(f"python{version} has no NumPy")
        if done.returncode and ("not installed" in done.stderr or "command not found" in done.stderr):
            pytest.skip(done.stderr.strip().splitlines()[0])
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == function_digest(file.read_text(), name)


@pytest.mark.parametrize(("ran", "now"), [
    ("x * 0.5", "x * 0.25"), ("x + y", "x - y"), ("x.sum()", "x.max()"), ("-x", "+x"), ("x < y", "x > y"),
    ("(lambda z: z * 2)(x)", "(lambda z: z * 3)(x)"), ("x.reshape('C')", "x.reshape('F')"), ("x * 1", "x * 1.0"),
    ("x[:, 1]", "x[:, 2]"), ("x - y", "y - x"), ("x[:2]", "x[2:]"), ("(x + y) * x", "x + y * x"), ("x and y", "x or y"),
    ("x if y else 2", "2 if y else x"), ("x if y else 2", "x if not y else 2"), ("[a - y for a in x]", "[y - a for a in x]"),
    ("(lambda a: a - y)(x)", "(lambda a: y - a)(x)"), ("np.where(x, y, x)", "np.where(x, x, y)"), ("[x, y]", "[y, x]"),
    ("x.add(x, y, out=x)", "x.add(y, x, out=y)")])
def test_a_file_that_was_edited_since_is_not_its_source(tmp_path, ran, now):
    """The text is read when the function is called first: what runs may be older."""
    text = "def f(x, y):\n    {}\n    return {}\n"
    f = load(tmp_path, text.format('"""Doc."""', ran))[0].f
    load_source(f)
    g = load(tmp_path, text.format('"""Doc."""', ran))[0].f
    (tmp_path / "source_module.py").write_text(text.format('"""Doc."""', now))
    with pytest.raises(UnsupportedError, match="edited after it was imported") as caught:
        load_source(g)
    assert "again" in caught.value.hint
    (tmp_path / "source_module.py").write_text("# moved\n\n" + text.format('"""Another one."""', f"({ran})  # the same"))
    assert load_source(g).node.name == "f"


def test_a_statement_that_left_a_loop_is_an_edit(tmp_path):
    text = "def f(x):\n    for i in x:\n        x = i\n{}        x = x + 1\n    return x\n"
    g = load(tmp_path, text.format(""))[0].f
    (tmp_path / "source_module.py").write_text(text.format("").replace("        x = x + 1", "    x = x + 1"))
    with pytest.raises(UnsupportedError, match="edited after it was imported"):
        load_source(g)


def test_what_was_not_edited_is_read(tmp_path):
    """Functions as people write them: methods, private names, closures, calls through modules and other imported names."""
    functions: set[FunctionType] = set()
    for module in (argparse, ast, collections, difflib, inspect, textwrap, np.linalg, np.polynomial.polynomial):
        for value in vars(module).values():
            found = vars(value).values() if isinstance(value, type) else (value,)
            functions |= {f for f in (getattr(v, "__func__", v) for v in found) if isinstance(f, FunctionType)}
    text = """
        import math
        from math import tau as config
        SCALE = 2.0
        def outer(a, b):
            class Layer:
                def __init__(self):
                    self.__k = a
                def run(self, x):
                    super().__init__()
                    return [self.__k * v + math.floor(config) * b for v in x] and (lambda z: z + self.__k - b)
                @staticmethod
                def fixed(x): return x.reshape(SCALE.real) + config.real
            return Layer
        Layer = outer(1, 2)
        first, second = (lambda x: x + 1), lambda x: x.sum(math.pi)
    """
    module, _ = load(tmp_path, text)
    functions |= {module.Layer.run, module.Layer.fixed, module.first, module.second, module.Layer().run([1])}
    has_text = [f for f in functions if os.path.exists(f.__code__.co_filename)]
    assert len(has_text) > 500
    refused = []
    for function in has_text:
        try:
            load_source(function)
        except UnsupportedError as error:
            refused.append((function.__qualname__, str(error).partition("\n")[0]))
    assert [name for name, why in refused if "edited" in why] == []


def test_a_module_that_was_edited_and_imported_again_is_read_again(tmp_path):
    import importlib
    import sys

    sys.path.insert(0, str(tmp_path))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        for factor in ("0.5", "0.25"):
            (tmp_path / "source_again.py").write_text(f"def f(x):\n    return x * {factor}\n")
            module = importlib.reload(sys.modules["source_again"]) if "source_again" in sys.modules else \
                importlib.import_module("source_again")
            assert f"x * {factor}" in load_source(module.f).text
    finally:
        sys.dont_write_bytecode = before
        sys.path.remove(str(tmp_path))
        sys.modules.pop("source_again", None)


def test_what_surrounds_a_function_does_not_change_what_it_says(tmp_path):
    """Closures, nonlocal, private names, annotations, asserts: the text by itself compiles to other code."""
    module, _ = load(tmp_path, '''
        from __future__ import annotations
        import functools

        def outer(scale):
            count = 0
            def inner(x: "Array", *, k: int = 3) -> "Array":
                nonlocal count
                def deeper(y: Array = None) -> Array:
                    return y * scale
                return deeper(x) + k
            return inner, lambda x: x * scale - 1

        class Model:
            __slots__ = ("__w",)
            def step(self, x):
                assert x is not None, "x"
                return super().__eq__(x) or self.__w * x

        @functools.lru_cache(maxsize=7)
        def cached(x):
            return x * 2
    ''')
    inner, plain = module.outer(2.0)
    for function in (inner, plain, module.Model.step, module.cached.__wrapped__):
        assert load_source(function).text


def test_classes_inside_functions_and_super_in_every_form(tmp_path):
    """Python 3.13 keeps a class's line in its code; super() is another instruction where its module mentions the name."""
    text = '''
        class Base:
            def step(self, /, x=1, **more): return x

        class Model(Base):
            def step(self, /, x=1, **more):
                """Documented."""
                return super().step(x, **more)
            def two(self, x, /):
                return [super(Model, self).step(y) for y in (x, super().step(x))]
            def inner(self, x, /):
                def deeper(): return __class__, super(Model, self).step(x)
                return deeper

        def local(x):
            """Documented."""

            class Inner:
                """Documented."""
                k: int = 3
                def step(self, /): return self.k + x

            class Other(Inner):
                def step(self, /): return super().step()
            return Other
    '''
    for more in ("", "        plain = super\n"):
        module, _ = load(tmp_path, text + more, name=f"supers{len(more)}")
        methods = [module.Model.step, module.Model.two, module.Model.inner, module.Base.step, module.local,
                   module.local(1).step, module.local(1).__mro__[1].step, module.Model().inner(1)]
        for function in methods:
            assert load_source(function).text


def test_functions_of_comprehensions_are_found_again():
    text = "def f(n):\n    return [lambda x: x * 2 for i in range(n)], {i: (lambda y: y + i) for i in range(n)}\n"
    assert len(function_digests(text, "f.<locals>.<listcomp>.<lambda>")) == 2
    assert function_digests(text, "f.<locals>.<lambda>") == function_digests(text, "f.<locals>.<dictcomp>.<lambda>")
