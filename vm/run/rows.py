"""What a plan expected of an argument, and what came: the words of `explain` for a row of a signature."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _dispatch


def why_row_differs(entry: Any, args: tuple, function: Any) -> str:
    """'x: uint8[:, :, :] expected, found float64[4, 48, 3]' of the last miss of an entry; a guard's own text; or ''."""
    place = entry.why_not()
    rows = [dict(zip(_dispatch.ROW_FIELDS, row, strict=True)) for row in entry.row_tuples]
    number = next((i for i, row in enumerate(rows) if row["path"] == place), None)
    if number is None:
        return place
    try:
        value = _value_at(rows, number, args, function)
    except (AttributeError, KeyError, IndexError, TypeError, NameError) as error:
        return f"{place}: {_expected(rows[number])} expected, found none ({type(error).__name__}: {error})"
    return f"{place}: {_expected(rows[number])} expected, found {_found(value, rows[number])}"


def _value_at(rows: list[dict[str, Any]], number: int, args: tuple, function: Any) -> Any:
    row = rows[number]
    if row["how"] == "arg":
        return args[row["key"]]
    if row["how"] == "capture":
        return function.read_capture(row["key"])
    parent = _value_at(rows, row["parent"], args, function)
    return getattr(parent, row["key"]) if row["how"] == "attr" else parent[row["key"]]


def _expected(row: dict[str, Any]) -> str:
    from ..plan.signature import NUMPY_DTYPES

    kind = row["kind"]
    if kind == "array":
        inner = row["shape"] if row["constant"] and row["shape"] is not None else (":",) * row["ndim"]
        marks = [", C-contiguous"] * (row["layout"] == "C") + [", writeable"] * row["writable"]
        return f"{NUMPY_DTYPES[row['dtype']].name}[{', '.join(map(str, inner))}]" + "".join(marks)
    if kind == "scalar":
        return f"a Python {row['python']}" if row["python"] else f"a NumPy {NUMPY_DTYPES[row['dtype']].name} scalar"
    if kind == "static":
        return repr(row["value"])
    if kind == "sequence":
        return f"a {row['type_name']} of {row['length']}"
    if kind == "mapping":
        return f"a dict with keys {', '.join(sorted(map(repr, row['keys'])))}"
    return f"an instance of {row['type_name']}"


def _found(value: Any, row: dict[str, Any]) -> str:
    from ..plan.signature import type_name

    if isinstance(value, np.ndarray):
        marks = [", not C-contiguous"] * (row["layout"] == "C" and not value.flags.c_contiguous) + \
                [", read-only"] * (row["writable"] and not value.flags.writeable) + \
                [", not aligned"] * (not value.flags.aligned) + \
                [f" ({type_name(value)})"] * (type(value) is not np.ndarray)
        return f"{value.dtype.name}[{', '.join(map(str, value.shape))}]" + "".join(marks)
    if isinstance(value, np.generic):
        return f"a NumPy {value.dtype.name} scalar"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, dict):
        return f"a dict with keys {', '.join(sorted(map(repr, value)))}"
    if row["kind"] == "static":
        return repr(value)
    return type_name(value).removeprefix("builtins:")
