"""Shape counts of running functions, as profile files.

The dispatcher counts every call in small tables (one a plan: the extents of its symbols -> calls, nanoseconds, timed
calls); this module turns the difference between two moments into a profile. A profile is JSON:

    {"version": 1,
     "functions": {"module:qualname": {
        "module": "module", "digest": program digest, "msbc": base64 of the `.msbc` bytes,
        "options": {...decorated options that change code...}, "shapes": {parameter: "b d"},
        "calls": n,                        every call of the function, whatever served it
        "unplanned": n,                    of these, calls without a plan of this program (interpreter, original function,
                                           variants for objects of other classes)
        "signatures": [{
            "rows": [...Signature.to_json()...],
            "symbols": ["x.shape[0]", ...],             order of the extents below
            "sample": {"x.shape[0]": 32, ...},          extents and strides at hand when the plan was made
            "shapes": [[extent, ..., calls, total_ns, timed_calls], ...],      ascending
            "other": n}]}}}                calls whose shapes no longer fitted into the table

Time is sampled: `total_ns` belongs to `timed_calls` of the `calls`. Signatures are unique by (rows, symbols) and sorted
by their JSON text. Files are written with sorted keys and without spaces: equal profiles have equal bytes. Shapes,
dtypes, counts and configuration scalars only, never array contents.

PREBAKE_PROFILE=path: each process writes its shard `path.d/<host>-<pid>-<start>.json`, again every
PREBAKE_PROFILE_INTERVAL seconds, and at exit merges it into `path` under a lock; shards of killed processes are taken
up by the next exit.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from .. import flags, options
from ..errors import PrebakeError, VerifyError
from . import _dispatch, function

PROFILE_VERSION = 1


class Session:
    """What is counted from now on, for every function of the process."""

    def __init__(self) -> None:
        self.functions: dict[str, dict[str, Any]] = {}  # of functions that died meanwhile
        self.entries: dict[Any, tuple[dict[tuple[int, ...], tuple[int, int, int]], int]] = {}
        self._retired: list[tuple[str, dict[str, Any]]] = []  # to be merged into them
        self._merging = threading.Lock()
        self.calls: dict[int, tuple[int, int]] = {}  # id of a living state -> (calls, unplanned) at the start
        for state in function.living():
            self._note_start(state)
        function.sessions.append(self)

    def _note_start(self, state: function.FunctionState) -> None:
        self.calls[id(state)] = state.traffic()
        for entry in _entries(state):
            rows, (other, _) = entry.counts()
            self.entries[entry] = ({extents: (count, ns, timed) for extents, count, _, _, ns, timed in rows}, other)

    def retire(self, state: function.FunctionState) -> None:
        """Take the counts of a function that is about to go."""
        found = self._function(state)
        self.calls.pop(id(state), None)
        if found is not None:
            self._retired.append((state.function.name, found))
            if self._merging.acquire(blocking=False):  # else who holds it merges, or the next one does
                try:
                    self._merge_retired()
                finally:
                    self._merging.release()

    def _merge_retired(self) -> None:
        """Functions go when the garbage collector runs: in the middle of a merge too. They wait in a list."""
        while self._retired:
            _merge_function(self.functions, *self._retired.pop())

    def to_json(self) -> dict[str, Any]:
        """The profile since the session began."""
        functions: dict[str, dict[str, Any]] = {}
        states = sorted(function.living(), key=lambda s: s.function.name)
        is_alone = self._merging.acquire(timeout=1)  # a process that was forked in the middle has nobody to wait for
        try:
            self._merge_retired()
            merge_functions(functions, self.functions)
        finally:
            if is_alone:
                self._merging.release()
        for state in states:
            found = self._function(state)
            if found is not None:
                _merge_function(functions, state.function.name, found)
        return {"version": PROFILE_VERSION, "functions": functions}

    def _function(self, state: function.FunctionState) -> dict[str, Any] | None:
        """A function's part of the profile; None when it was not called or has no bytecode."""
        before = self.calls.get(id(state), (0, 0))
        calls, unplanned = (now - then for now, then in zip(state.traffic(), before, strict=True))
        if calls <= 0:
            return None
        try:
            program = state.program()
        except PrebakeError:
            return None
        from base64 import b64encode

        found: dict[str, Any] = {
            "module": state.function.name.partition(":")[0], "digest": program.digest,
            "msbc": b64encode(program.to_bytes()).decode(), "options": options.key_options(state.own),
            "shapes": dict(state.shapes or {}), "calls": calls, "unplanned": unplanned, "signatures": []}
        for entry in _entries(state):
            signature = self._signature(entry)
            if signature is not None:
                _merge_signature(found["signatures"], signature)
        _sort_signatures(found)
        return found

    def _signature(self, entry: Any) -> dict[str, Any] | None:
        known, known_other = self.entries.get(entry, ({}, 0))
        rows, (other, _) = entry.counts()
        shapes = []
        for extents, count, _, _, ns, timed in rows:
            then = known.get(extents, (0, 0, 0))
            if count > then[0]:
                shapes.append([*extents, count - then[0], ns - then[1], timed - then[2]])
        if not shapes and other == known_other:
            return None
        symbols = list(entry.symbols)
        sample = entry.sample or {}
        return {"rows": rows_json(entry.row_tuples), "symbols": symbols,
                "sample": {name: value for name, value in sorted(sample.items()) if not name.endswith(".data")},
                "shapes": shapes, "other": other - known_other}

    def close(self) -> None:
        """Stop counting for this session."""
        with suppress(ValueError):
            function.sessions.remove(self)


