"""`prebake pack`: the constant operands of a model, packed where the weights are, for every process that serves them.

The folder holds the arrays as they are and, for each CPU level asked for, their packs (`vm/run/packs.py` has the form and
reads it). Which operands: those that the kernels of the given bundles read; without a bundle every matrix as the right
operand of a product (`x @ w`), and with `transposed` as that of `x @ w.T`, too. What is not there is packed at run time.
The folder is written beside its place and renamed into it: readers and other writers see whole folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import FunctionType
from typing import IO, Any

import numpy as np

from ..templates.levels import Level, host_level, load_stencils, runnable_levels
from ..vm.dtypes import dtype_text
from ..vm.errors import ConfigError
from ..vm.plan.code import PRODUCT_DTYPES
from ..vm.plan.signature import DTYPE_NAMES
from ..vm.run import _dispatch, bundle, packs
from ..vm.run.freeze import arrays_of, freeze, holder_of, offset_in
from ..vm.run.precision import rounded
from .build import _replace as replace_folder
from .build import choose_levels, scratch_beside

_PAGE = 4096  # of large items, so that their pages can be let go; and behind the last one
_LINE = 64
_MOST_MATRICES = 4096  # of one array with more than two axes


@dataclass(frozen=True)
class Operand:
    """A matrix (k, n) inside an array's memory, as kernels read it: offset and strides in bytes."""

    dtype: int
    k: int
    n: int
    offset: int
    row_stride: int
    col_stride: int


@dataclass
class Report:
    """What was written. matrices: packed operands of one CPU level; sizes in bytes, packs_bytes by level."""

    path: str
    arrays: int = 0
    matrices: int = 0
    array_bytes: int = 0
    packs_bytes: dict[str, int] = field(default_factory=dict)
    is_exact: bool = False

    def __str__(self) -> str:
        what = "what the bundle's kernels read" if self.is_exact else "every matrix as the right operand of a product"
        lines = [f"{self.arrays} arrays, {self.array_bytes:,} bytes; {self.matrices} packs: {what}"]
        lines += [f"  {level:<12} {size:>14,} bytes of packs" for level, size in self.packs_bytes.items()]
        return "\n".join([*lines, f"wrote {self.path}"])


def pack(what: str, output: str | os.PathLike[str], *, targets: Sequence[str] | None = None,
         bundles: Iterable[str | os.PathLike[str]] = (), transposed: bool = False) -> Report:
    """Write the packs of MODULE:OBJECT (or FILE.py:OBJECT) to a folder.

    OBJECT: a model object, dictionary, list or array; `OBJECT()` for a function without arguments that makes one; or a
    decorated function, whose captured arrays are meant. targets: CPU levels (this host's best one). bundles: folders
    whose kernels say which operands they read. Raises ConfigError or BundleError.
    """
    place = Path(output)
    if place.exists() and (not place.is_dir() or (any(place.iterdir()) and not (place / packs.MANIFEST).is_file())):
        raise ConfigError(f"{place} is there and holds no packs", key="output", hint="name another folder, or remove this one")
    levels = _levels(targets)
    packs.is_packing = True
    try:
        value, found = _arrays_in(what)
    finally:
        packs.is_packing = False
    wanted = _operands_of_bundles(bundles, value)
    return _write(what, place, found, levels, wanted, transposed)


def _levels(targets: Sequence[str] | None) -> list[Level]:
    if not targets:
        return [host_level()]
    return list(choose_levels(targets))


def _arrays_in(what: str) -> tuple[Any, dict[str, np.ndarray]]:
    """(the object, {path: frozen array}) of MODULE:OBJECT. Raises ConfigError where it holds no arrays."""
    from .inspecting import object_at

    called = what.endswith("()")
    value: Any = object_at(what.removesuffix("()"))
    if called:
        value = value()
    held = value
    if isinstance(value, _dispatch.JitFunction):
        held = {capture.name: value.read_capture(i) for i, capture in enumerate(value.bytecode.captures)}
    held = held if isinstance(held, FunctionType) else freeze(held)
    found = {path: array for path, array in arrays_of(held) if array.size and type(array) is np.ndarray}
    if isinstance(value, _dispatch.JitFunction):
        found = {path[2:].replace("']", "", 1): array for path, array in found.items()}  # ['w'].b -> w.b
    if not found:
        kind = "captures no arrays: name the object that holds its weights" if value is not held else \
            f"is {type(value).__name__} and holds no arrays" + (f"; {what}() calls it" if callable(value) else "")
        raise ConfigError(f"'{what}' {kind}", key="MODULE:OBJECT")
    return value, found


# --- which operands -----------------------------------------------------------------------------------------------------

