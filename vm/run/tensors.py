"""Tensors of other libraries as arguments: arrays over their memory, by DLPack, in place of them.

A call sees `np.from_dlpack(tensor)`: nothing is copied, what the function writes is in the tensor, and what it returns are
arrays, but for an argument that is returned as it came. Looked for only where no plan takes a call as it is.
"""

from __future__ import annotations

import copy
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..errors import UnsupportedError

_CPU = 1  # kDLCPU
_MOST = 4096  # values that are looked at: an object may lead to the whole process
_DEEPEST = 50  # containers inside each other
_LEAVES = (np.ndarray, np.generic, int, float, complex, str, bytes, type(None), type, FunctionType, BuiltinFunctionType,
           MethodType, ModuleType, np.ufunc, np.dtype)


class Arrays:
    """The arguments of one call with arrays in place of tensors: `args`; is_other: whether there were any.

    code: of the function. Raises UnsupportedError for a tensor whose memory NumPy cannot look at.
    """

    def __init__(self, args: tuple, code: CodeType) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}  # id -> (what was given, what stands for it)
        self._tensors: dict[int, Any] = {}  # id of an array -> its tensor
        self._code, self._place, self._depth = code, "", 0
        found = []
        for name, value in zip(code.co_varnames, args, strict=False):
            self._place = name
            found.append(self._convert(value))
        self.args = tuple(found)
        self.is_other = bool(self._tensors)

    def restore(self, result: Any) -> Any:
        """The result, with tensors in place of the very arrays that stood for them."""
        if type(result) in (tuple, list):
            return type(result)(self.restore(item) for item in result)
        return self._tensors.get(id(result), result)

    def _convert(self, value: Any) -> Any:
        if isinstance(value, _LEAVES):
            return value
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        if len(self._known) >= _MOST or self._depth >= _DEEPEST:
            return value
        self._known[id(value)] = (value, value)  # what holds itself
        self._depth += 1
        made = self._array(value) if hasattr(type(value), "__dlpack__") else self._container(value)
        self._depth -= 1
        self._known[id(value)] = (value, made)
        return made

    def _array(self, tensor: Any) -> np.ndarray:
        kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
        try:
            if tensor.__dlpack_device__()[0] != _CPU:
                raise BufferError("it is not in the memory of the CPU")
            array = np.from_dlpack(tensor)
        except Exception as error:  # whatever its library raises
            raise UnsupportedError(f"'{self._place}' is a {kind} that NumPy cannot look at: {error}", kind="tensor",
                                   hint="pass an array, or a detached CPU tensor of a dtype that NumPy has",
                                   file=self._code.co_filename, line=self._code.co_firstlineno, column=1) from None
        self._tensors[id(array)] = tensor
        return array

    def _container(self, value: Any) -> Any:
        """A copy of a container or object with arrays in it; the very object where it holds no tensors."""
        if isinstance(value, dict):
            items = {key: self._convert(item) for key, item in value.items()}
            if all(items[key] is item for key, item in value.items()):
                return value
            made = copy.copy(value)
            made.update(items)
            return made
        if isinstance(value, (tuple, list)):
            parts = [self._convert(item) for item in value]
            if all(part is item for part, item in zip(parts, value, strict=True)):
                return value
            if isinstance(value, tuple):
                return value._make(parts) if hasattr(value, "_make") else type(value)(parts)
            new = copy.copy(value)
            new[:] = parts
            return new
        held = getattr(value, "__dict__", None)
        if type(held) is not dict:
            return value
        items = {name: self._convert(item) for name, item in held.items()}
        if all(items[name] is item for name, item in held.items()):
            return value
        made = copy.copy(value)
        made.__dict__.update(items)
        return made


def may_hold_tensors(args: tuple) -> bool:
    """Whether it is worth to look: something among the arguments is neither an array nor a number."""
    return not all(isinstance(value, _LEAVES) for value in args)
