"""Bindings: what names outside a function stood for when it was compiled, and whether they still do.

A function, dtype, type or ufunc that a name leads to is compiled in; so is a helper's default. None of that shows in the
sources that a program was made from: a third file may import `act` from elsewhere, a dtype may come from the environment.
So each is recorded as (scope, module, path, meaning), the meaning a text that is equal in all processes, and compared
again where the program or its kernels are used. Scopes: 'global', 'closure', 'member' (of a class, path 'Class.name'),
'self' (a member that was called on self), 'default' (of a parameter, path 'function(name)'). A path may lead on into
variables of a helper's own closure: 'act|inner'.

In a process, a `Watch` holds the objects themselves, those too that no text reaches (classes inside functions, functions
kept by an instance), and each call compares it.

Imported where bundles are found: nothing but NumPy and the standard library's smallest modules.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

SCOPES = ("global", "closure", "member", "self", "default")
Row = tuple[str, str, str, str]
_PACKAGE = __name__.partition(".vm.")[0]
ABSENT = object()  # what a name that is not defined stands for


def meaning_of(value: Any) -> str:
    """What a static object stands for, equal in every process that means the same."""
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, np.dtype):
        return f"dtype {value}"
    if isinstance(value, np.ufunc):
        return f"numpy.{value.__name__}"
    if isinstance(value, (np.finfo, np.iinfo)):
        return f"numpy.{type(value).__name__} {value.dtype}"
    if isinstance(value, (staticmethod, classmethod)):
        return f"{type(value).__name__} {meaning_of(value.__func__)}"
    if isinstance(value, property):
        return f"property {meaning_of(value.fget)}"
    if isinstance(value, tuple):  # the classes that a class is made of
        return f"classes {' '.join(map(class_key, value))}"
    plain = value if isinstance(value, type) else getattr(value, "__wrapped__", value)
    name = getattr(plain, "__qualname__", None)
    if name is None:
        return f"value {value!r}"
    module = _module_name(plain)
    if module.partition(".")[0] == "numpy":
        return f"numpy.{name}"
    code = getattr(plain, "__code__", None)
    if type(code) is CodeType and code.co_qualname != name:  # it got another function's code, or another name
        return f"{module}:{name} with the code of {code.co_qualname}"
    return f"{module}:{name}"


def _module_name(value: Any) -> str:
    """The module of a function or class, a script's stem in place of `__main__`."""
    name = getattr(value, "__module__", None) or ""
    if name == "__main__":
        code = getattr(value, "__code__", None)
        path = code.co_filename if code is not None else getattr(sys.modules["__main__"], "__file__", None) or ""
        stem = os.path.splitext(os.path.basename(path))[0]
        return stem if stem.isidentifier() else "__main__"
    return str(name)


class Callee:
    """Stands for a function that is told by its key: where signatures are replayed without the user's code."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, *args: object, **kwargs: object) -> object:
        raise TypeError(f"{self.key} is not at hand")  # `functools.partial` takes what can be called


_serials: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # of functions that no name leads to


def callee_key(value: Any) -> str:
    """What a function kept in an object or a container is told by: equal in every process that means the same function.

    'method ' stands before what is bound to the object that it is read from. A function that no name leads to goes by its
    place in the source as well; one that also depends on variables or defaults that its maker gave it, by the object itself.
    Raises TypeError for what is no function.
    """
    if isinstance(value, Callee):
        return value.key
    if isinstance(value, MethodType):
        return f"method {callee_key(value.__func__)}"
    if isinstance(value, partial):
        return partial_key(callee_key(value.func), len(value.args), value.keywords)
    plain = underlying(value)
    if not isinstance(plain, (FunctionType, BuiltinFunctionType, np.ufunc, type(np.sum))):
        raise TypeError(f"{type(value).__name__} is no function")
    text = meaning_of(plain)
    if not isinstance(plain, FunctionType) or leads_to(plain):
        return text
    code = plain.__code__
    columns = [(start, end) for _, _, start, end in code.co_positions() if start]
    text += f"@{code.co_firstlineno}:{min(columns)[0]}-{max(end or 0 for _, end in columns)}" if columns else \
        f"@{code.co_firstlineno}"
    if plain.__closure__ or plain.__defaults__ or plain.__kwdefaults__:
        text += f"#{_serials.setdefault(plain, len(_serials))}"
    return text


def called_key(value: Any) -> str:
    """`callee_key` of functions, the class of other objects: what decides which code `value(...)` runs."""
    try:
        return callee_key(value)
    except TypeError:
        return f"object {class_key(type(value))}"


def partial_key(key: str, count: int, names: Iterable[object]) -> str:
    """The key of a `functools.partial`: its function's, and how many arguments of which names it holds."""
    return f"partial {key} {count} {' '.join(map(str, names))}"


