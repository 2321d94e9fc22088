"""Looking into compiled functions: `dump_tensor` writes arrays, `breakpoint` stops, inside any engine.

In a decorated function both are calls that only the interpreter can make: a function that holds one runs there.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import numpy as np

_counts: dict[str, int] = {}


def dump_tensor(x: Any, name: str = "tensor", folder: str | os.PathLike[str] = ".") -> Any:
    """The same x, after writing it to `<folder>/<name>.npz` (`<name>-1.npz`, ... for later dumps of that name).

    x: an array, or a tuple, list or dictionary of arrays, each a member of the file. Characters that are no part of a
    plain file name become '_'.
    """
    plain = re.sub(r"[^A-Za-z0-9_.\-]", "_", name).lstrip(".") or "tensor"
    count = _counts.get(plain, 0)
    _counts[plain] = count + 1
    path = os.path.join(os.fspath(folder), f"{plain}-{count}.npz" if count else f"{plain}.npz")
    if isinstance(x, dict):
        members = {str(key): np.asarray(value) for key, value in x.items()}
    elif isinstance(x, (tuple, list)):
        members = {f"arr_{i}": np.asarray(value) for i, value in enumerate(x)}
    else:
        members = {re.sub(r"\W", "_", name) or "tensor": np.asarray(x)}
    with open(path, "wb") as file:
        np.savez(file, **members)  # type: ignore[arg-type]
    return x


def breakpoint(*tensors: Any) -> None:
    """Stop in the debugger (`sys.breakpointhook`); the arguments are in reach as `tensors`."""
    hook = sys.breakpointhook
    if tensors:
        sys.stderr.write("".join(f"tensors[{i}] {_summary(x)}\n" for i, x in enumerate(tensors)))
    hook()


def _summary(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else repr(x)[:80]
