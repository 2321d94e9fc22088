"""The tape's instruction numbers, shared by the encoder (vm/run/tape.py) and the C loop (include/pb_tape.h).

Each name becomes `PB_T_<NAME>` in the stencil library. Layouts of the words stand in include/pb_tape.h and pb_nest.h.
"""

from __future__ import annotations

from .scalars import MEMORY, NATIVE, REDUCTIONS

OPCODES: tuple[str, ...] = (
    "exit", "add", "sub", "mul", "floordiv", "mod", "min", "max", "eq", "ne", "lt", "le", "and", "or", "select",
    "guard", "scalar", "load", "store", "move", "trap", "alloc", "jump", "jump_if_zero", "for_begin",
    "for_next", "nest", "contract",
    "add_f32", "sub_f32", "mul_f32", "div_f32", "eq_f32", "lt_f32", "le_f32",
    "add_f64", "sub_f64", "mul_f64", "div_f64", "eq_f64", "lt_f64", "le_f64",
    "call",
)
OPCODE: dict[str, int] = {name: number for number, name in enumerate(OPCODES)}

# (scalar operation, dtype) -> (instruction of its own, whether its operands change places); others are `scalar`
DIRECT: dict[tuple[str, str], tuple[int, bool]] = {}
for _name in ("add", "sub", "mul", "div", "eq", "lt", "le"):
    for _dtype in ("f32", "f64"):
        DIRECT[_name, _dtype] = (OPCODE[f"{_name}_{_dtype}"], False)
for _name in ("add", "sub", "mul", "floordiv", "mod"):
    DIRECT[_name, "i64"] = (OPCODE[_name], False)
for _dtype in ("bool", "i32", "i64"):  # registers hold these sign-extended: the 64-bit instruction is right for all
    for _name in ("eq", "ne", "lt", "le", "and", "or"):
        DIRECT[_name, _dtype] = (OPCODE[_name], False)
    DIRECT["minimum", _dtype] = (OPCODE["min"], False)
    DIRECT["maximum", _dtype] = (OPCODE["max"], False)
for _dtype in NATIVE:
    for _name, _other in (("gt", "lt"), ("ge", "le")):
        DIRECT[_name, _dtype] = (DIRECT[_other, _dtype][0], True)

NATIVE_CODE: dict[str, int] = {name: number for number, name in enumerate(NATIVE)}
MEMORY_CODE: dict[str, int] = {name: number for number, name in enumerate(MEMORY)}
REDUCTION_CODE: dict[str, int] = {name: number for number, name in enumerate(REDUCTIONS)}
NATIVE_BYTES: dict[str, int] = {"bool": 1, "i32": 4, "i64": 8, "f32": 4, "f64": 8}

# The native dtype that a load of each memory dtype yields, and that a store takes. u64 has none.
NATIVE_OF: dict[str, str] = {
    "bool": "bool", "i8": "i32", "i16": "i32", "i32": "i32", "i64": "i64", "u8": "i32", "u16": "i32", "u32": "i64",
    "f16": "f32", "bf16": "f32", "f32": "f32", "f64": "f64",
}
TRAPS: dict[str, int] = {"INDEX": 1, "ZERO_DIVISION": 2, "OVERFLOW": 3, "VALUE": 4, "MEMORY": 5, "INTERPRET": 6,
                         "RAISE": 7, "RAISED": 8}
IN_KINDS: dict[str, int] = {"view": 0, "scalar": 1, "iota": 2}