_Wanted = dict[tuple[str, tuple[int, ...]], list[Operand]]


def _operands_of_bundles(folders: Iterable[str | os.PathLike[str]], value: Any) -> _Wanted | None:
    """(dtype, shape) of a constant -> operands that kernels read from it; None without a bundle."""
    found = []
    for folder in folders:
        opened = bundle.load_bundle(folder)
        if opened.error is not None and opened.error.reason != "CPU_LEVEL":
            raise opened.error
        found += list(opened.records.values())
    if isinstance(value, _dispatch.JitFunction) and not found:
        beside, _ = bundle.find_bundle(value.name, value.fn.__code__.co_filename)
        found = [] if beside is None else [beside.records[value.name]]
    if not found:
        return None
    wanted: _Wanted = {}
    for record in found:
        for plan in record["plans"]:
            for row, dtype, *numbers in plan["code"]["packs"]:
                shape = tuple(plan["rows"][row]["shape"])
                operands = wanted.setdefault((plan["rows"][row]["dtype"], shape), [])
                operand = Operand(PRODUCT_DTYPES[dtype], *numbers)
                if operand not in operands:
                    operands.append(operand)
    return wanted


def _operands_of(array: np.ndarray, wanted: _Wanted | None, transposed: bool) -> list[Operand]:
    name = DTYPE_NAMES.get(array.dtype, "")
    if wanted is not None:
        return wanted.get((name, array.shape), []) if array.flags.c_contiguous else []
    if name not in ("f32", "f64") or array.ndim < 2:
        return []
    found = []
    count = int(np.prod(array.shape[:-2]))
    for index in product(*map(range, array.shape[:-2])) if count <= _MOST_MATRICES else ():
        at = sum(i * stride for i, stride in zip(index, array.strides, strict=False))
        (k, n), (rows, columns) = array.shape[-2:], array.strides[-2:]
        found.append(Operand(PRODUCT_DTYPES[name], k, n, at, rows, columns))
        if transposed:
            found.append(Operand(PRODUCT_DTYPES[name], n, k, at, columns, rows))
    return found


# --- writing --------------------------------------------------------------------------------------------------------------

def _write(what: str, place: Path, found: Mapping[str, np.ndarray], levels: Sequence[Level], wanted: _Wanted | None,
           transposed: bool) -> Report:
    buffers: dict[int, Any] = {}  # id of a Frozen -> it
    names: dict[str, list[Any]] = {}
    operands: dict[tuple[int, Operand], None] = {}  # (id of a Frozen, operand of its bytes), in order
    for path, array in found.items():
        base = holder_of(array)
        buffers[id(base)] = base
        at = offset_in(base, array)
        names[path] = [id(base), at, dtype_text(array.dtype), list(array.shape), list(array.strides)]
        for o in _operands_of(array, wanted, transposed):
            operands[id(base), Operand(o.dtype, o.k, o.n, at + o.offset, o.row_stride, o.col_stride)] = None
    report = Report(str(place), len(found), len(operands), is_exact=wanted is not None)
    with scratch_beside(place) as scratch:
        folder = Path(scratch) / "packs"
        folder.mkdir()
        with _File(folder / "arrays.bin") as file:
            numbers = {key: file.add(buffers[key]) for key in buffers}
        manifest: dict[str, Any] = {"stamp": packs.host_stamp(), "object": what, "arrays": file.record(),
                                    "names": {path: [numbers[row[0]], *row[1:]] for path, row in names.items()}, "packs": {}}
        report.array_bytes = file.size
        for level in levels:
            layout = layout_of(level)
            if layout in manifest["packs"]:  # v2 and generic have the same registers
                manifest["packs"][layout]["levels"].append(level.target)
            else:
                with _File(folder / f"packs-{layout}.bin") as file:
                    for key, o in operands:
                        packed = pack_operand(level, buffers[key], o.dtype, o.k, o.n, o.offset, o.row_stride, o.col_stride)
                        file.add(packed, (numbers[key], o.offset, o.dtype, o.k, o.n, o.row_stride, o.col_stride))
                manifest["packs"][layout] = {**file.record(), "levels": [level.target]}
            report.packs_bytes[level.target] = int(manifest["packs"][layout]["size"])
        _write_manifest(folder / packs.MANIFEST, manifest)
        replace_folder(place, folder)
    return report


