"""Packs on the disk: constant operands in the kernels' own layouts, written by `prebake pack`, mapped by every process.

A folder of packs holds `packs.json`, the arrays that were packed as they are, and a file of packs for each layout:

    {"digest": "<blake2b-32 of every byte after this line>",
    "stamp": {"packs_format": 1, "prebake_version": ..., "platform": ...},
    "object": "models.risk:MODEL",
    "arrays": {"file": NAME, "size": BYTES, "items": [[PLACE, BYTES, DIGEST], ...]},
    "names": {"layers[0].w": [ITEM, OFFSET, DTYPE, SHAPE, STRIDES], ...},
    "packs": {LAYOUT: {"file": NAME, "size": BYTES, "levels": [CPU LEVEL, ...],
                       "items": [[PLACE, BYTES, DIGEST, ITEM, OFFSET, DTYPE CODE, K, N, ROW STRIDE, COLUMN STRIDE], ...]}}}

Nothing is matched by name: an array is served from packs when its bytes are those that were packed. `freeze(obj, packs=...)`
compares them, and puts read-only arrays over the mapped file in the places of those that are equal; what differs is
frozen and packed in the process, with one warning. So packs of other weights are never used, and the memory is shared.
A file's digests are computed once for its identity (`cache.py`), not at every start. What does not fit is refused with
one warning that names the field; calls are served, from packs made in the process (option `strict`: BundleError).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from stat import S_ISREG
from typing import Any

import numpy as np

from .. import flags
from ..dtypes import dtype_from_name
from ..errors import BundleError
from ..version import PACKS_FORMAT, VERSION
from . import _dispatch, bundle, cache
from .log import log

MANIFEST = "packs.json"
is_packing = False  # `prebake pack` is at work: a folder that is not there yet is no fault
_STAMP = ("packs_format", "prebake_version", "platform")
_WHAT = "packs '{}' were not used"
_NAMED = 3  # arrays that a message names
_EFFECT = "constant operands are packed in each process"


def host_stamp() -> dict[str, Any]:
    """The stamp of packs that would be written here and now."""
    return {"packs_format": PACKS_FORMAT, "prebake_version": VERSION, "platform": bundle.platform_tag()}


class Packs(Mapping[str, np.ndarray]):
    """A folder of packs. As a mapping: the arrays that were packed, by their paths in the object, read-only.

    accepted: they are used; else `error` says why not. level: the CPU level of this host that they hold packs for. refused:
    layouts that were asked for and cannot be served, with the error.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.name = os.path.basename(self.path)
        self.error: BundleError | None = None
        self.level, self.object = "", ""
        self.refused: dict[str, BundleError] = {}
        self._arrays: list[Any] = []  # Frozen of each item
        self._sizes: dict[int, list[int]] = {}
        self._names: dict[str, list[Any]] = {}
        self._records: dict[str, Any] = {}
        self._raw_names: dict[str, Any] = {}  # as the manifest has them
        self._files: dict[str, tuple[Any, tuple[int, ...]]] = {}  # layout -> mapped file and its identity
        self._stored: dict[str, list[dict[Any, Any]]] = {}
        self._manifest: tuple[int, ...] = ()
        for _ in range(bundle._ATTEMPTS):
            self.error, folder = None, bundle._identity(self.path)
            self.refused.clear()
            self._stored.clear()
            try:
                self._load()
            except BundleError as error:
                self.error = error
            if bundle._identity(self.path)[:2] == folder[:2]:
                break  # else other packs took this place while it was read
        for refusal in self.refused.values():
            bundle.report(refusal)

    @property
    def accepted(self) -> bool:
        """Whether the folder passed every check that was made so far."""
        return self.error is None

    def __repr__(self) -> str:
        state = f"level {self.level}, {len(self)} arrays" if self.accepted else f"refused: {self.reason}"
        return f"<prebake.Packs {self.path!r} {state}>"

    @property
    def reason(self) -> str:
        """Why they are not used: '' or one of the reasons of misses."""
        return self.error.reason if self.error is not None else ""

    def __getitem__(self, name: str) -> np.ndarray:
        item, offset, dtype, shape, strides = self._names[name]
        return np.ndarray(tuple(shape), dtype_from_name(dtype), self._arrays[item], offset, tuple(strides))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def is_current(self) -> bool:
        """Whether the folder still holds the manifest that was loaded."""
        return bundle._identity(os.path.join(self.path, MANIFEST)) == self._manifest

    def find(self, data: np.ndarray) -> Any:
        """The mapped buffer that holds the same bytes as a vector of bytes, or None."""
        for item in self._sizes.get(data.nbytes, ()):
            if self._arrays[item].equals(data.data):
                self._arrays[item].let_go()  # kernels read packs; who reads the array brings its pages back
                return self._arrays[item]
        return None

    def layouts(self) -> dict[str, list[str]]:
        """Layout -> the CPU levels that use it."""
        return {layout: list(record["levels"]) for layout, record in self._records.items()}

    def damages(self) -> list[str]:
        """One line for each file that is not what was written, all CPU levels, all bytes read now."""
        found = []
        for field, record in (("arrays", self._arrays_record), *((f"packs.{k}", r) for k, r in self._records.items())):
            try:
                self._check(field, record, self._open(field, record), again=True)
            except BundleError as error:
                found.append(f"{error.field}: built for {error.built}, here {error.here}; fix: {error.fix}")
        return found

    # --- loading

    def refuse(self, field: str, built: object, here: object, reason: str = "STALE_STAMP", fix: str = "",
               effect: str = _EFFECT) -> BundleError:
        """The error for something that does not fit."""
        return BundleError(self.name, field=field, built=built, here=here, effect=effect, reason=reason, what=_WHAT,
                           fix=fix or f"prebake pack {self.object or 'MODULE:OBJECT'} -o {self.path}")

    def _load(self) -> None:
        data = self._read_manifest()
        try:
            manifest = bundle.parse_json(data)
            stamp, names, records = dict(manifest["stamp"]), dict(manifest["names"]), dict(manifest["packs"])
            arrays, self.object = manifest["arrays"], str(manifest["object"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self.refuse(MANIFEST, "a JSON object of this format", f"{type(error).__name__}: {error}") from None
        here = host_stamp()
        for field in _STAMP:
            if stamp.get(field) != here[field]:
                raise self.refuse(field, stamp.get(field), here[field])
        wrong = bundle.wrong_digest(data)
        if wrong is not None:
            raise self.refuse("manifest digest", *wrong)
        self._arrays_record, self._records, self._raw_names = arrays, records, names
        opened = self._open("arrays", arrays)
        self._check("arrays", arrays, opened)
        mapped = opened[0]
        self._files = {}
        for layout, record in records.items():  # all at once: another folder may take this place later
            try:
                self._files[layout] = self._open(f"packs.{layout}", record)
            except BundleError as error:
                self.refused[layout] = error
        try:
            self._arrays = [mapped.part(at, size, partial(self._packs_of, number))
                            for number, (at, size, _) in enumerate(arrays["items"])]
            self._sizes = {}
            for number, (_, size, _) in enumerate(arrays["items"]):
                self._sizes.setdefault(size, []).append(number)
            self._names = names
            for name in names:
                self[name]
            levels = [level for record in records.values() for level in record["levels"]]
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise self.refuse(MANIFEST, "arrays inside their file", f"{type(error).__name__}: {error}") from None
        usable = bundle.usable_levels()
        self.level = next((level for level in usable if level in levels), "")
        if not self.level:
            raise self._no_level(usable[0])
        for layout, record in records.items():  # what the best kernels read is checked now, the rest when it is asked for
            if self.level in record["levels"]:
                self._stored[layout] = self._layout(layout)

    def _no_level(self, wanted: str) -> BundleError:
        levels = sorted({level for record in self._records.values() for level in record["levels"]})
        return self.refuse("cpu_level", ", ".join(levels) or "no level", wanted, "CPU_LEVEL",
                           f"prebake pack {self.object} -o {self.path} --targets {','.join([*levels, wanted])}")

    def _read_manifest(self) -> bytes:
        path = os.path.join(self.path, MANIFEST)
        try:
            if not S_ISREG(os.stat(path).st_mode):
                raise self.refuse(MANIFEST, "a file", "no regular file")
            with open(path, "rb") as file:
                self._manifest = bundle._identity(file.fileno())
                return file.read(bundle._BIGGEST)
        except OSError as error:
            raise self.refuse(MANIFEST, "a folder of packs", error.strerror or str(error), "NO_BUNDLE") from None

    def _open(self, field: str, record: Any) -> tuple[Any, tuple[int, ...]]:
        """(the mapped file of a record, its identity), nothing of it checked but its size."""
        try:
            name, size = record["file"], int(record["size"])
        except (KeyError, TypeError, ValueError) as error:
            raise self.refuse(field, "a file with its items", f"{type(error).__name__}: {error}") from None
        if not bundle.is_plain_name(name):
            raise self.refuse(field, f"file name {name!r}", "plain names only")
        try:
            file = os.open(os.path.join(self.path, name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if not S_ISREG(os.fstat(file).st_mode):
                    raise self.refuse(field, name, "no regular file")
                identity = cache.file_identity(file)
                if identity[2] != size:
                    raise self.refuse(f"{field} size", f"{size} bytes", f"{identity[2]} bytes")
                return _dispatch.Mapped(file, size), identity
            finally:
                os.close(file)
        except (OSError, ValueError, OverflowError) as error:
            raise self.refuse(field, name, getattr(error, "strerror", "") or str(error)) from None

    def _check(self, field: str, record: Any, opened: tuple[Any, tuple[int, ...]], again: bool = False) -> None:
        """Nothing where every item holds what was written. again: read it whatever was found before.

        The identity is that of when the file was opened: a change since then gives the file another one.
        """
        mapped, identity = opened
        try:
            items = [(int(item[0]), int(item[1]), str(item[2])) for item in record["items"]]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise self.refuse(field, "a file with its items", f"{type(error).__name__}: {error}") from None
        whole = bundle.file_digest("".join(digest for _, _, digest in items).encode())
        if again or not cache.is_checked(identity, whole):
            self._check_items(field, mapped, items)
            cache.record_check(identity, whole)

    def _check_items(self, field: str, mapped: Any, items: list[tuple[int, int, str]]) -> None:
        view = memoryview(mapped)
        for number, (at, size, digest) in enumerate(items):
            if at < 0 or size < 1 or at + size > mapped.size:
                raise self.refuse(f"{field}.items[{number}]", "inside its file", f"bytes {at} to {at + size}")
            found = bundle.file_digest(view[at:at + size])
            if found != digest:
                raise self.refuse(f"{field}.items[{number}] digest{self._held(field, number)}", digest[:16], found[:16])
        log(f"packs {self.name}: {field} checked, {mapped.size} bytes")

    def _held(self, field: str, number: int) -> str:
        """' (of 'layers[0].w')': the arrays that an item of a file holds, or whose packs it holds."""
        with suppress(KeyError, TypeError, ValueError, IndexError):
            item = number if field == "arrays" else self._records[field.partition(".")[2]]["items"][number][3]
            named = [repr(name) for name, row in self._raw_names.items() if row[0] == item]
            return f" (of {', '.join(named[:_NAMED])})" if named else ""
        return ""

    def _layout(self, layout: str) -> list[dict[Any, Any]]:
        """For each array: its packs of a layout. Where they do not fit, `refused` says why and there are none."""
        found: list[dict[Any, Any]] = [{} for _ in self._arrays]
        if layout not in self._records:
            self.refused[layout] = self._no_level(f"kernels that read {layout}")
        if layout in self.refused:
            return found
        record = self._records[layout]
        try:
            self._check(f"packs.{layout}", record, self._files[layout])
            for at, size, _, item, *key in record["items"]:
                found[item][tuple(key)] = (self._files[layout][0], at, size)
            return found
        except (TypeError, ValueError, IndexError) as error:
            self.refused[layout] = self.refuse(f"packs.{layout}", "packs of this format", f"{type(error).__name__}: {error}")
        except BundleError as error:
            self.refused[layout] = error
        return [{} for _ in self._arrays]

    def _packs_of(self, item: int, layout: str) -> dict[Any, Any]:
        """The packs of an array in a layout (called once for each operand that a kernel reads)."""
        found = self._stored.get(layout)
        if found is None:
            found = self._stored[layout] = self._layout(layout)
            if layout in self.refused:
                bundle.report(self.refused[layout])
        return found[item]

    def report_differences(self, differing: list[str], count: int) -> None:
        """Warn that arrays do not hold what was packed. differing: descriptions, of `count` arrays in all."""
        if differing:
            bundle.report(self.refuse("arrays", f"the values of '{self.object}' when it was packed",
                                      f"{len(differing)} of {count} hold others: {', '.join(differing[:_NAMED])}"
                                      + (f" and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""),
                                      "STALE_SOURCE",
                                      effect="these are packed in each process"))


_opened: dict[str, Packs] = {}  # real path -> packs


def load_packs(path: str | os.PathLike[str]) -> Packs:
    """The packs of a folder, mapped and checked once in a process; a mapping of paths to read-only arrays.

    Packs that do not fit warn and have `.error` (option `strict`: BundleError is raised). Raises BundleError where there
    is no folder.
    """
    folder = os.fspath(path)
    if not os.path.isdir(folder):
        here = "holds no folder there" if os.path.lexists(folder) else "has no such folder"
        raise BundleError(folder, field="path", built="", here=here, effect=_EFFECT, what=_WHAT,
                          fix=f"prebake pack MODULE:OBJECT -o {folder}, or the right path")
    key = os.path.realpath(folder)
    known = _opened.get(key)
    if known is None or not (known.accepted and known.is_current()):
        known = _opened[key] = Packs(folder)
    if known.error is not None:
        bundle.report(known.error)
    return known


def packs_for(given: str | os.PathLike[str] | Packs | None) -> Packs | None:
    """The packs that `freeze` uses: those it was given, else those that PREBAKE_PACKS names; None without any."""
    setting = flags.read("PREBAKE_PACKS")
    if setting.lower() in flags.OFF or is_packing:
        return None
    place = given if given is not None else setting
    if isinstance(place, Packs):
        return place if place.accepted else None
    if not place:
        return None
    try:
        found = load_packs(place)
    except BundleError as error:
        bundle.report(error)
        return None
    return found if found.accepted else None


def rows() -> list[dict[str, Any]]:
    """One row for each folder that was opened, as `bundle.rows` has them."""
    found = []
    for packs in _opened.values():
        error = packs.error or next(iter(packs.refused.values()), None)
        found.append({"path": packs.path, "accepted": error is None, "level": packs.level, "functions": [],
                      "reason": "" if error is None else error.reason, "message": "" if error is None else str(error),
                      "refused": {layout: e.reason for layout, e in packs.refused.items()}})
    return found
