"""The stencil table: which block functions the library of a CPU level holds, and at which index.

Rows of `pb_blocks`: one for each (scalar op, native dtype), then one for each cast, then f64 -> f32 rounded to odd. A
row has four variants, see include/pb_block.h. The encoder asks for indexes, the build for the text.
"""

from __future__ import annotations

from .scalars import MEMORY, NATIVE, OPS, REDUCTIONS, ScalarOp
from .tapecode import NATIVE_BYTES, NATIVE_CODE, OPCODES

# f(a, b) == f(b, a): one variant with a scalar serves both sides. Bit for bit, but for what NumPy itself leaves open, differing
# between the body and the tail of its loops: which of two NaNs `add` and `mul` pass on, which of two zeros `fmax` and `fmin`.
COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", "fmax", "fmin", "eq", "ne", "and", "or", "xor"})
# of floats these yield the second of two zeros, as NumPy's do everywhere
ORDERED_FLOATS = frozenset({"maximum", "minimum"})
# the scalar operand comes first / second often enough for a stencil of its own; other operations splat the scalar
SCALAR_FIRST = frozenset({"sub", "div", "lt", "le", "gt", "ge"})
SCALAR_SECOND = SCALAR_FIRST | COMMUTATIVE | {"floordiv", "mod", "shl", "shr"}

# what the accumulator machine has (include/pb_strip.h), by operand dtype: operations so cheap that loads and stores are what a
# block stencil costs, and those that most often stand between such
_COMPARED = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_ANY_STRIPS = _COMPARED | {"mov", "select", "maximum", "minimum"}
_NUMBER_STRIPS = _ANY_STRIPS | {"add", "sub", "mul", "neg", "abs", "square", "sign", "fmax", "fmin"}
_FLOAT_STRIPS = _NUMBER_STRIPS | {"div", "sqrt", "reciprocal", "exp", "tanh", "erf", "floor", "ceil", "trunc", "rint", "copysign",
                                  "isnan", "isinf", "isfinite", "signbit"}
_INT_STRIPS = _NUMBER_STRIPS | {"and", "or", "xor", "invert", "shl", "shr"}
STRIPS: dict[str, frozenset[str]] = {
    "f32": _FLOAT_STRIPS, "f64": _FLOAT_STRIPS, "i32": _INT_STRIPS, "i64": _INT_STRIPS,
    "bool": _ANY_STRIPS | {"and", "or", "xor", "not"}}
# of lanes of 4 and of 8 bytes: what a strip's registers are called
_MACHINES = {4: ("f32", "b32"), 8: ("f64", "b64")}

# comparisons, with C's operator: block functions of their own (include/pb_compare.h)
COMPARES = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

_WIDTH = len(NATIVE)
_CASTS = len(OPS) * _WIDTH
# f64 -> f32 such that a store to float16 rounds once: what f64 -> f16 needs
ODD_INDEX = _CASTS + _WIDTH * _WIDTH


# (operation, operand dtype) -> row; what is no key does not exist
STENCIL_INDEX: dict[tuple[str, str], int] = {
    (op.name, dtype): op.id * _WIDTH + NATIVE_CODE[dtype] for op in OPS for dtype in op.dtypes}


def cast_index(frm: str, to: str) -> int:
    """Row of the conversion between two native dtypes."""
    return _CASTS + NATIVE_CODE[frm] * _WIDTH + NATIVE_CODE[to]


def _lane_cast(frm: str, to: str) -> int:
    """Bytes of the lanes in which the accumulator machine converts, or 0: it does not."""
    widths = {NATIVE_BYTES[dtype] for dtype in (frm, to) if dtype != "bool"}
    return widths.pop() if len(widths) == 1 and frm != to else 0


# rows that have a form for the accumulator machine
STRIP_INDEXES: frozenset[int] = frozenset(
    [row for (name, dtype), row in STENCIL_INDEX.items() if name in STRIPS[dtype]]
    + [cast_index(frm, to) for frm in NATIVE for to in NATIVE if _lane_cast(frm, to)])


def commutes(name: str, dtype: str) -> bool:
    """Whether the operands of an operation may change places."""
    return name in COMMUTATIVE and not (name in ORDERED_FLOATS and dtype[0] == "f")


def table_text() -> str:
    """The numbering that tapes rely on, as one line: a library made from another one must not be used."""
    rows = [f"{op.name}:{op.arity}:{','.join(op.dtypes)}" for op in OPS]
    return " ".join((*rows, *OPCODES, *NATIVE, *MEMORY, *REDUCTIONS))


