"""The cache of build objects: bytes by key, in PREBAKE_CACHE_DIR or the platform's user cache.

An entry is written beside its place and renamed, and carries the digest of its bytes: writers that race or die never
leave half a file for a reader. Whatever goes wrong here is a miss. Old entries go when the cache passes its limit.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from _blake2 import blake2b
from collections.abc import Iterable
from pathlib import Path

from ..vm.run.cache import cache_root

LIMIT_BYTES = 512 << 20
_SUFFIX = ".object"


def cache_folder() -> Path:
    """The folder of build objects (it may not exist)."""
    return Path(cache_root()) / "objects"


def key_of(parts: Iterable[bytes | str]) -> str:
    """A key made of texts and bytes in order."""
    digest = blake2b(digest_size=32)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def read(key: str) -> bytes | None:
    """The bytes stored under a key, or None."""
    path = cache_folder() / (key + _SUFFIX)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, payload = data[:32], data[32:]
    if blake2b(payload, digest_size=32).digest() != digest:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # used now: the last to go
    return payload


def write(key: str, payload: bytes) -> None:
    """Store bytes under a key; a cache that cannot be written is no error."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(blake2b(payload, digest_size=32).digest() + payload)
            os.replace(name, folder / (key + _SUFFIX))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        trim(folder)
    except OSError:
        return


def trim(folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
    """Remove the entries that were not used for longest until the rest fits."""
    entries = []
    for path in folder.glob("*" + _SUFFIX):
        with contextlib.suppress(OSError):
            stat = path.stat()
            entries.append((stat.st_mtime, stat.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit_bytes:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
