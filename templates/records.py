"""`record`: small classes with slots and an `__init__`, made from annotations in microseconds.

`dataclasses.dataclass` compiles source text for each class, half a millisecond to two of them; a process that plans for
the first time would pay that for eighty classes while its caller waits. Here one function is compiled for each number of
fields and gets the names of a class, so that a class costs what its `class` statement costs. For everything else such a
class is a data class: `dataclasses.fields`, `replace` and `asdict` take its instances.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, TypeVar, dataclass_transform

_R = TypeVar("_R")


class Fresh:
    """The default of a field that every instance has for itself."""

    __slots__ = ("factory",)

    def __init__(self, factory: Callable[[], object]) -> None:
        self.factory = factory


def fresh(*, factory: Callable[[], _R]) -> _R:
    """The default of a field that every instance has for itself: what `factory` makes."""
    return Fresh(factory)  # type: ignore[return-value]


@dataclass_transform(eq_default=False, field_specifiers=(fresh,))
def record(cls: type | None = None, /, *, eq: bool = False, slots: bool = True) -> Any:
    """Make a class of annotated fields, some with defaults (what cannot change, or `fresh`), one that takes them as arguments.

    eq: instances with equal fields are equal, and hash alike. slots: nothing but the fields can be set. An `__init__`
    that the class has itself stays. Inherited fields are not looked at.
    """
    return _made(cls, eq, slots) if cls is not None else lambda cls: _made(cls, eq, slots)


def replace(instance: _R, /, **changes: Any) -> _R:
    """A copy of a record with other values for some fields."""
    for name in instance.__match_args__:  # type: ignore[attr-defined]
        if name not in changes:
            changes[name] = getattr(instance, name)
    return type(instance)(**changes)


class Fields:
    """What `dataclasses` looks for in a class, made when it is looked for. kinds: annotations by name."""

    def __init__(self, kinds: dict[str, Any], defaults: dict[str, Any]) -> None:
        self.kinds, self.defaults = kinds, defaults
        self.found: dict[str, Any] | None = None

    def __get__(self, instance: object, owner: type) -> dict[str, Any]:
        if self.found is None:
            import dataclasses

            self.found = {}
            for name, kind in self.kinds.items():
                default = self.defaults.get(name, dataclasses.MISSING)
                item: Any = (dataclasses.field(default_factory=default.factory) if isinstance(default, Fresh)
                             else dataclasses.field(default=default))
                item.name, item.type, item._field_type = name, kind, dataclasses._FIELD  # type: ignore[attr-defined]
                self.found[name] = item
        return self.found


@cache
def _init_of(count: int) -> CodeType:
    """The code of an `__init__` that sets so many fields, compiled once for each count; a class puts its names in."""
    names = [f"field{at}" for at in range(count)]
    body = "; ".join([f"self.{name} = {name}" for name in names]) or "pass"
    space: dict[str, Any] = {}
    exec(f"def __init__({', '.join(['self', *names])}): {body}", space)
    return space["__init__"].__code__


def _made(cls: type, eq: bool, slots: bool) -> type:
    space = dict(cls.__dict__)
    kinds = space.get("__annotations__", {})
    names = tuple(kinds)
    defaults = {name: space.pop(name) for name in names if name in space}
    space["__match_args__"], space["__dataclass_fields__"] = names, Fields(kinds, defaults)
    if "__init__" not in space:
        assert tuple(defaults) == names[len(names) - len(defaults):], "fields with defaults come last"
        code = _init_of(len(names)).replace(
            co_varnames=("self", *names), co_names=names, co_name="__init__", co_qualname=f"{cls.__qualname__}.__init__")
        plain = FunctionType(code, globals(), "__init__", tuple(defaults.values()))
        made = [name for name, default in defaults.items() if isinstance(default, Fresh)]
        space["__init__"] = _filling(plain, made) if made else plain
    space.setdefault("__repr__", text_of)
    if eq:
        key = attrgetter(*names) if names else _no_key

        def equal(self: Any, other: Any) -> Any:
            return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

        def hashed(self: Any) -> int:
            return hash(key(self))

        space["__eq__"], space["__hash__"] = equal, hashed
    for name in ("__dict__", "__weakref__"):
        space.pop(name, None)
    if slots:
        space["__slots__"] = names
    return type(cls)(cls.__name__, cls.__bases__, space)


def _filling(plain: Callable[..., None], names: list[str]) -> Callable[..., None]:
    """An `__init__` that makes the fresh values that it was not given."""
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        for name in names:
            value = getattr(self, name)
            if isinstance(value, Fresh):
                setattr(self, name, value.factory())

    return __init__


def _no_key(instance: object) -> tuple[()]:
    return ()


def text_of(self: Any) -> str:
    """The `repr` of a record."""
    return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in self.__match_args__])})"
