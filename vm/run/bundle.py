"""Bundles: where they lie, whether they fit this machine and this source, and what they hold for a function.

Nothing of a bundle is loaded before its stamp and the digests of its files are checked. A bundle that does not fit
is refused with one warning that names the field; its functions are then served by the JIT (option `strict`:
BundleError).
The manifest's form is in `manifest.py`; here it stays a dictionary, to keep start-up small.
"""

from __future__ import annotations

import os
import sys
from _blake2 import blake2b
from stat import S_ISREG
from typing import Any

from .. import flags
from ..errors import BundleError
from ..version import BUNDLE_FORMAT, MSBC_VERSION, VERSION
from . import _dispatch
from .log import log, warn
from .names import module_file

MANIFEST = "manifest.json"
FOLDER = "__prebake__"

# The stamp: what a bundle was built for, and how that compares with what is here.
#   equal: must be the same; ignore: shown by `explain` and `ready` only
STAMP_FIELDS: dict[str, str] = {
    "bundle_format": "equal",
    "prebake_version": "equal",
    "msbc_version": "equal",
    "abi_version": "equal",
    "platform": "equal",
    "compiler": "ignore",
}
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_DIGEST_HEAD, _DIGEST_TAIL = b'{"digest": "', b'",\n'  # around 64 hexadecimal digits, on the first line
_BIGGEST = 256 << 20  # no manifest is larger than this


def file_digest(data: bytes | memoryview) -> str:
    """64 hexadecimal digits over a file's bytes."""
    return blake2b(data, digest_size=32).hexdigest()


def with_digest(body: bytes) -> bytes:
    """The bytes of a manifest: the line with its digest, then the rest of its object."""
    return _DIGEST_HEAD + file_digest(body).encode() + _DIGEST_TAIL + body


def wrong_digest(manifest: bytes) -> tuple[str, str] | None:
    """(digest that a manifest names, digest of its bytes), 16 digits each; None where they are equal."""
    head, at, body = manifest.partition(_DIGEST_TAIL)
    found = file_digest(body)
    if at and head == _DIGEST_HEAD + found.encode():
        return None
    return head[len(_DIGEST_HEAD):][:16].decode("ascii", "replace"), found[:16]


def is_plain_name(name: object) -> bool:
    """Whether a file name that a manifest gives stays inside its folder."""
    return isinstance(name, str) and bool(name) and name[0] not in ".-" and _NAME_CHARACTERS.issuperset(name)


def records_digest(manifest: bytes) -> str:
    """64 hexadecimal digits over the functions of a manifest's bytes: shared objects hold it.

    A kernel reads what its plan in the manifest says and nothing else checks that again, so that one must not be
    edited without the other.
    """
    _, _, body = manifest.partition(_DIGEST_TAIL)
    return file_digest(body[:body.rfind(b',"stamp":')])


def host_stamp() -> dict[str, Any]:
    """The stamp of a bundle that would be built here and now (`compiler` is the build's to fill in)."""
    return {"bundle_format": BUNDLE_FORMAT, "prebake_version": VERSION, "msbc_version": MSBC_VERSION,
            "abi_version": _dispatch.ABI_VERSION, "platform": platform_tag(), "compiler": ""}


def platform_tag() -> str:
    """Operating system, machine and byte order: 'linux-x86_64-little'."""
    return f"{sys.platform}-{os.uname().machine}-{sys.byteorder}"


def usable_levels() -> list[str]:
    """CPU levels whose code may run here, the best one first; PREBAKE_CPU lowers the ceiling."""
    from ...templates.levels import runnable_levels

    return [level.target for level in runnable_levels()]


