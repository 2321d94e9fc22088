"""Dtype hint codes of MSBC and their NumPy dtypes: one table, from which both directions are derived.

Codes are stable (they are written into `.msbc` files); a new dtype gets the next free code.
"""

from __future__ import annotations

import numpy as np

UNKNOWN = 0x00

# code -> name as `np.dtype(name)` understands it (bfloat16 needs ml_dtypes)
NAMES: dict[int, str] = {
    0x01: "float16", 0x02: "float32", 0x03: "float64", 0x04: "bfloat16", 0x05: "bool",
    0x06: "int8", 0x07: "int16", 0x08: "int32", 0x09: "int64",
    0x0A: "uint8", 0x0B: "uint16", 0x0C: "uint32", 0x0D: "uint64",
    0x0E: "complex64", 0x0F: "complex128",
}
CODES: dict[str, int] = {name: code for code, name in NAMES.items()}
_CODE_OF_DTYPE: dict[np.dtype, int] = {np.dtype(name): code for code, name in NAMES.items() if name != "bfloat16"}


def is_known(code: int) -> bool:
    """Whether the code may stand in an instruction (0, "unknown", may)."""
    return code == UNKNOWN or code in NAMES


def dtype_name(code: int) -> str:
    """'float32' for 0x02; '?' for 0; hexadecimal for codes that do not exist."""
    return "?" if code == UNKNOWN else NAMES.get(code, f"{code:#04x}")


def dtype_of(code: int) -> np.dtype | None:
    """The NumPy dtype of a code; None for 0. Raises KeyError for codes that do not exist."""
    return None if code == UNKNOWN else dtype_from_name(NAMES[code])


def dtype_code(dtype: object) -> int:
    """The code of anything `np.dtype` accepts; 0 where there is none (strings, records, foreign byte order)."""
    if isinstance(dtype, str):
        if dtype in CODES:
            return CODES[dtype]
        if len(dtype) > 16:
            return UNKNOWN
    try:
        resolved = np.dtype(dtype)  # type: ignore[call-overload]
    except Exception:  # TypeError, ValueError or SyntaxError, by spelling
        return UNKNOWN
    return _CODE_OF_DTYPE.get(resolved) or CODES.get(str(resolved), UNKNOWN)


def dtype_from_name(name: str) -> np.dtype:
    """The NumPy dtype called `name`, or spelled so by NumPy; loads ml_dtypes for bfloat16. Raises TypeError for unknown names."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def dtype_text(dtype: np.dtype) -> str:
    """Text that `dtype_from_name` reads; with the byte order, where NumPy itself has the dtype."""
    return dtype.name if dtype.name == "bfloat16" else dtype.str