def leads_to(fn: FunctionType) -> bool:
    """Whether a function is what its module has under its qualified name."""
    found: Any = fn.__globals__
    for part in fn.__qualname__.split("."):
        found = found.get(part) if isinstance(found, dict) else getattr(found, part, None)
    return underlying(found) is fn


def class_key(cls: type) -> str:
    """'module:qualname' of a class, a script's stem in place of `__main__`."""
    return stable_class(f"{cls.__module__}:{cls.__qualname__}")


def stable_class(name: str) -> str:
    """`class_key` of a class that is told by its own module's name."""
    if not name.startswith("__main__:"):
        return name
    path = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    stem = os.path.splitext(os.path.basename(path))[0]
    return f"{stem}:{name[9:]}" if stem.isidentifier() else name


def find(fn: FunctionType, scope: str, module: str, path: str,
         spaces: Mapping[str, dict[str, Any]] | None = None) -> tuple[Any, str, Any]:
    """(dictionary, cell or class that keeps the name, or None; the name; what it stands for now).

    fn: the program's own function. spaces: the modules that other bindings led to, see `learn`. Raises LookupError where the
    place is not within reach (a module that is not loaded), AttributeError where the name is gone.
    """
    path, *inner = path.split("|")
    found = _find_first(fn, scope, module, path, spaces or {})
    for name in inner:
        helper = underlying(found[2])
        if not isinstance(helper, FunctionType) or name not in helper.__code__.co_freevars:
            raise AttributeError(name)
        cell = cell_of(helper, name)
        found = cell, name, cell.cell_contents
    return found


def learn(spaces: dict[str, dict[str, Any]], value: Any) -> bool:
    """Note the module that a value is, or that its code looks names up in; False where another one goes by its name.

    `sys.modules` need not have it: it may be loaded from a file by hand, or have been imported anew since.
    """
    function = underlying(value)
    if isinstance(function, FunctionType):
        return spaces.setdefault(_module_name(function), function.__globals__) is function.__globals__
    return not isinstance(value, ModuleType) or spaces.setdefault(value.__name__, value.__dict__) is value.__dict__


def space_of(fn: FunctionType, module: str, spaces: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The variables of a module, as a function's bindings and captures mean it. Raises LookupError where it is out of reach."""
    if module in (_module_name(fn), fn.__module__):
        return fn.__globals__
    if module in spaces:
        return spaces[module]
    if module in sys.modules:
        return sys.modules[module].__dict__
    raise LookupError(module)


def home_of(fn: FunctionType, scope: str, module: str, name: str, spaces: Mapping[str, dict[str, Any]]) -> object:
    """The dictionary or cell where a captured name is kept; an empty dictionary where that is out of reach."""
    try:
        if "|" in name:
            path, _, inner = name.rpartition("|")
            return cell_of(underlying(find(fn, scope, module, path, spaces)[2]), inner)
        return cell_of(fn, name) if scope == "closure" else space_of(fn, module, spaces)
    except (LookupError, AttributeError, ValueError):
        return {}


def _find_first(fn: FunctionType, scope: str, module: str, path: str,
                spaces: Mapping[str, dict[str, Any]]) -> tuple[Any, str, Any]:
    if scope == "closure":
        cell = cell_of(fn, path)
        return cell, path, cell.cell_contents
    names = space_of(fn, module, spaces)
    path, _, parameter = path.partition("(")
    first, *rest = path.split(".")
    if first not in names:
        raise AttributeError(path)
    if scope == "global":
        return names, path, names[path]
    found: Any = names[first]
    if scope in ("member", "self"):
        for part in rest[:-1]:
            found = getattr(found, part)
        if rest[-1] == "__mro__":
            return found, rest[-1], found.__mro__
        return found, rest[-1], found if rest[-1] == "__class__" else member_of(found, rest[-1])
    for part in rest:
        found = getattr(found, part)
    return None, parameter, default_of(getattr(found, "__wrapped__", found), parameter.rstrip(")"))


def cell_of(fn: FunctionType, name: str) -> CellType:
    """The cell of a variable that a function closes over. Raises KeyError."""
    return dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))[name]


