"""The tape's instruction numbers, shared by the encoder (vm/run/tape.py) and the C loop (include/pb_tape.h).

Each name becomes `PB_T_<NAME>` in the stencil library. Layouts of the words stand in include/pb_tape.h and pb_nest.h.
"""

from __future__ import annotations

from .scalars import MEMORY, NATIVE, REDUCTIONS

OPCODES: tuple[str, ...] = (
    "exit", "add", "sub", "mul", "floordiv", "mod", "min", "max", "eq", "ne", "lt", "le", "and", "or", "select",
    "guard", "scalar", "cast", "load", "store", "move", "trap", "alloc", "jump", "jump_if_zero", "for_begin",
    "for_next", "nest", "contract",
)
OPCODE: dict[str, int] = {name: number for number, name in enumerate(OPCODES)}

NATIVE_CODE: dict[str, int] = {name: number for number, name in enumerate(NATIVE)}
MEMORY_CODE: dict[str, int] = {name: number for number, name in enumerate(MEMORY)}
REDUCTION_CODE: dict[str, int] = {name: number for number, name in enumerate(REDUCTIONS)}
NATIVE_BYTES: dict[str, int] = {"bool": 1, "i32": 4, "i64": 8, "f32": 4, "f64": 8}

# The native dtype that a load of each memory dtype yields, and that a store takes. u64 has none.
NATIVE_OF: dict[str, str] = {
    "bool": "bool", "i8": "i32", "i16": "i32", "i32": "i32", "i64": "i64", "u8": "i32", "u16": "i32", "u32": "i64",
    "f16": "f32", "f32": "f32", "f64": "f64",
}
TRAPS: dict[str, int] = {"INDEX": 1, "ZERO_DIVISION": 2, "OVERFLOW": 3, "VALUE": 4, "MEMORY": 5, "INTERPRET": 6}
IN_KINDS: dict[str, int] = {"view": 0, "scalar": 1, "iota": 2}
