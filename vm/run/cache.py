"""The cache folder, and the record of large files that were checked in full: their digests are not computed again.

A record names a file by device, inode, size and its two times, and the digest that its manifest wants. Whatever changes
the file changes one of them, then it is checked once more. Records are a convenience: where none can be read or
written (a read-only or full disk), each process checks for itself.
"""

from __future__ import annotations

import os
import sys
from _blake2 import blake2b
from contextlib import suppress

from .. import flags

MOST_RECORDS = 1024  # files; the oldest records go
_here: set[str] = set()  # what this process checked


def cache_root() -> str:
    """The folder of everything that is cached: PREBAKE_CACHE_DIR, else the platform's user cache. It may not exist."""
    given = flags.read("PREBAKE_CACHE_DIR")
    if given:
        return given
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "prebake")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "prebake")


def checks_folder() -> str:
    """The folder of the records (it may not exist)."""
    return os.path.join(cache_root(), "checked")


def file_identity(file: int | str) -> tuple[int, ...]:
    """What names a file's contents without reading them: device, inode, size, time of its data and of its inode."""
    status = os.stat(file)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_checked(identity: tuple[int, ...], digest: str) -> bool:
    """Whether the file was found to hold what `digest` says, by this process or one before it."""
    line = _line(identity, digest)
    if line in _here:
        return True
    try:
        with open(_place(identity), encoding="ascii") as file:
            found = file.read(512)
    except (OSError, ValueError):
        return False
    if found == line:
        _here.add(line)
    return found == line


def record_check(identity: tuple[int, ...], digest: str) -> None:
    """Remember that the file was found whole. A folder that cannot be written is no error."""
    line = _line(identity, digest)
    _here.add(line)
    place = _place(identity)
    beside = f"{place}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(beside, "w", encoding="ascii") as file:
            file.write(line)
        os.replace(beside, place)
        _trim(os.path.dirname(place))
    except OSError:
        with suppress(OSError):
            os.unlink(beside)


def clear_checks() -> int:
    """Forget every record on the disk; how many there were."""
    count = 0
    with suppress(OSError):
        for entry in os.scandir(checks_folder()):
            with suppress(OSError):
                os.unlink(entry.path)
                count += 1
    _here.clear()
    return count


def _line(identity: tuple[int, ...], digest: str) -> str:
    return " ".join(map(str, identity)) + f" {digest}\n"


def _place(identity: tuple[int, ...]) -> str:
    name = blake2b(f"{identity[0]} {identity[1]}".encode(), digest_size=16).hexdigest()
    return os.path.join(checks_folder(), name)


def _trim(folder: str) -> None:
    entries = list(os.scandir(folder))
    if len(entries) > MOST_RECORDS:
        for entry in sorted(entries, key=lambda e: e.stat().st_mtime_ns)[:len(entries) - MOST_RECORDS]:
            with suppress(OSError):
                os.unlink(entry.path)
