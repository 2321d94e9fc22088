"""Arguments made from a recorded signature: random values of its structure, dtypes and layouts, at given extents.

A build verifies kernels with them and never needs the user's code or data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..vm.bindings import Callee
from ..vm.lang.bytecode import Program
from ..vm.plan.signature import NUMPY_DTYPES, Row, Signature


class Recorded(SimpleNamespace):
    """Stands in for a user's object: the attributes and items that were read."""

    def __getitem__(self, key: object) -> object:
        return self.__dict__["items"][key]


class Samples:
    """One set of arguments; equal seeds give equal ones.

    values: the object of every signature row; args: one a parameter.
    """

    def __init__(self, program: Program, signature: Signature, extents: Mapping[str, int], seed: int = 0) -> None:
        self.program, self.rows, self.extents = program, signature.rows, extents
        self.rng = np.random.default_rng(seed)
        known = [n for name, n in extents.items() if ".shape[" in name and n > 0]
        known += [n for row in self.rows if row.shape for n in row.shape if n > 0]
        self.least = min(known, default=1)  # integers stay below: they may index
        self.values: list[Any] = [None] * len(self.rows)
        for i in range(len(self.rows) - 1, -1, -1):  # children have higher indices than their parents
            self.values[i] = self._value(i, self.rows[i])
        self.args = self._arguments()

    def read_capture(self, index: int) -> object:
        """The object of a capture. Raises LookupError for one that the signature does not hold."""
        for row, value in zip(self.rows, self.values, strict=True):
            if row.how == "capture" and row.key == index:
                return value
        raise LookupError(f"capture {index} was not recorded")

    def _arguments(self) -> list[object]:
        found = {row.key: value for row, value in zip(self.rows, self.values, strict=True) if row.how == "arg"}
        args: list[object] = []
        for i, param in enumerate(self.program.params):
            default = self.program.constants[param.default] if param.default >= 0 else None
            args.append(found.get(i, default))
        return args

    def _value(self, index: int, row: Row) -> Any:
        children = {child.key: self.values[i] for i, child in enumerate(self.rows) if child.parent == index
                    and child.how in ("attr", "item")}
        if row.kind == "array":
            return self._array(row)
        if row.kind == "scalar":
            return self._scalar(row)
        if row.kind == "static":
            return row.value
        if row.kind == "sequence":
            items = [children.get(i) for i in range(row.length)]
            if row.type_name in ("builtins:list", "builtins:tuple"):
                return items if row.type_name == "builtins:list" else tuple(items)
            named = {str(c.key): self.values[i] for i, c in enumerate(self.rows) if c.parent == index and c.how == "attr"}
            return self._class(row, tuple, named)(items)  # a named tuple
        if row.kind == "mapping":
            return {key: children.get(key) for key in row.keys}
        if row.kind == "callee":
            return Callee(row.type_name)
        attributes = {c.key: self.values[i] for i, c in enumerate(self.rows) if c.parent == index and c.how == "attr"}
        if row.type_name == "functools:partial" and "func" in attributes:
            return partial(attributes["func"], *attributes.get("args", ()), **attributes.get("keywords", {}))
        owner = attributes.pop("__class__", None)  # what class methods read
        kind = self._class(row, Recorded, {} if owner is None else vars(owner))
        return kind(**{str(k): v for k, v in attributes.items()}, items=children)

    @staticmethod
    def _class(row: Row, base: type, members: Mapping[str, Any]) -> Any:
        """A class that goes by the name of the recorded one."""
        module, _, name = row.type_name.partition(":")
        return type("Recorded", (base,), {**members, "__module__": module, "__qualname__": name})

    def _array(self, row: Row) -> np.ndarray:
        shape = row.shape if row.shape is not None else tuple(
            self.extents.get(f"{row.path}.shape[{d}]", 2) for d in range(row.ndim))
        array = self._fill(row.dtype, shape) if row.layout == "C" or not shape else self._strided(row, shape)
        if row.constant:
            array.setflags(write=False)
            base = array.base
            while isinstance(base, np.ndarray):
                base.setflags(write=False)
                base = base.base
        return array

    def _strided(self, row: Row, shape: tuple[int, ...]) -> np.ndarray:
        """An array with axes in the order, the direction and about the step that the recorded strides have."""
        item = NUMPY_DTYPES[row.dtype].itemsize
        given = [self.extents.get(f"{row.path}.strides[{d}]", 2 * item if d == len(shape) - 1 else 1 << 30)
                 for d in range(len(shape))]
        order = sorted(range(len(shape)), key=lambda d: -abs(given[d]))  # outermost first
        step = min(max(abs(given[order[-1]]) // item, 1), 4)
        memory = self._fill(row.dtype, tuple(shape[d] * (step if d == order[-1] else 1) for d in order))
        memory = memory[tuple(slice(None, None, (step if d == order[-1] else 1) * (-1 if given[d] < 0 else 1))
                              for d in order)]
        return memory.transpose([order.index(d) for d in range(len(shape))])

    def _fill(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        kind = NUMPY_DTYPES[dtype]
        if kind.kind == "b":
            return self.rng.integers(0, 2, shape).astype(kind)
        if kind.kind in "iu":
            return self.rng.integers(0, max(min(self.least, 100), 1), shape).astype(kind)
        return self.rng.standard_normal(shape).astype(kind)

    def _scalar(self, row: Row) -> Any:
        kind = NUMPY_DTYPES[row.dtype]
        value: Any = self.extents.get(row.path)
        if value is None:
            value = bool(self.rng.integers(0, 2)) if kind.kind == "b" else \
                int(self.rng.integers(0, max(self.least, 1))) if kind.kind in "iu" else float(self.rng.random() + 0.5)
        if row.python:
            return {"bool": bool, "int": int, "float": float}[row.python](value)
        if kind.kind == "u":  # a register holds the bits of a large uint64 as a negative number
            value &= int(np.iinfo(kind).max)
        return kind.type(value)
