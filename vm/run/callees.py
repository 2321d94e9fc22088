"""What objects hold and programs call: the tests that a program was compiled with, and calls that fit none of them."""

from __future__ import annotations

from types import MethodType
from typing import Any

from ...templates.registry import BY_NAME, provide
from ..bindings import called_key, class_key
from ..errors import PrebakeError

SET_ATTRIBUTE = BY_NAME["py.set_attribute"].id
MAKE = BY_NAME["py.make"].id
CALLS = BY_NAME["py.calls"].id
CALL_OTHER = BY_NAME["py.call_other"].id


def calls(obj: Any, type_name: str | None = None, name: str | None = None, key: str | None = None) -> bool:
    """Whether `obj.name(...)` (name None: `obj(...)`) runs the code that a program was compiled with."""
    if type_name is not None and class_key(type(obj)) != type_name:
        return False
    if name is None:
        return called_key(obj) == key
    try:
        value = getattr(obj, name)
    except AttributeError:
        return False
    if isinstance(value, MethodType) and value.__self__ is not obj:
        return False
    return called_key(value) == key


class OtherObjects(PrebakeError):
    """A program meets objects that it was not made for, and cannot go on."""


def refuse_other(obj: Any, name: str | None = None, args: tuple = (), names: tuple = ()) -> Any:
    """Programs from files call no objects but those that they were compiled for."""
    what = "something" if obj is None else f"a {type(obj).__name__}{'' if name is None else '.' + name}"
    raise OtherObjects(f"{what} is called that the program was not made for")


def call_other(obj: Any, name: str | None = None, args: tuple | None = None, names: tuple = ()) -> Any:
    """The call as Python makes it, in programs that were compiled in this process; without `args` the program cannot go on."""
    if args is None:
        return refuse_other(obj, name)
    called = obj if name is None else getattr(obj, name)
    split = len(args) - len(names)
    return called(*args[:split], **dict(zip(names, args[split:], strict=True)))


def refuse_making(cls: Any, args: tuple = (), names: tuple = ()) -> Any:
    """Programs from files make no objects."""
    raise OtherObjects(f"a {getattr(cls, '__name__', cls)} is made, by a program that was not compiled in this process")


def make(cls: Any, args: tuple = (), names: tuple = ()) -> Any:
    """An object of a class as Python makes it, in programs that were compiled in this process."""
    return call_other(cls, None, args, names)


provide("py.make", refuse_making)
provide("py.calls", calls)
provide("py.call_other", refuse_other)
