"""Records: what a data class does, for the price of a class statement."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys

import pytest

from prebake.templates.records import fresh, record, replace


@record(eq=True)
class Point:
    """Two numbers and a name."""

    x: int
    y: int = 0
    name: str = "p"

    def norm(self) -> int:
        return self.x + self.y


@record
class Bag:
    things: list[int] = fresh(factory=list)


@record(eq=True)
class Nothing:
    pass


def test_arguments_by_position_and_name():
    point = Point(1, name="q")
    assert (point.x, point.y, point.name, point.norm()) == (1, 0, "q", 1)
    assert repr(point) == "Point(x=1, y=0, name='q')" and Point.__doc__ == "Two numbers and a name."
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=2)
    with pytest.raises(AttributeError):
        point.z = 1  # a misspelt field does not go unnoticed


def test_equality_is_asked_for():
    assert Point(1) == Point(1, 0) != Point(2) and hash(Point(1)) == hash(Point(1, 0)) and Point(1) != (1, 0, "p")
    assert Nothing() == Nothing() and hash(Nothing()) == hash(Nothing())
    assert Bag() != Bag() and len({Bag(), Bag()}) == 2


def test_fresh_values_are_not_shared():
    first, second, given = Bag(), Bag(), [1]
    first.things.append(1)
    assert second.things == [] and Bag(given).things is given


def test_the_standard_library_takes_them_for_data_classes():
    point = Point(1, 2)
    assert replace(point, y=3) == dataclasses.replace(point, y=3) == Point(1, 3)
    assert dataclasses.asdict(point) == {"x": 1, "y": 2, "name": "p"} and dataclasses.asdict(Bag()) == {"things": []}
    assert [(f.name, f.default) for f in dataclasses.fields(Point)][1:] == [("y", 0), ("name", "p")]
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_every_number_of_fields():
    for count in range(20):
        names = [f"field_{i}" for i in range(count)]
        made = record(type("Made", (), {"__annotations__": dict.fromkeys(names, "int")}))(*range(count))
        assert [getattr(made, name) for name in names] == list(range(count))


def test_planning_does_not_load_dataclasses():
    text = ("import sys, numpy, prebake.vm.plan.planner, prebake.vm.plan.lower, prebake.vm.run.tape, prebake.vm.lang.frontend\n"
            "print('dataclasses' in sys.modules)")
    done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": ":".join(p for p in sys.path if p)})
    assert done.stdout == "False\n"


def test_calls_that_fit_and_calls_that_do_not():
    @record
    class Made:
        first: object
        second: object
        third: object = None
        things: list = fresh(factory=list)
        last: int = 5

    class Derived(Made):
        def __init__(self, more):
            super().__init__(more, second=2)

    def values(made):
        return [getattr(made, name) for name in Made.__match_args__]

    later = "".join(["se", "cond"])  # not the very string that the class has
    assert values(Made(1, 2)) == [1, 2, None, [], 5] == values(Made(second=2, first=1)) == values(Made(1, **{later: 2}))
    assert values(Made(1, 2, last=4, third=3)) == [1, 2, 3, [], 4] and values(Made(1, 2, 3, [4], 5)) == [1, 2, 3, [4], 5]
    assert values(Derived(1)) == [1, 2, None, [], 5] and type(Derived(1)) is Derived
    first, second = Made(1, 2), Made(1, 2)
    assert first.things is not second.things
    for wrong, message in (((1,), "missing 1 required positional argument: 'second'"),
                           ((1, 2, 3, 4, 5, 6), "takes from 3 to 6 positional arguments but 7 were given")):
        with pytest.raises(TypeError, match=message):
            Made(*wrong)
    with pytest.raises(TypeError, match="got multiple values for argument 'first'"):
        Made(1, 2, first=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'fourth'"):
        Made(1, 2, fourth=3)
    held = object()
    before = sys.getrefcount(held)
    for _ in range(50):
        Made(held, held, last=held)
        with pytest.raises(TypeError):
            Made(held)
        with pytest.raises(TypeError):
            Made(held, held, fourth=held)
    assert sys.getrefcount(held) == before
    with pytest.raises(ZeroDivisionError):
        record(type("Fails", (), {"__annotations__": {"x": "int"}, "x": fresh(factory=lambda: 1 // 0)}))()