class _File:
    """A file of items, each at a place of its own alignment; equal bytes of arrays are written once."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, 0
        self.items: list[list[Any]] = []
        self.file: IO[bytes] = open(path, "wb")  # noqa: SIM115 - closed by __exit__
        self.known: dict[str, int] = {}

    def add(self, data: Any, about: tuple[int, ...] = ()) -> int:
        """Write an item; its number."""
        view = memoryview(data).cast("B")
        digest = bundle.file_digest(view)
        if not about and digest in self.known:
            return self.known[digest]
        self.pad(_PAGE if len(view) >= 16 * _PAGE else _LINE)
        self.known[digest] = len(self.items)
        self.items.append([self.size, len(view), digest, *about])
        self.file.write(view)
        self.size += len(view)
        return len(self.items) - 1

    def pad(self, to: int) -> None:
        gap = -self.size % to
        self.file.write(bytes(gap))
        self.size += gap

    def record(self) -> dict[str, Any]:
        """Its part of the manifest."""
        return {"file": self.path.name, "size": self.size, "items": self.items}

    def __enter__(self) -> _File:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.file.write(bytes(_PAGE))  # kernels may read a little past the last panel
            self.size += _PAGE
            self.pad(_PAGE)
            self.file.flush()
            os.fsync(self.file.fileno())
        self.file.close()


def _write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    import json

    body = json.dumps(manifest, ensure_ascii=True, separators=(",", ":"))[1:].encode() + b"\n"
    with open(path, "wb") as file:
        file.write(bundle.with_digest(body))
        file.flush()
        os.fsync(file.fileno())


# --- one operand --------------------------------------------------------------------------------------------------------

def layout_of(level: Level) -> str:
    """Name of the pack layout of a CPU level: that of its library where it runs here, else by its registers."""
    if level in runnable_levels():
        return _dispatch.pack_layout(load_stencils(level.name).table)
    here = host_level()
    if _dispatch.pack_layout(load_stencils(here.name).table) != _layout_by_registers(here):
        raise ConfigError(f"packs for {level.target} cannot be made on this host", key="targets",
                          hint="run `prebake pack` on a machine of that level")
    return _layout_by_registers(level)


def _layout_by_registers(level: Level) -> str:
    return f"f32p{level.register_bits // 16}-f64p{level.register_bits // 32}-narrow{NARROW}"


NARROW = 4  # up to this many columns are contiguous columns, not panels (PBP_NARROW)


def pack_operand(level: Level, buffer: Any, dtype: int, k: int, n: int, offset: int, row_stride: int,
                 col_stride: int) -> Any:
    """The bytes of one packed operand: by the level's own library, or, where that cannot run here, by `pack_by_registers`."""
    if level in runnable_levels():
        return _dispatch.pack_operand(load_stencils(level.name).table, dtype, k, n, buffer, offset, row_stride, col_stride)[1]
    matrix = np.ndarray((k, n), np.float64 if dtype == PRODUCT_DTYPES["f64"] else np.float32, buffer, offset,
                        (row_stride, col_stride))
    precision = _PRECISION_OF.get(dtype)
    packed = pack_by_registers(level.register_bits, matrix) if precision is None else \
        pack_halves_by_registers(level.register_bits, matrix, precision)
    return packed.reshape(-1).view(np.uint8).data


def pack_by_registers(bits: int, matrix: np.ndarray) -> np.ndarray:
    """A matrix (k, n) in panels of two registers a row, zero-padded; up to NARROW columns: each padded to whole registers.

    The layout of `templates/include/pb_pack.h`, for levels whose code cannot run on this host; a test holds both equal.
    """
    k, n = matrix.shape
    lanes = bits // 8 // matrix.itemsize
    if n <= NARROW:
        columns = np.zeros((n, -(-k // lanes) * lanes), matrix.dtype)
        columns[:, :k] = matrix.T
        return columns
    width = 2 * lanes
    panels = np.zeros((-(-n // width), k, width), matrix.dtype)
    for number in range(len(panels)):
        part = matrix[:, number * width:(number + 1) * width]
        panels[number, :, :part.shape[1]] = part
    return panels


_PRECISION_OF = {PRODUCT_DTYPES["bf16"]: "bfloat16", PRODUCT_DTYPES["f16"]: "float16"}


def pack_halves_by_registers(bits: int, matrix: np.ndarray, precision: str) -> np.ndarray:
    """A float32 matrix (k, n) in panels of 16-bit elements, whatever n (see `templates/include/pb_tiles.h`): float16 in
    order; bfloat16 with columns j and j + lanes beside each other."""
    k, n = matrix.shape
    lanes = bits // 32
    whole = np.zeros((k, -(-n // (2 * lanes)) * 2 * lanes), np.float32)
    whole[:, :n] = rounded(matrix, precision)
    panels = whole.reshape(k, -1, 2, lanes).transpose(1, 0, 2, 3)
    if precision == "float16":
        return np.ascontiguousarray(panels, np.float16)
    halves = (np.ascontiguousarray(panels).view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(halves.swapaxes(2, 3))
