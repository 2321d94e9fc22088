"""Programs, signatures and profiles made by hand, for tests of the build-time tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prebake.pgo.profile import Counts, FunctionProfile, Profile, SignatureProfile
from prebake.vm.lang.bytecode import Instruction, Param, Position, Program, SourceFunction
from prebake.vm.lang.opcodes import BY_NAME
from prebake.vm.lang.source import function_digests
from prebake.vm.plan.signature import Row, Signature

SHOP = """
def double(x):
    return x + x


def branch(x):
    return x + x if x.shape[0] > 128 else x * x
"""  # the text of `shop.py`, where a test wants one


def instruction(name: str, *args: int) -> Instruction:
    """An instruction by its name."""
    return Instruction(BY_NAME[name].code, args)


def program(name: str, params: Sequence[str], constants: Sequence[object], *code: tuple) -> Program:
    """A program of (name, operand, ...) tuples; registers are counted from the operands' largest word."""
    instructions = tuple(instruction(*item) for item in code)
    module, _, qualname = name.partition(":")
    digest = (*function_digests(SHOP, qualname), "0" * 32)[0]
    source = SourceFunction(module, qualname, digest, f"{module}.py", 1, (f"def {qualname}(): ...",))
    return Program(name, tuple(Param(p) for p in params), 16, ("?",), tuple(constants), (), (), instructions,
                   tuple(Position(0, 1, 1, 2) for _ in instructions), (source,))


def doubling(name: str = "shop:double") -> Program:
    """def double(x): return x + x"""
    return program(name, ["x"], [], ("LOAD_TENSOR", 0, 0), ("BINARY_ADD_TENSOR", 1, 0, 0), ("RETURN", 1))


def branching(name: str = "shop:branch", threshold: int = 128) -> Program:
    """def branch(x): return x + x if x.shape[0] > threshold else x * x"""
    return program(name, ["x"], [threshold], ("LOAD_TENSOR", 0, 0), ("TENSOR_SHAPE_REF", 1, 0, 0), ("LOAD_CONST", 2, 0),
                   ("IF_TENSOR_GT", 1, 2, 6), ("BINARY_ADD_TENSOR", 3, 0, 0), ("JUMP", 7),
                   ("BINARY_MUL_TENSOR", 3, 0, 0), ("RETURN", 3))


def array_row(path: str, ndim: int, index: int = 0, dtype: str = "f32", layout: str = "C") -> Row:
    """The row of an array argument."""
    return Row(how="arg", parent=-1, key=index, kind="array", path=path, dtype=dtype, ndim=ndim, layout=layout)


def function_profile(made: Program, shapes: Mapping[tuple[int, ...], int], *, time_ns: int = 5_000,
                     rows: Sequence[Row] | None = None, symbols: Sequence[str] | None = None,
                     names: Mapping[str, str] | None = None, unplanned: int = 0, other: int = 0) -> FunctionProfile:
    """A profile of one function with one signature; rows: by default `x` of as many axes as the shapes have."""
    ndim = len(next(iter(shapes)))
    rows = rows or [array_row("x", ndim)]
    symbols = symbols or [f"{r.path}.shape[{a}]" for r in rows for a in range(r.ndim)]
    part = SignatureProfile(Signature(tuple(rows)), tuple(symbols), other=other)
    for extents, calls in shapes.items():
        part.shapes[extents] = Counts(calls, calls * time_ns, calls)
    part.sample = dict(zip(part.symbols, next(iter(shapes)), strict=True))
    function = FunctionProfile(made.name, made.name.partition(":")[0], made.digest, made.to_bytes(),
                               shapes=dict(names or {}), calls=part.calls + unplanned, unplanned=unplanned)
    function.signatures[part.key()] = part
    return function


def profile(*functions: FunctionProfile) -> Profile:
    """A profile of functions."""
    return Profile({f.qualname: f for f in functions}, "test")