def _entries(state: function.FunctionState) -> list[_dispatch.Entry]:
    prebuilt, planned = state.function._entries()
    return [*prebuilt, *planned, *state.retired]


def rows_json(rows: tuple[tuple, ...]) -> list[dict[str, Any]]:
    """The JSON form of row tuples, as `Signature.to_json` writes it."""
    from ..plan.signature import Row, Signature

    return Signature(tuple(Row(*row) for row in rows)).to_json()


# --- merging --------------------------------------------------------------------------------------------------------

def merge_functions(into: dict[str, dict[str, Any]], other: Mapping[str, dict[str, Any]]) -> None:
    """Add the functions of one profile to another's. Where the program changed, the one that is added replaces."""
    for name, found in other.items():
        _merge_function(into, name, found)


def _merge_function(into: dict[str, dict[str, Any]], name: str, found: Mapping[str, Any]) -> None:
    known = into.get(name)
    if known is None or known["options"] != found["options"] or not _goes_with(known, found):
        into[name] = {**found, "signatures": [{**s, "shapes": [list(row) for row in s["shapes"]]}
                                              for s in found["signatures"]]}
        return
    known["calls"] += found["calls"]
    known["unplanned"] += found["unplanned"]
    for signature in found["signatures"]:
        _merge_signature(known["signatures"], signature)
    _sort_signatures(known)