def _row(op: ScalarOp, dtype: str, blocks: list[str]) -> str:
    """The table's row of one operation; appends the macros that define its functions."""
    result = "bool" if op.predicate else dtype
    name = f"pb_block_{op.name}_{dtype}"
    blocks.append(f"PB_SCALAR{op.arity}({op.name}, {dtype}, {result})")
    if op.name in COMPARES and dtype != "bool":
        blocks.append(f"PB_BLOCK_COMPARE({op.name}, {COMPARES[op.name]}, {dtype}, {NATIVE_BYTES[dtype]})")
        return f"{name}, {name}_vs, {name}_sv, NULL"
    blocks.append(f"PB_BLOCK{op.arity}({op.name}, {dtype}, {result})")
    variants = [name, "NULL", "NULL", "NULL"]
    if op.arity == 2:
        if op.name == "pow" and dtype in ("f32", "f64"):
            blocks.append(f"PB_BLOCK_POW_VS({dtype})")
            variants[1] = name + "_vs"
        elif op.name in SCALAR_SECOND:
            blocks.append(f"PB_BLOCK2_VS({op.name}, {dtype}, {result})")
            variants[1] = name + "_vs"
        if op.name in SCALAR_FIRST or (op.name in COMMUTATIVE and not commutes(op.name, dtype)):
            blocks.append(f"PB_BLOCK2_SV({op.name}, {dtype}, {result})")
            variants[2] = name + "_sv"
    elif op.arity == 3:
        for number, suffix in ((1, "vsv"), (2, "vvs"), (3, "vss")):
            blocks.append(f"PB_BLOCK3_{suffix.upper()}({op.name}, {dtype}, {result})")
            variants[number] = f"{name}_{suffix}"
    return ", ".join(variants)


def _strips(op: ScalarOp, dtype: str, blocks: list[str]) -> str:
    """The forms of one operation that the accumulator machine has; appends the macros that define them."""
    if op.name not in STRIPS[dtype] or dtype not in op.dtypes:
        return "NULL"
    rows: list[str] = []
    for width, (machine, truths) in _MACHINES.items():
        if dtype != "bool" and width != NATIVE_BYTES[dtype]:
            continue
        lane = truths if dtype == "bool" else dtype
        if op.name in ORDERED_FLOATS and dtype[0] == "f":
            blocks.append(f"PB_STRIP2_EXTREME({op.name}, {'greater' if op.name == 'maximum' else 'lesser'}, {dtype})")
        else:
            blocks.append(f"PB_STRIP{op.arity}({op.name}, {lane}, {machine})")
        rows.append(f"PB_STRIP_ROW{op.arity}({op.name}, {lane})")
    return f"(const pb_any_fn[]){{{', '.join(rows)}}}"


def _whens(op: ScalarOp, dtype: str, blocks: list[str]) -> str:
    """The forms of a comparison that is made where it is read; appends the macro that defines them."""
    if op.name not in COMPARES or dtype == "bool":
        return "NULL"
    blocks.append(f"PB_STRIP_WHENS({op.name}, {dtype}, {_MACHINES[NATIVE_BYTES[dtype]][0]})")
    return f"(const pb_any_fn[]){{PB_STRIP_WHENS_OF({op.name}, {dtype})}}"


def _strip_cast(frm: str, to: str, blocks: list[str]) -> str:
    width = _lane_cast(frm, to)
    if not width:
        return "NULL"
    machine, truths = _MACHINES[width]
    lane_from, lane_to = (truths if dtype == "bool" else dtype for dtype in (frm, to))
    blocks.append(f"PB_STRIP_CAST({lane_from}, {lane_to}, {machine})")
    return f"(const pb_any_fn[]){{PB_STRIP_ROW1(to_{lane_to}, {lane_from})}}"


def stencil_names(level: str) -> dict[str, object]:
    """What `stencils.pyx.in` needs; level: as `pb_library.level`, "x86-64-v3" or "generic"."""
    blocks: list[str] = []
    table: list[str] = []
    strips: list[str] = []
    whens: list[str] = []
    scalars: list[str] = []
    commuting: list[int] = []
    for op in OPS:
        for dtype in NATIVE:
            exists = dtype in op.dtypes
            table.append(_row(op, dtype, blocks) if exists else "NULL, NULL, NULL, NULL")
            strips.append(_strips(op, dtype, blocks))
            whens.append(_whens(op, dtype, blocks) if exists else "NULL")
            scalars.append(f"pb_scalar_{op.name}_{dtype}" if exists else "NULL")
            commuting.append(int(commutes(op.name, dtype)))
    for frm in NATIVE:
        for to in NATIVE:
            blocks.append(f"PB_BLOCK_CAST({frm}, {to}) PB_SCALAR_CAST({frm}, {to})")
            strips.append(_strip_cast(frm, to, blocks))
            scalars.append(f"pb_scalar_cast_{frm}_{to}")
            table.append(f"pb_block_cast_{frm}_{to}, NULL, NULL, NULL")
            commuting.append(0)
    blocks.append("PB_BLOCK_ODD PB_SCALAR_ODD")
    scalars.append("pb_scalar_odd")
    table.append("pb_block_odd, NULL, NULL, NULL")
    commuting.append(0)
    return {
        "level": level, "tables": table_text(), "blocks": blocks, "table": table, "scalars": scalars,
        "whens": [*whens, *["NULL"] * (len(table) - len(whens))],
        "rows": [(name, STENCIL_INDEX[name, dtype]) for name, dtype in (("and", "bool"), ("or", "bool"))]
        + [(f"{name}_{dtype}", STENCIL_INDEX[name, dtype]) for dtype in NATIVE[1:] for name in ("select", *COMPARES)],
        "strips": [*strips, *["NULL"] * (len(table) - len(strips))],
        "commutes": ", ".join(map(str, commuting)),
        "enums": [("N", NATIVE), ("M", tuple(MEMORY)), ("R", REDUCTIONS), ("T", OPCODES)],
        "native": NATIVE, "memory": tuple(MEMORY), "n_reductions": len(REDUCTIONS),
    }
