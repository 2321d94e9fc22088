"""`freeze`: arrays that cannot change, so that products may keep packed copies of them."""

from __future__ import annotations

import os
import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import flags
from . import _dispatch
from .log import warn

_PLAIN = (str, bytes, bytearray, int, float, complex, bool, type(None), type, range, slice, np.generic, np.dtype)


def freeze(obj: Any, keep: bool = True, packs: Any = None) -> Any:
    """The object, with the data of every array in it moved into immutable buffers; a frozen array for an array.

    Walks lists, tuples, deques, dictionaries and proxies of them, sets, partial functions, dataclasses and objects
    (`__dict__`, slots) and puts the frozen arrays in the places of the old ones; other references keep the old memory. Arrays
    that share memory share it afterwards, as views of one frozen base. What is frozen already stays as it is. What holds
    numbers and cannot be frozen (tensors, masked arrays, files of arrays) stays as it is, with a warning.
    keep=False: the buffers live in an unlinked temporary file, and their memory is let go once a kernel has packed them.
    packs: a folder that `prebake pack` wrote, or `load_packs` of it (else PREBAKE_PACKS names one): arrays that hold what
    was packed are taken from its mapped files, packs and all, so that every process has the same memory; the others are
    frozen as usual, with a warning.
    Raises TypeError for arrays of Python objects.
    """
    stored = None
    if packs is not None or flags.read("PREBAKE_PACKS"):
        from .packs import packs_for

        stored = packs_for(packs)
    walker = _Walker(keep, stored)
    walker.collect(obj)
    walker.make()
    made = walker.replace(obj)
    if walker.left:
        path, value, why = walker.left[0]
        many = len(walker.left) > 1
        warn(f"prebake.freeze left {f'{len(walker.left)} values as they are, the first' if many else 'a value as it is,'} "
             f"{repr(path) if path else 'the object'}: a {type(value).__module__}.{type(value).__qualname__} {why}")
    return made


def arrays_of(obj: Any) -> Iterator[tuple[str, np.ndarray]]:
    """(path, array) of every array that `freeze` would find, paths as a user writes them: 'layers[0].w', "['bias']"."""
    stack: list[tuple[str, Any]] = [("", obj)]
    seen: set[int] = set()
    while stack:
        path, value = stack.pop()
        if isinstance(value, np.ndarray):
            yield path, value
        elif not isinstance(value, _PLAIN) and id(value) not in seen:
            seen.add(id(value))
            stack += reversed(_inside(path, value))


def holder_of(array: np.ndarray) -> Any:
    """The object that holds an array's memory, not an array itself; None for memory of NumPy's own."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base


def offset_in(buffer: Any, array: np.ndarray) -> int:
    """Bytes from the start of a buffer to an array's first element."""
    return int(array.__array_interface__["data"][0] - np.frombuffer(buffer, np.uint8).ctypes.data)