class Bundle:
    """A bundle folder that was looked at. accepted: its kernels are used; else `error` says why not.

    functions: qualified names that it holds. level: CPU level of the shared object in use.
    """

    def __init__(self, path: str, effect: str = "its functions use the JIT") -> None:
        self.path = os.path.abspath(path)
        self.name = os.path.basename(self.path)
        self.error: BundleError | None = None
        self.level = ""
        self.stamp: dict[str, Any] = {}
        self.targets: dict[str, Any] = {}
        self.records: dict[str, Any] = {}
        self.table: Any = None  # capsule "prebake.kernels"
        self.refused: dict[str, str] = {}  # function -> reason, of those that were asked for and did not fit
        self._effect = effect
        self._files: dict[str, tuple[int, ...]] = {}  # file name -> identity of what was read
        for _ in range(_ATTEMPTS):
            self.error, folder = None, _identity(self.path)
            try:
                self._load()
            except BundleError as error:
                self.error = error
            if _identity(self.path)[:2] == folder[:2]:
                break  # else another build took this place while it was read: look at that one

    @property
    def accepted(self) -> bool:
        """Whether the bundle passed every check and is in use."""
        return self.error is None

    @property
    def functions(self) -> tuple[str, ...]:
        """Qualified names of the functions that it holds, sorted."""
        return tuple(sorted(self.records))

    @property
    def reason(self) -> str:
        """Why calls miss because of this bundle: '' or one of the reasons."""
        return self.error.reason if self.error is not None else ""

    def __repr__(self) -> str:
        state = f"level {self.level}, {len(self.records)} functions" if self.accepted else f"refused: {self.reason}"
        return f"<prebake.Bundle {self.path!r} {state}>"

    def is_current(self) -> bool:
        """Whether the folder still holds the files that were loaded."""
        return all(_identity(os.path.join(self.path, name)) == known for name, known in self._files.items())

    # --- loading

    def _refuse(self, field: str, built: object, here: object, fix: str, reason: str = "STALE_STAMP") -> BundleError:
        return BundleError(self.name, field=field, built=built, here=here, effect=self._effect, fix=fix, reason=reason)

    def unfit(self, function: str, field: str, built: object, here: object, fix: str,
              reason: str = "STALE_STAMP") -> BundleError:
        """The error for one function that the bundle does not fit; its others are served."""
        return BundleError(self.name, field=field, built=built, here=here, effect=f"calls to '{function}' use the JIT",
                           fix=fix, reason=reason, what=f"kernel bundle '{{}}' is not used for '{function}'")

    def _read(self, name: Any, field: str) -> bytes:
        """The bytes of a file of the bundle; only plain names are looked for."""
        if not is_plain_name(name):
            raise self._refuse(field, f"file name {name!r}", "plain names only", _REBUILD)
        path = os.path.join(self.path, name)
        try:
            if not S_ISREG(os.stat(path).st_mode):  # a pipe or a device would never end
                raise self._refuse(field, name, "no regular file", _REBUILD)
            with open(path, "rb") as file:
                self._files[name] = _identity(file.fileno())
                data = file.read(_BIGGEST + 1)
        except OSError as error:
            here = error.strerror or str(error)
            if name == MANIFEST and isinstance(error, FileNotFoundError):
                here = f"no {MANIFEST} in {self.path}: is that the folder that `prebake build` wrote?"
            raise self._refuse(field, name, here, _REBUILD) from None
        if len(data) > _BIGGEST:
            raise self._refuse(field, name, "a file beyond 256 MB", _REBUILD)
        return data

    def _load(self) -> None:
        data = self._read(MANIFEST, "manifest")
        try:
            manifest = parse_json(data)
            self.stamp = dict(manifest["stamp"])
            targets, records = dict(manifest["targets"]), dict(manifest["functions"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._refuse("manifest", "a JSON object with stamp, targets, functions",
                               f"{type(error).__name__}: {error}", _REBUILD) from None
        self._check_stamp()
        wrong = wrong_digest(data)
        if wrong is not None:
            raise self._refuse("manifest digest", *wrong, _REBUILD)
        level, target = self._choose_target(targets) if targets else ("", None)  # without kernels: programs alone
        try:
            files = [(record["msbc"], record["msbc_digest"], f"functions.{name}.msbc")
                     for name, record in records.items()]
            if target is not None:
                files.append((target["file"], target["digest"], f"targets.{level}"))
        except (KeyError, TypeError) as error:
            raise self._refuse("manifest", "files with digests", f"{type(error).__name__}: {error}", _REBUILD) from None
        for name, digest, field in files:
            found = file_digest(self._read(name, field))
            if found != digest:
                raise self._refuse(f"{field} digest", f"{name} {str(digest)[:16]}", found[:16], _REBUILD)
        if target is not None:
            table = self._load_library(target["file"], level, target["digest"])
            if _dispatch.kernel_records(table) != records_digest(data):
                raise self._refuse("functions", f"kernels for {_dispatch.kernel_records(table)[:16]}",
                                   f"a manifest edited since: {records_digest(data)[:16]}", _REBUILD)
            self.table = table
        self.level, self.targets, self.records = level, targets, records

    def _check_stamp(self) -> None:
        here = host_stamp()
        for field, rule in STAMP_FIELDS.items():
            if rule == "equal" and self.stamp.get(field) != here[field]:
                raise self._refuse(field, self.stamp.get(field), here[field], _REBUILD)
        unknown = sorted(set(self.stamp) - set(STAMP_FIELDS))
        if unknown:
            raise self._refuse(unknown[0], self.stamp[unknown[0]], "no such field", _REBUILD)

    def _choose_target(self, targets: dict[str, Any]) -> tuple[str, Any]:
        usable = usable_levels()
        for level in usable:
            if level in targets:
                return level, targets[level]
        raise self._refuse("cpu_level", ", ".join(sorted(map(str, targets))) or "no target", usable[0],
                           f"prebake build --targets {usable[0]}", "CPU_LEVEL")

    def _load_library(self, name: str, level: str, digest: str) -> Any:
        from importlib.machinery import ExtensionFileLoader, ModuleSpec

        # the extension's own name is the file name's first part; loading one file twice is not possible
        path = os.path.realpath(os.path.join(self.path, name))
        checked = self._files[name]
        known = _libraries.get(checked[:2])
        if known is not None and known[0] != digest:
            raise self._refuse(f"targets.{level}", name, "a file written over one that is in use",
                               "start the process again; builds and package managers put new files in place")
        if known is None:
            try:
                loader = ExtensionFileLoader(name.partition(".")[0], path)
                module = loader.create_module(ModuleSpec(loader.name, loader, origin=path))
                loader.exec_module(module)
                table = module.table
            except (ImportError, AttributeError, OSError) as error:
                raise self._refuse(f"targets.{level}", name, f"{type(error).__name__}: {error}", _REBUILD) from None
            if _identity(path) != checked:
                raise self._refuse(f"targets.{level}", name, "another file, while it was loaded", _REBUILD)
            known = _libraries[checked[:2]] = (digest, module, table)
        return known[2]

    def damaged_targets(self) -> list[str]:
        """One line for each shared object that is not what was built; loading looks at its own CPU level's alone."""
        found = []
        for level, target in sorted(self.targets.items()):
            try:
                if file_digest(self._read(target["file"], f"targets.{level}")) != target["digest"]:
                    found.append(f"targets.{level}: {target['file']} is not what was built; fix: {_REBUILD}")
            except BundleError as error:
                found.append(f"{error.field}: {error.built}, here {error.here}; fix: {_REBUILD}")
        return found

    # --- for one function

    def check_fresh(self, name: str, own_file: str | None) -> None:
        """Nothing when the sources of a function are what they were, or are not here. Raises BundleError.

        own_file: where the decorated function's code came from.
        """
        record = self.records[name]
        for source in record["sources"]:
            file = module_file(source["module"], source["file"])
            if file is None and own_file is not None and os.path.basename(own_file) == source["file"] \
                    and name.startswith(source["module"] + ":") and os.path.isfile(own_file):
                file = own_file
            if file is None or _is_fresh(file, source):
                continue
            what = f"{source['module']}:{source['qualname']}"
            raise self.unfit(name, "source", f"{what}, digest {source['digest'][:16]}",
                             f"another text in {file}",
                             "record, plan and build again (prebake build reports stale sources)", "STALE_SOURCE")

    def program_bytes(self, name: str) -> bytes:
        """The `.msbc` of a function, checked against its digest. Raises BundleError."""
        record = self.records[name]
        data = self._read(record["msbc"], f"functions.{name}.msbc")
        if file_digest(data) != record["msbc_digest"]:
            raise self._refuse(f"functions.{name}.msbc digest", record["msbc_digest"][:16], file_digest(data)[:16],
                               _REBUILD)
        return data

    def entries(self, name: str, max_shapes: int) -> list[Any]:
        """The plans of a function, ready to serve. Raises BundleError for a record that is none."""
        made: list[Any] = []
        if self.table is None:
            return made
        try:
            for plan in self.records[name]["plans"]:
                rows = tuple([_dispatch.row_of_json(row) for row in plan["rows"]])
                try:
                    entry = _dispatch.Entry(rows, plan["code"], max_shapes)
                except ImportError:  # of bfloat16, which is nowhere without ml_dtypes
                    continue
                count = entry.use_kernels(self.table, [(k["kernel"], k["bucket"]) for k in plan["kernels"]])
                if count:
                    entry.note = {k["kernel"]: k.get("gain", 0.0) for k in plan["kernels"]}
                    made.append(entry)
        except (KeyError, ValueError, TypeError, IndexError, OverflowError, AttributeError) as error:
            raise self._refuse(f"functions.{name}.plans", "plans of this format", f"{type(error).__name__}: {error}",
                               _REBUILD) from None
        return made


_REBUILD = "prebake build BUCKETS.yaml -o BUNDLE"
_ATTEMPTS = 20  # a folder that is built again and again while it is read
_libraries: dict[tuple[int, ...], tuple[str, Any, Any]] = {}  # device and inode -> digest, module, capsule
_fresh_files: dict[str, tuple[tuple[int, int], str, str | None]] = {}


def _identity(place: str | int) -> tuple[int, ...]:
    """Device, inode, size and time of what lies at a path (or behind a descriptor); () when there is nothing."""
    try:
        status = os.stat(place)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _is_fresh(path: str, source: dict[str, Any]) -> bool:
    """Whether a source file still holds the function: by the whole file's digest, else by the function's own."""
    try:
        status = os.stat(path)
        known = _fresh_files.get(path)
        if known is None or known[0] != (status.st_mtime_ns, status.st_size):
            with open(path, "rb") as file:
                data = file.read()
            known = _fresh_files[path] = ((status.st_mtime_ns, status.st_size), file_digest(data), None)
        if source["file_digest"] and known[1] == source["file_digest"]:
            return True
        from ..lang.source import function_digests

        with open(path, encoding="utf-8") as text:
            return source["digest"] in function_digests(text.read(), source["qualname"])
    except (OSError, SyntaxError, ValueError):
        return False


def parse_json(data: bytes) -> Any:
    """The value of a JSON text, through CPython's scanner alone (importing `json` costs more than a manifest)."""
    text = data.decode("utf-8")
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)

    class Context:
        strict = True
        object_hook = object_pairs_hook = None
        parse_float, parse_int = float, int
        parse_constant = staticmethod({"NaN": float("nan"), "Infinity": float("inf"),
                                       "-Infinity": float("-inf")}.__getitem__)
        memo: dict[str, str] = {}  # noqa: RUF012 - the scanner's own

    text = text.strip()
    try:
        value, end = make_scanner(Context)(text, 0)  # type: ignore[arg-type]
    except (StopIteration, SystemError):  # CPython 3.11 has no error to raise as long as `json` is not imported
        raise ValueError("no JSON value, or damaged") from None
    if end != len(text):
        raise ValueError(f"text after the JSON value at {end}")
    return value


# --- finding them ---------------------------------------------------------------------------------------------------

_loaded: dict[str, Bundle] = {}      # real path -> bundle
_by_function: dict[str, Bundle] = {}  # of `load_bundle`: these come first
_refused: dict[str, Bundle] = {}      # of `load_bundle`: which functions they hold is not known, why they are out is
_searched: dict[str, tuple[str, ...]] = {}  # folder -> bundle paths found there
_changed: list[Any] = []
_checks: list[Any] = []


def on_change(listener: Any) -> None:
    """Call `listener()` when a bundle was loaded by hand."""
    _changed.append(listener)


def before_use(check: Any) -> None:
    """Call `check(bundle)` before a bundle that was loaded by hand is used; it raises BundleError where `strict` minds."""
    _checks.append(check)


def open_bundle(path: str, strict: bool = False) -> Bundle:
    """The bundle of a folder, looked at once per process; a refused one warns once (option `strict`: raises)."""
    bundle = _look_at(path)
    if bundle.error is not None:
        report(bundle.error, strict)
    return bundle


def _look_at(path: str) -> Bundle:
    key = os.path.realpath(path)
    bundle = _loaded.get(key)
    if bundle is None:
        bundle = _loaded[key] = Bundle(path)
        if bundle.error is None:
            log(f"bundle {bundle.name}: {len(bundle.records)} functions, level {bundle.level}")
    return bundle


def load_bundle(path: str | os.PathLike[str]) -> Bundle:
    """The bundle of a folder; its functions are served from it from now on, before any found beside their package.

    A bundle that does not fit warns and has `.error`. Under option `strict` BundleError is raised, also where sources of its
    functions have changed, or decorated functions that are here have other options or names: nothing is loaded then. Raises
    BundleError where there is no folder: a path that was written down and is wrong is no bundle that got old.
    """
    folder = os.fspath(path)
    if not os.path.isdir(folder):
        raise no_bundle_at(folder)
    key = os.path.realpath(folder)
    known = _loaded.get(key)
    if known is not None and not (known.accepted and known.is_current()):
        _loaded.pop(key, None)  # mended, or built again
        for name in [name for name, bundle in list(_by_function.items()) if bundle is known]:
            _by_function.pop(name, None)
    bundle, strict = _look_at(folder), False
    if bundle.error is None:
        try:
            for check in _checks:
                check(bundle)
        except BundleError as error:
            bundle.error, strict = error.with_traceback(None), True
    _refused.pop(key, None)
    if bundle.accepted:
        _by_function.update(dict.fromkeys(bundle.records, bundle))
    else:
        _refused[key] = bundle
    for listener in _changed:
        listener()
    if bundle.error is not None:
        report(bundle.error, strict, "nothing was loaded: option strict is on")
    return bundle


def no_bundle_at(path: str) -> BundleError:
    """The error for a path at which no bundle can be."""
    here = "holds no folder there" if os.path.lexists(path) else "has no such folder"
    return BundleError(path, field="path", built="", here=here, effect="nothing was loaded",
                       fix=f"prebake build BUCKETS.yaml -o {path}, or the right path")


_reported: set[str] = set()


def is_strict() -> bool:
    """Whether option `strict` is on for the process; a function may state it for itself."""
    from ..options import effective

    return bool(effective({})["strict"]) or flags.is_on("PREBAKE_STRICT")


def report(error: BundleError, strict: bool = False, effect: str = "") -> None:
    """Warn once about a bundle that does not fit. Raises it under option `strict`, with the effect that it has then.

    strict: it is on for the function that asks, whatever the process has.
    """
    if strict or is_strict():
        raise error.with_effect(effect or f"it is raised: option strict is on; without it {error.effect}")
    text = str(error)
    if text not in _reported:
        _reported.add(text)
        log(text.replace("\n", "; "))
        warn(text)


def find_bundle(name: str, own_file: str | None, strict: bool = False) -> tuple[Bundle | None, str]:
    """(bundle that holds a function and fits it, '') or (None, reason).

    own_file: file of the decorated function; bundles are looked for in `__prebake__` beside it and in the packages
    around it. strict: what does not fit is raised.
    """
    if not flags.is_on("PREBAKE_BUNDLES"):
        return None, "BUNDLES_OFF"
    reason = "NO_BUNDLE"
    candidates = [_by_function[name]] if name in _by_function else list(_refused.values())
    if own_file:
        candidates += [open_bundle(path, strict) for path in bundles_beside(own_file)]
    for bundle in candidates:
        if not bundle.accepted:
            reason = bundle.reason
        elif name in bundle.records:
            try:
                bundle.check_fresh(name, own_file)
            except BundleError as error:
                bundle.refused[name] = error.reason
                report(error, strict)
                reason = error.reason
                continue
            except (KeyError, TypeError, AttributeError) as error:
                report(bundle._refuse(f"functions.{name}.sources", "sources of this format",
                                      f"{type(error).__name__}: {error}", _REBUILD), strict)
                reason = "STALE_STAMP"
                continue
            return bundle, ""
    return None, reason


def bundles_beside(file: str) -> tuple[str, ...]:
    """Paths of the bundles in the `__prebake__` folders beside a file and in the packages around it."""
    folder = os.path.dirname(os.path.abspath(file))
    found: list[str] = []
    while True:
        if folder not in _searched:
            _searched[folder] = _bundles_in(os.path.join(folder, FOLDER))
        found += _searched[folder]
        parent = os.path.dirname(folder)
        # upwards through packages, and out of an archive that the module was read from
        if parent == folder or (os.path.isdir(folder) and not os.path.isfile(os.path.join(parent, "__init__.py"))):
            return tuple(found)
        folder = parent


def _bundles_in(place: str) -> tuple[str, ...]:
    try:
        names = sorted(os.listdir(place))
    except OSError:
        return ()
    if MANIFEST in names:
        return (place,)
    return tuple(os.path.join(place, name) for name in names if os.path.isfile(os.path.join(place, name, MANIFEST)))


def rows() -> list[dict[str, Any]]:
    """One row for each bundle that was looked at: accepted or why not, level, functions, who was refused."""
    return [{"path": bundle.path, "accepted": bundle.accepted, "level": bundle.level,
             "functions": list(bundle.functions), "reason": bundle.reason,
             "message": "" if bundle.error is None else str(bundle.error), "refused": dict(bundle.refused)}
            for bundle in list(_loaded.values())]