def underlying(value: Any) -> Any:
    """The plain function of a static method, class method, bound method or decorated function; other values as they are."""
    if type(value) is FunctionType:  # most members of a class
        return value
    if isinstance(value, (staticmethod, classmethod, MethodType)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    if type(value).__module__.startswith(_PACKAGE):
        wrapped = getattr(value, "__wrapped__", None)
        return wrapped if isinstance(wrapped, FunctionType) else value
    return value


def member_of(cls: type, name: str) -> Any:
    """A class's member as it stands in the class that defines it. Raises AttributeError where there is none."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    raise AttributeError(name)


def runs_code(value: Any, name: str) -> bool:
    """Whether Python code runs when an attribute is read: a property's, a descriptor's, `__getattr__`'s."""
    cls = type(value)
    if isinstance(cls.__getattribute__, FunctionType):
        return True
    for base in value.__mro__ if isinstance(value, type) else cls.__mro__:
        if name in base.__dict__:
            kind = type(base.__dict__[name])
            if kind is not property and not isinstance(getattr(kind, "__get__", None), FunctionType):
                return False
            return hasattr(kind, "__set__") or not _keeps(value, name)
    return hasattr(cls, "__getattr__") and not _keeps(value, name)


def keeps_what_it_makes(value: Any, name: str) -> bool:
    """Whether an attribute is a `functools.cached_property`, which is no code any more once it was read."""
    return type(next((c.__dict__[name] for c in type(value).__mro__ if name in c.__dict__), None)) is cached_property


def _keeps(value: Any, name: str) -> bool:
    try:
        return name in object.__getattribute__(value, "__dict__")
    except AttributeError:
        return False


def default_of(fn: FunctionType, name: str) -> object:
    """The default of a parameter. Raises AttributeError where it has none."""
    if name in (fn.__kwdefaults__ or {}):
        return fn.__kwdefaults__[name]  # type: ignore[index]
    code, defaults = fn.__code__, fn.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults):code.co_argcount]
    if name not in names:
        raise AttributeError(name)
    return defaults[names.index(name)]


def own_space(fn: FunctionType) -> dict[str, dict[str, Any]]:
    """The module of a function, by its names."""
    return {_module_name(fn): fn.__globals__, fn.__module__: fn.__globals__}


def first_change(fn: FunctionType, rows: Iterable[Row]) -> tuple[str, str, str] | None:
    """(name, what it stood for, what it stands for now) of the first binding that changed.

    What is out of reach is not judged: a module that is not loaded, a class inside a function.
    """
    spaces = own_space(fn)
    for scope, module, path, meaning in rows:
        try:
            value = find(fn, scope, module, path, spaces)[2]
            now = meaning_of(value) if learn(spaces, value) else f"another module than '{meaning}' was found in"
        except LookupError:
            continue
        except (AttributeError, ValueError):
            now = "nothing"
        if now != meaning:
            return f"{module}:{path}", meaning, now
    for library in _libraries(fn, names := names_of(fn.__code__)):
        for name in names:
            value = library.__dict__.get(name)
            if isinstance(value, FunctionType) and not _module_name(value).startswith(("numpy", "math")):
                return f"{library.__name__}:{name}", f"a function of {library.__name__}", meaning_of(value)
    return None


