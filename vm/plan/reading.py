"""Where typing gets its facts about arguments and captures: live objects, or a recorded signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any

import numpy as np

from ...templates.records import replace
from ..bindings import keeps_what_it_makes, runs_code
from ..lang.bytecode import Program
from .planner_errors import PlanRefused
from .signature import Row, Signature, describe


class LiveReader:
    """Reads from the objects of one call; every first read appends a row and its sample values."""

    def __init__(self, program: Program, args: Sequence[object], read_capture: Callable[[int], object]) -> None:
        self.program, self.args, self.read_capture = program, args, read_capture
        self.rows: list[Row] = []
        self.objects: list[object] = []
        self.sample: dict[Any, int] = {}
        self._captures: list[str] = []  # paths
        self._index: dict[tuple[str, int, object], int] = {}

    def read(self, how: str, parent: int, key: Any) -> int:
        """Row index of an object reached from `parent`."""
        found = self._index.get((how, parent, key))
        if found is not None:
            return found
        if how == "attr" and runs_code(self.objects[parent], key):  # which shall run once, when the program reads it
            raise PlanRefused(f"reading {self._path_of(how, parent, key)} runs code of its class",
                              kind="cached-property" if keeps_what_it_makes(self.objects[parent], key) else "property")
        try:
            if how == "arg":
                value = self.args[key]
            elif how == "capture":
                value = self.read_capture(key)
            elif how == "attr":
                value = getattr(self.objects[parent], key)
            else:
                value = self.objects[parent][key]  # type: ignore[index]
            checks = describe(value)
            if isinstance(value, MethodType) and (how != "attr" or value.__self__ is not self.objects[parent]):
                raise TypeError("a method of another object is called")
        except (TypeError, AttributeError, LookupError) as error:
            raise PlanRefused(f"{type(error).__name__}: {error}", kind="argument") from None
        if type(value) is bool:
            checks = {"kind": "static", "value": value}
        path = self._path_of(how, parent, key)
        row = Row(how=how, parent=parent, key=key, path=path, **checks)  # type: ignore[arg-type]
        index = self._index[how, parent, key] = len(self.rows)
        self.rows.append(row)
        self.objects.append(value)
        sample = self.sample
        if row.kind == "array":
            array: Any = value
            for axis, (extent, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
                sample[f"{path}.shape[{axis}]"] = extent
                sample[f"{path}.strides[{axis}]"] = stride
        elif row.kind == "scalar" and row.dtype in ("i64", "i32", "i16", "i8", "u8", "u16", "u32"):
            sample[path] = int(value)
            if abs(sample[path]) >= 2**47:
                raise PlanRefused("an integer argument past 2**47", kind="big-int")
        return index

    def _path_of(self, how: str, parent: int, key: Any) -> str:
        """How a user would write the object: `self.layers[0].w`. No two have the same: symbols are called by them."""
        if how == "arg":
            return self.program.params[key].name
        if how == "capture":
            self._captures = self._captures or capture_paths(self.program)
            return self._captures[key]
        base = self.rows[parent].path
        return f"{base}.{key}" if how == "attr" else f"{base}[{key!r}]"

    def locate(self) -> None:
        """Add the addresses of all arrays to the sample."""
        for row, array in zip(self.rows, self.objects, strict=True):
            if isinstance(array, np.ndarray):
                self.sample[f"{row.path}.data"] = array.__array_interface__["data"][0] if array.size else 0

    def length(self, index: int) -> int:
        """Length of a sequence row."""
        return self.rows[index].length

    def keys(self, index: int) -> tuple[object, ...]:
        """Keys of a mapping row."""
        return self.rows[index].keys


class RecordedReader:
    """Reads from a recorded signature; a read that it does not hold refuses the plan."""

    def __init__(self, program: Program, signature: Signature, sample: Mapping[str, int]) -> None:
        self.program = program
        self.recorded = {(row.how, row.parent, row.key): i for i, row in enumerate(signature.rows)}
        self.rows = [replace(row, writable=False) for row in signature.rows]
        self.sample: dict[Any, int] = dict(sample)
        for i, row in enumerate(self.rows):
            if row.kind == "array":
                # addresses and strides are not recorded: arguments are taken to be apart and densely strided
                self.sample.setdefault(f"{row.path}.data", (i + 1) << 38)
                step = 1 << 4
                for axis in reversed(range(row.ndim)):
                    extent = self.sample.setdefault(f"{row.path}.shape[{axis}]", 2 if row.shape is None
                                                    else row.shape[axis])
                    self.sample.setdefault(f"{row.path}.strides[{axis}]", step)
                    step *= max(extent, 1)

    def read(self, how: str, parent: int, key: Any) -> int:
        """Row index of what was recorded for this read."""
        found = self.recorded.get((how, parent, key))
        if found is None:
            raise PlanRefused(f"the recorded signature does not hold {how} {key!r}", kind="signature")
        return found

    def locate(self) -> None:
        """The sample holds addresses already."""

    def length(self, index: int) -> int:
        """Length of a sequence row."""
        return self.rows[index].length

    def keys(self, index: int) -> tuple[object, ...]:
        """Keys of a mapping row."""
        return self.rows[index].keys


def capture_paths(program: Program) -> list[str]:
    """The path of each capture: its name, with its module in front where something else goes by that name."""
    taken = {param.name for param in program.params}
    values = taken | {capture.name for capture in program.captures}  # what other paths begin with
    paths = []
    for capture in program.captures:
        plain = capture.name.replace("|", ".")  # a variable of a helper's closure
        for path in (plain, f"{capture.module}.{plain}", f"{capture.module}:{plain}", f"{capture.module}:{capture.name}"):
            if path not in taken and ("." not in path or path.partition(".")[0] not in values):
                break
        else:
            path = f"{capture.scope}:{capture.module}:{capture.name}"
        taken.add(path)
        paths.append(path)
    return paths
