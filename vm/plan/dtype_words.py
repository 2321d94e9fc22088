"""What asks for a dtype: types and dtypes wherever they stand, text only as a kernel's `dtype` operand.

A key of a dictionary may read 'Q' or 'e' as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from ...templates.registry import BY_NAME
from .values import Static, Value

_ODD_WORDS = frozenset(("uint64", "u8", "Q", "L", "P", "N", "uint", "ulong", "ulonglong", "uintp", "float16", "half", "f2", "e",
                        "bfloat16"))


def asked_dtype(value: Value, is_text: bool = False) -> np.dtype | None:
    """The dtype that a constant names, None for any other value. is_text: text counts too."""
    spec = value.value if isinstance(value, Static) else None
    if spec is None or spec is ... or (isinstance(spec, str) and not is_text):
        return None
    try:
        return np.dtype(spec)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None


def asked_by_word(name: str, values: Sequence[Value]) -> np.dtype | None:
    """The dtype that a kernel's `dtype` operand names with text, if it has one."""
    at = _dtype_place(name)
    value = values[at] if 0 <= at < len(values) else None
    return asked_dtype(value, True) if isinstance(value, Static) and isinstance(value.value, str) else None


@cache
def _dtype_place(name: str) -> int:
    row = BY_NAME.get(name)
    names = [parameter.name for parameter in row.parameters] if row is not None else []
    return names.index("dtype") if "dtype" in names else -1


def may_be_odd(word: str) -> bool:
    """Whether text could name uint64, float16 or bfloat16."""
    return word.lstrip("<>=|") in _ODD_WORDS