class _Walker:
    """One freeze: finds the arrays, moves each base once, puts the frozen views back."""

    def __init__(self, keep: bool, packs: Any = None) -> None:
        self.keep, self.packs = keep, packs
        self.differing: list[str] = []  # arrays that are not what was packed
        self.paths: dict[int, str] = {}  # id of an array -> where it was met first
        self.left: list[tuple[str, Any, str]] = []  # (path, what stays as it is, why and what to do)
        self.moved = 0
        self.arrays: dict[int, np.ndarray] = {}
        self.bases: dict[int, list[np.ndarray]] = {}  # id of the memory's owner -> arrays over it
        self.frozen: dict[int, np.ndarray] = {}
        self.again: dict[int, Any] = {}  # id of a Frozen -> the mapped one with the same bytes, or None
        self.replaced: dict[int, Any] = {}
        self.seen: set[int] = set()
        self.alive: list[object] = []  # ids stay true while the objects live

    # --- find

    def collect(self, obj: Any) -> None:
        """Note every array reachable from obj."""
        stack = [("", obj)]
        others = []
        while stack:
            path, value = stack.pop()
            if isinstance(value, np.ndarray):
                self._note(path, value)
                continue
            if isinstance(value, _PLAIN) or id(value) in self.seen:
                continue
            self.seen.add(id(value))
            self.alive.append(value)
            if hasattr(type(value), "__dlpack__"):
                self.left.append((path, value, "can change: give np.from_dlpack of it, or its array"))
                continue
            inside = _inside(path, value)
            stack += reversed(inside)
            if not isinstance(value, _WALKED):
                others.append((path, value))
        for path, value in others:  # arrays that its attributes do not lead to
            if self._makes_arrays(value):
                self.left.append((path, value, "makes its arrays anew at each access: give dict() or list() of it"))
        if not self.paths and isinstance(obj, (types.FunctionType, types.MethodType, _dispatch.JitFunction)):
            self.left.append(("", obj, "holds no arrays: name the object that holds its weights"))

    def _makes_arrays(self, value: Any) -> bool:
        """Whether the first item of a collection of another library is an array that was not met."""
        if not issubclass(type(value), (Mapping, Sequence)):
            return False
        try:
            first: Any = value
            for _ in range(4):  # nested ones
                if not len(first):
                    return False
                first = first[next(iter(first))] if isinstance(first, Mapping) else first[0]
                if not isinstance(first, (Mapping, Sequence)) or isinstance(first, _PLAIN):
                    break
        except Exception:  # whatever such a collection does
            return False
        return isinstance(first, np.ndarray) and id(first) not in self.paths

    def _note(self, path: str, array: np.ndarray) -> None:
        if id(array) in self.paths:
            return
        self.paths[id(array)] = path
        self.alive.append(array)
        if type(array) not in (np.ndarray, np.memmap):
            self.left.append((path, array, "is more than its memory: give a plain array"))
            return
        if _is_frozen(array):
            self._note_frozen(array)
            return
        if array.dtype.hasobject:
            raise TypeError(f"{repr(path) + ' is ' if path else ''}an array of Python objects, which cannot be frozen")
        self.arrays[id(array)] = array
        owner: Any = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        self.bases.setdefault(id(owner), []).append(array)
        self.alive.append(owner)

    def _note_frozen(self, array: np.ndarray) -> None:
        """An array that cannot change already: it moves only where packs hold its memory."""
        if self.packs is None:
            return
        base = holder_of(array)
        if base.stored is None and len(base):
            if id(base) not in self.again:
                self.again[id(base)] = self.packs.find(np.frombuffer(base, np.uint8))
                self.alive.append(base)
            if self.again[id(base)] is not None:
                self.alive.append(array)
                at = offset_in(base, array)
                self.frozen[id(array)] = np.ndarray(array.shape, array.dtype, self.again[id(base)], at, array.strides)

    # --- move

    def make(self) -> None:
        """Move the memory of the noted arrays."""
        self._move_all()
        if self.packs is not None:
            self.packs.report_differences(self.differing, self.moved)

    def _move_all(self) -> None:
        for arrays in self.bases.values():
            owner: Any = arrays[0]
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            if len(arrays) == 1 or not _is_dense(owner):
                for array in arrays:
                    self.frozen[id(array)] = self._move(array)
                continue
            lowest = owner.__array_interface__["data"][0]
            buffer = self._buffer(owner.reshape(-1, order="A"), owner, arrays)
            for array in arrays:
                offset = array.__array_interface__["data"][0] - lowest
                self.frozen[id(array)] = np.ndarray(array.shape, array.dtype, buffer, offset, array.strides)

    def _move(self, array: np.ndarray) -> np.ndarray:
        """One array on its own memory, in its own order (C or Fortran), else in C order."""
        turned = array.flags.f_contiguous and not array.flags.c_contiguous
        dense = np.ascontiguousarray(array.T if turned else array)
        if not dense.size:
            return np.ndarray(array.shape, array.dtype, _dispatch.Frozen(bytes(max(array.itemsize, 1))))  # type: ignore[arg-type]
        return np.ndarray(array.shape, array.dtype, self._buffer(dense, array, [array]), order="F" if turned else "C")

    def _buffer(self, dense: np.ndarray, shown: np.ndarray, met: list[np.ndarray]) -> Any:
        """The frozen bytes of a dense array. shown: how it is described; met: the arrays over it."""
        data = dense.reshape(-1).view(np.uint8) if dense.size else np.zeros(max(dense.itemsize, 1), np.uint8)
        if self.packs is not None:
            self.moved += 1
            found = self.packs.find(data)
            if found is not None:
                return found
            path = next((path for path in (self.paths.get(id(a), "") for a in met) if path), "")
            self.differing.append(f"{repr(path) + ' ' if path else ''}{shown.dtype.name}{list(shown.shape)}")
        if not self.keep and data.nbytes:
            import tempfile

            try:
                with tempfile.TemporaryFile(prefix="prebake-") as file:
                    file.write(data.data)
                    file.flush()
                    return _dispatch.Frozen(data, file.fileno())
            except OSError as error:
                warn(f"prebake.freeze(keep=False) keeps the array in memory: {error}")
        return _dispatch.Frozen(data)

    # --- put back

    def replace(self, obj: Any) -> Any:
        """obj with its arrays replaced; containers that can change are changed in place, the others are made again."""
        if isinstance(obj, np.ndarray):
            return self.frozen.get(id(obj), obj)
        if isinstance(obj, _PLAIN):
            return obj
        key = id(obj)
        if key in self.replaced:
            return self.replaced[key]
        self.replaced[key] = obj
        if isinstance(obj, tuple):
            items = [self.replace(item) for item in obj]
            if any(new is not old for new, old in zip(items, obj, strict=True)):
                fresh = type(obj)(*items) if hasattr(obj, "_fields") else type(obj)(items)
                self.replaced[key] = fresh
                return fresh
        elif isinstance(obj, (list, deque)):
            for i, item in enumerate(obj):
                new = self.replace(item)
                if new is not item:
                    obj[i] = new
        elif isinstance(obj, types.MappingProxyType):
            changed = {name: new for name, item in obj.items() if (new := self.replace(item)) is not item}
            if changed:
                self.replaced[key] = types.MappingProxyType({**obj, **changed})
                return self.replaced[key]
        elif isinstance(obj, (set, frozenset)):
            for item in obj:  # no arrays, objects that hold some
                self.replace(item)
        elif isinstance(obj, partial):
            args, keywords = self.replace(obj.args), self.replace(dict(obj.keywords))
            function = self.replace(obj.func)
            if args is not obj.args or function is not obj.func or any(v is not obj.keywords[k] for k, v in keywords.items()):
                self.replaced[key] = type(obj)(function, *args, **keywords)
                return self.replaced[key]
        elif isinstance(obj, dict):
            for name, item in list(obj.items()):
                new = self.replace(item)
                if new is not item:
                    obj[name] = new
        else:
            for name, item in _attributes(obj):
                new = self.replace(item)
                if new is not item:
                    object.__setattr__(obj, name, new)  # frozen dataclasses too
        return obj


