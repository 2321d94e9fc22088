"""Records written out for the compiled planner: the same classes as `record` makes."""

from __future__ import annotations

import ast
import dataclasses
import pickle
import sys
import types
from pathlib import Path

import pytest

from prebake.templates import native
from prebake.templates.records import replace
from prebake.vm import plan
from prebake.vm.plan import extents, steps

FOLDER = Path(plan.__file__).parent
TEXT = '''"""A module."""

from __future__ import annotations

from prebake.templates.records import fresh, record

@record
class Point:
    """Two numbers."""

    x: int
    y: int = 3  # a comment
    names: list[str] = fresh(factory=list)

    def total(self) -> int:
        return self.x + self.y


@record(eq=True)
class Pair:
    """Compared."""

    left: int
    right: tuple[int, ...] = ()


@record
class Empty:
    """Nothing."""


LAST = 1
'''


def load(text: str, name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, name, "exec"), module.__dict__)
    return module


@pytest.fixture(params=["record", "written out"])
def module(request: pytest.FixtureRequest) -> types.ModuleType:
    name = f"native_case_{request.param.replace(' ', '_')}"
    yield load(native.write_out_records(TEXT) if request.param == "written out" else TEXT, name)
    del sys.modules[name]


def test_classes_do_the_same(module: types.ModuleType) -> None:
    first, second = module.Point(1), module.Point(2, names=["a"])
    assert (first.x, first.y, first.names, first.total()) == (1, 3, [], 4)
    first.names.append("b")
    assert module.Point(1).names == [] and second.names == ["a"]
    assert repr(second) == "Point(x=2, y=3, names=['a'])" and repr(module.Empty()) == "Empty()"
    assert replace(second, y=5).y == 5 and replace(second, y=5).names is second.names
    assert first != module.Point(1, 3, ["b"])
    assert module.Pair(1, (2,)) == module.Pair(1, (2,)) != module.Pair(1)
    assert module.Pair(1) != first and hash(module.Pair(1, (2,))) == hash(module.Pair(1, (2,)))
    fields = {field.name: field for field in dataclasses.fields(module.Point)}
    assert list(fields) == ["x", "y", "names"] and fields["y"].default == 3 and fields["names"].default_factory is list
    assert pickle.loads(pickle.dumps(module.Pair(4, (5, 6)))) == module.Pair(4, (5, 6))
    with pytest.raises(TypeError):
        module.Pair()


def test_what_is_no_record_stays() -> None:
    for path in sorted(FOLDER.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        written = native.write_out_records(text)
        assert "@record" not in written, path.name

        def parts(source: str) -> list[str]:
            return [ast.dump(item) for item in ast.walk(ast.parse(source))
                    if isinstance(item, ast.FunctionDef) and not item.name.startswith("__")]

        assert parts(written) == parts(text), path.name


def test_modules_that_are_compiled() -> None:
    names = native.compiled_modules(path.stem for path in FOLDER.glob("*.py"))
    assert {"extents", "fuse", "steps", "typed"} <= set(names) and not {"planner", "show", "callouts"} & set(names)
    assert all((FOLDER / f"{name}.py").exists() for name in (*native.COMPILED_RULES, *native.INTERPRETED))


def test_numbers_keep_their_types() -> None:
    """A compiler that takes an int where a float is asked for makes one of it: bounds are exact, and so are constants."""
    large = 2**53 + 1
    assert (extents.symbol("s", 0, large) * 3).bounds() == (0, 3 * large)
    assert extents.floordiv(extents.symbol("s", 0, 2 * large + 1), 2).bounds() == (0, large)
    assert extents.mod(extents.symbol("s", 0, 4 * large), large).bounds() == (0, large - 1)
    assert [type(steps.Literal(value, "i64").value) for value in (1, 1.0, True)] == [int, float, bool]
