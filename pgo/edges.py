"""Where a function changes its mind about extents: branch thresholds in its program, facts of its plans.

A bucket that spans such an edge would need two plans, so planning cuts the observed shapes there first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..vm.lang.bytecode import Instruction, Program
from ..vm.lang.opcodes import BY_CODE, COMPARE_OPS

# An edge e separates e - 1 from e. op, with the extent on the left -> edges for a constant c.
_EDGES: dict[str, Callable[[int], tuple[int, ...]]] = {
    ">": lambda c: (c + 1,), "<=": lambda c: (c + 1,), "<": lambda c: (c,), ">=": lambda c: (c,),
    "==": lambda c: (c, c + 1), "!=": lambda c: (c, c + 1),
}
_MIRRORED = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "==", "!=": "!="}


def branch_edges(program: Program) -> dict[str, list[int]]:
    """Symbol ("x.shape[0]") -> ascending edges of its comparisons with constants, such as `x.shape[0] > 128`.

    One walk in program order; a register that means something else on another path makes an edge too many or too few,
    which costs time and never correctness (the plan's own facts are guards).
    """
    known: dict[int, object] = {}  # register -> ('path', text) | ('symbol', text) | ('shape', path) | int
    edges: dict[str, set[int]] = {}

    def compare(a: object, b: object, op: str) -> None:
        if isinstance(a, int) and isinstance(b, tuple):
            a, b, op = b, a, _MIRRORED.get(op, "")
        # a path is an integer argument here; where it is an array, the edge is of a symbol that nothing asks for
        if isinstance(a, tuple) and a[0] in ("symbol", "path") and type(b) is int and op in _EDGES:
            edges.setdefault(a[1], set()).update(e for e in _EDGES[op](b) if e > 0)

    for instruction in program.code:
        values = dict(_operands(instruction))
        name = BY_CODE[instruction.op].name
        dst = values.get("dst")
        meaning: object = None
        source = known.get(values["a"]) if isinstance(values.get("a"), int) else None
        if name == "LOAD_TENSOR":
            meaning = ("path", program.params[values["index"]].name)
        elif name == "LOAD_CONST":
            constant = program.constants[values["value"]]
            meaning = constant if type(constant) is int else None
        elif name == "MOVE":
            meaning = source
        elif name == "LOAD_ATTR" and isinstance(source, tuple) and source[0] == "path":
            attribute = program.constants[values["name"]]
            meaning = ("shape", source[1]) if attribute == "shape" else ("path", f"{source[1]}.{attribute}")
        elif name == "TENSOR_SHAPE_REF" and isinstance(source, tuple) and source[0] == "path":
            axis = values["axis"]
            meaning = ("symbol", f"{source[1]}.shape[{axis}]") if axis >= 0 else None
        elif name == "VIEW_TENSOR":
            base, index = known.get(values["base"]), known.get(values["index"])
            if isinstance(base, tuple) and type(index) is int and index >= 0:
                meaning = (("symbol", f"{base[1]}.shape[{index}]") if base[0] == "shape" else
                           ("path", f"{base[1]}[{index}]") if base[0] == "path" else None)
        elif name == "IF_TENSOR_GT":
            compare(source, known.get(values["b"]), ">")
        elif name == "COMPARE_TENSOR":
            compare(source, known.get(values["b"]), COMPARE_OPS[values["op"]])
        if isinstance(dst, int):
            known[dst] = meaning
    return {symbol: sorted(found) for symbol, found in edges.items()}


def _operands(instruction: Instruction) -> Iterator[tuple[str, int]]:
    """(operand name, word) of the single-word operands; lists of registers are skipped over."""
    at = 0
    for name, kind in BY_CODE[instruction.op].operands:
        word = instruction.args[at]
        at += 1
        if kind in ("srcs", "dsts"):
            at += word
        else:
            yield name, word