def _goes_with(known: dict[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether two records are of one program, or one's was made for the other's objects too: then it stays in `known`."""
    if known["digest"] == found["digest"]:
        return True
    from .fitting import covers

    try:
        ours, theirs = _program_of(known), _program_of(found)
    except (VerifyError, ValueError, KeyError):  # no program to look at
        return False
    if covers(theirs, ours):
        known["digest"], known["msbc"] = found["digest"], found["msbc"]
        return True
    return covers(ours, theirs)


def _program_of(found: Mapping[str, Any]) -> Any:
    from base64 import b64decode

    from ..lang.bytecode import Program

    return Program.from_bytes(b64decode(found["msbc"]))


def _merge_signature(signatures: list[dict[str, Any]], found: dict[str, Any]) -> None:
    for known in signatures:
        if known["symbols"] == found["symbols"] and known["rows"] == found["rows"]:
            break
    else:
        signatures.append({**found, "shapes": [list(row) for row in found["shapes"]]})
        return
    n = len(known["symbols"])
    counts = {tuple(row[:n]): row[n:] for row in known["shapes"]}
    for row in found["shapes"]:
        key = tuple(row[:n])
        counts[key] = [a + b for a, b in zip(counts.get(key, (0, 0, 0)), row[n:], strict=True)]
    known["shapes"] = [[*key, *value] for key, value in sorted(counts.items())]
    known["other"] += found["other"]
    known["sample"] = min(known["sample"], found["sample"], key=_dumps)


def _sort_signatures(found: dict[str, Any]) -> None:
    found["signatures"].sort(key=lambda s: _dumps([s["rows"], s["symbols"]]))
    for signature in found["signatures"]:
        signature["shapes"].sort()


def _dumps(value: object) -> str:
    import json

    return json.dumps(value, separators=(",", ":"), sort_keys=True)


# --- files ----------------------------------------------------------------------------------------------------------

def write_profile(path: str, profile: Mapping[str, Any]) -> None:
    """Write a profile in one step: a reader sees the old file or the new one."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    passing = os.path.join(folder, f".{os.path.basename(path)}.{os.getpid()}.{threading.get_ident()}")
    try:
        with open(passing, "w", encoding="ascii") as file:
            file.write(_dumps(profile) + "\n")
        os.replace(passing, path)
    finally:
        with suppress(OSError):
            os.unlink(passing)


def read_profile(path: str) -> dict[str, Any] | None:
    """A profile's JSON, or None when there is none or it is not whole."""
    import json

    try:
        with open(path, encoding="ascii") as file:
            data = json.load(file)
        return data if data["version"] == PROFILE_VERSION and isinstance(data["functions"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def profile(path: str | os.PathLike[str]) -> Iterator[Session]:
    """Record the shapes of every decorated function's calls inside the block, and write them to `path` at its end."""
    session = Session()
    try:
        yield session
    finally:
        write_profile(os.fspath(path), session.to_json())
        session.close()


class ProcessRecorder:
    """PREBAKE_PROFILE: one shard for this process, written again and again, merged at exit."""

    def __init__(self, path: str, interval_s: float) -> None:
        self.path, self.interval_s = os.path.abspath(path), interval_s
        self.folder = self.path + ".d"
        self.start()

    def start(self) -> None:
        """Count from now on, in a shard of this process."""
        import socket

        self.pid = os.getpid()
        self.host = "".join(c if c.isalnum() else "_" for c in socket.gethostname())
        self.shard = os.path.join(self.folder, f"{self.host}-{self.pid}-{time.time_ns()}.json")
        self.session = Session()
        self.written: dict[str, Any] | None = None
        self.lock = threading.Lock()
        self.stop = threading.Event()
        threading.Thread(target=self._run, name="prebake-profile", daemon=True).start()

    def _run(self) -> None:
        while not self.stop.wait(self.interval_s):
            self.write_shard()

    def write_shard(self) -> None:
        """Write the shard where something was counted since the last time. Never raises."""
        try:
            with self.lock:
                found = self.session.to_json()
                if found["functions"] and found != self.written:
                    write_profile(self.shard, found)
                    self.written = found
        except Exception as error:
            _warn(f"prebake: the profile shard was not written: {error}")

    def finish(self) -> None:
        """Write the shard and merge it, and those of processes that are gone, into the profile."""
        if os.getpid() != self.pid:
            return
        self.stop.set()
        self.write_shard()
        try:
            self._merge()
        except Exception as error:
            _warn(f"prebake: the profile was not merged, its shards are kept: {error}")

    def _merge(self) -> None:
        import fcntl

        if not os.path.isdir(self.folder):
            return
        with open(os.path.join(self.folder, ".lock"), "a", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            shards = [os.path.join(self.folder, name) for name in sorted(os.listdir(self.folder))
                      if name.endswith(".json") and not name.startswith(".") and self._is_done(name)]
            merged = read_profile(self.path) or {"version": PROFILE_VERSION, "functions": {}}
            used = []
            # this process's own shard last: where a function was edited, what runs now counts
            for shard in sorted(shards, key=lambda s: (s == self.shard, s)):
                found = read_profile(shard)
                if found is not None:
                    merge_functions(merged["functions"], found["functions"])
                    used.append(shard)
            if used:
                write_profile(self.path, merged)
                for shard in used:
                    with suppress(OSError):
                        os.unlink(shard)

    def _is_done(self, name: str) -> bool:
        """Whether the process that wrote a shard is this one or gone (of this host)."""
        host, _, rest = name.removesuffix(".json").partition("-")
        pid = rest.partition("-")[0]
        if host != self.host or not pid.isdecimal():
            return False
        if int(pid) == self.pid:
            return True
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False

    def after_fork(self) -> None:
        """In a child: counts of its own, from zero, written when a multiprocessing worker ends too."""
        self.session.close()
        self.start()
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(self, lambda me: util.Finalize(me, me.write_shard, exitpriority=10))


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=3)


_recorder: ProcessRecorder | None = None


def start_from_environment() -> None:
    """Begin to record as PREBAKE_PROFILE says; once in a process."""
    global _recorder
    if _recorder is not None:
        return
    try:
        interval_s = max(float(flags.read("PREBAKE_PROFILE_INTERVAL")), 0.05)
    except ValueError:
        interval_s = 10.0
    _recorder = ProcessRecorder(flags.read("PREBAKE_PROFILE"), interval_s)
    atexit.register(_recorder.finish)
    os.register_at_fork(after_in_child=_recorder.after_fork)


def set_timing(every: int) -> None:
    """Time one call in `every` (rounded up to a power of two) of each shape."""
    _dispatch.set_timing(1 << max(every - 1, 0).bit_length())