def _is_frozen(array: np.ndarray) -> bool:
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return isinstance(base, _dispatch.Frozen)


def _is_dense(owner: np.ndarray) -> bool:
    """Whether the owner's memory is one block without gaps, so that its views can be placed by offset."""
    return type(owner) is np.ndarray and (owner.flags.c_contiguous or owner.flags.f_contiguous)


_WALKED = (list, tuple, deque, dict, types.MappingProxyType, set, frozenset, partial)


def _inside(path: str, value: Any) -> list[tuple[str, Any]]:
    """(path, item) of what a container or an object holds."""
    if isinstance(value, (list, tuple, deque)):
        return [(f"{path}[{i}]", item) for i, item in enumerate(value)]
    if isinstance(value, (dict, types.MappingProxyType)):
        return [(f"{path}[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, (set, frozenset)):
        return [(f"{path}{{{i}}}", item) for i, item in enumerate(value)]
    if isinstance(value, partial):
        return [*_inside(f"{path}.args", value.args), *_inside(f"{path}.keywords", value.keywords), (f"{path}.func", value.func)]
    return [(f"{path}.{name}" if path else name, item) for name, item in _attributes(value)]


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """(name, value) of an object's own attributes, slots included; functions, modules and classes have none for us."""
    # by type: objects that lie about their class break the look-up of abstract ones
    if issubclass(type(value), (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, _dispatch.JitFunction,
                                os.PathLike)):
        return []
    found = list(getattr(value, "__dict__", {}).items())
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{cls.__name__.lstrip('_')}{name}"
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found.append((name, getattr(value, name)))
    return found