class Watch:
    """The objects that a program was compiled from, each where it is found: what a call compares again.

    names: (dictionary or cell, name, object or `ABSENT`). members: (object, name, what the attribute leads to, a bound
    method's function); object None: the call's first argument, object `type`: its class.
    functions: (function, code, defaults, keyword defaults). spaces: the modules in which names are looked up.
    """

    def __init__(self) -> None:
        self._names: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self._members: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self._functions: dict[int, tuple[Any, Any, Any, Any]] = {}
        self.spaces: dict[str, dict[str, Any]] = {}

    def name(self, home: Any, name: str, value: Any) -> None:
        """A variable of a module or a cell."""
        self._names[id(home), name] = (home, name, value)

    def builtin(self, fn: FunctionType, name: str) -> None:
        """A built-in function that a function calls: its module may hide it, somebody replace it."""
        self.name(fn.__globals__, name, ABSENT)
        self.name(fn.__builtins__, name, fn.__builtins__.get(name, ABSENT))  # type: ignore[attr-defined]

    def member(self, owner: Any, name: str, value: Any) -> None:
        """An attribute of an object, None for the call's first argument."""
        if isinstance(value, (staticmethod, classmethod, MethodType)):
            value = value.__func__
        self._members[id(owner), name] = (owner, name, value)

    def function(self, fn: FunctionType) -> None:
        """A function whose body is compiled in, with its defaults."""
        self._functions[id(fn)] = (fn, fn.__code__, fn.__defaults__, fn.__kwdefaults__)

    @property
    def names(self) -> list[tuple[Any, str, Any]]:
        return list(self._names.values())

    @property
    def members(self) -> list[tuple[Any, str, Any]]:
        return list(self._members.values())

    @property
    def functions(self) -> list[tuple[Any, Any, Any, Any]]:
        return list(self._functions.values())


def watch_rows(fn: FunctionType, rows: Iterable[Row]) -> Watch:
    """The Watch of recorded bindings: of a program that this process did not compile."""
    watch = Watch()
    watch.spaces = own_space(fn)
    watch.function(fn)
    _watch_libraries(watch, fn)
    for scope, module, path, _ in rows:
        try:
            home, name, value = find(fn, scope, module, path, watch.spaces)
        except (LookupError, AttributeError, ValueError):
            continue
        learn(watch.spaces, value)
        if scope == "self" and "|" not in path:
            watch.member(type if isinstance(value, property) else None, name, value)
        elif scope == "member" and "|" not in path:
            watch.member(home, name, value)
        elif scope != "default":
            watch.name(home, name, value)
        function = underlying(value)
        if isinstance(function, FunctionType):
            watch.function(function)
            _watch_libraries(watch, function)
    return watch


def _watch_libraries(watch: Watch, fn: FunctionType) -> None:
    """Add what a function may mean of Python, NumPy and `math`: no rows are recorded for it."""
    names = names_of(fn.__code__)
    for name in names:
        if name in fn.__builtins__ and name not in fn.__globals__:  # type: ignore[attr-defined]
            watch.builtin(fn, name)
    for module in _libraries(fn, names):
        for name in names:
            if name in module.__dict__:
                watch.name(module.__dict__, name, module.__dict__[name])


def _libraries(fn: FunctionType, names: Iterable[str]) -> list[ModuleType]:
    """NumPy, `math` and modules inside them, as far as a function names them."""
    found = [value for value in map(fn.__globals__.get, names) if isinstance(value, ModuleType)
             and value.__name__.partition(".")[0] in ("numpy", "math")]
    for module in found:
        inner = [module.__dict__.get(name) for name in names]
        found += [value for value in inner if isinstance(value, ModuleType) and value not in found]
    return found


def names_of(code: CodeType) -> set[str]:
    """Names of globals and attributes that code mentions, functions inside it too."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= names_of(constant)
    return found


def no_value(functions: Iterable[FunctionType], home: Any, name: str) -> Exception:
    """Python's own error for a captured name that has no value now. home: the dictionary or cell where it was kept.

    functions: whose code is compiled in; one of the home's own module reads the name itself, others read a module's attribute.
    """
    if isinstance(home, CellType):
        return NameError(f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope",
                         name=name)
    module = home.get("__name__")
    if module is None or any(fn.__globals__ is home and name in names_of(fn.__code__) for fn in functions):
        return NameError(f"name '{name}' is not defined", name=name)
    return AttributeError(f"module '{module}' has no attribute '{name}'", name=name, obj=sys.modules.get(module))


def watch_own_names(fn: FunctionType, watch: Watch) -> None:
    """Add what the code of a function that could not be compiled mentions, there or `ABSENT`: one may be mended."""
    names = fn.__globals__
    watch.function(fn)
    for name in names_of(fn.__code__):
        watch.name(names, name, names.get(name, ABSENT))
