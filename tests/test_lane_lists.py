"""Lists of rows over lanes of one width: comparisons, choices, truth values, integers and conversions beside floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tape_helper import LEVELS, NATIVE_NUMPY, Builder, node, run_nest

from prebake.templates.scalars import BY_NAME
from prebake.templates.stencils import STENCIL_INDEX, STRIP_INDEXES, STRIPS, cast_index

# around one strip of each level (8 vectors of 16, 32 or 64 bytes, lanes of 4 and 8), around a window of 16 strips, and short ones
LENGTHS = [1, 7, 16, 31, 32, 33, 64, 65, 127, 128, 129, 200, 300, 513, 1024, 1031, 2049, 2200, 4500]
LANES = {"f32": ("f32", "i32"), "f64": ("f64", "i64")}
LEVEL_AND_FLOAT = pytest.mark.parametrize(("level", "dtype"), [(level, dtype) for level in LEVELS for dtype in LANES])
SPECIAL = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 3.5]
COMPARED = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
CALLS: dict[str, Callable[..., np.ndarray]] = {
    **COMPARED, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "select": np.where,
    "not": np.logical_not, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift,
    "shr": np.right_shift}


def numpy_result(name: str, *args: np.ndarray) -> np.ndarray:
    """What NumPy makes of whole arrays."""
    with np.errstate(all="ignore"):
        if name == "mov":
            return args[0].copy()
        return CALLS.get(name, getattr(np, name, None))(*args)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype[0] == "i":
        return rng.integers(-6, 7, shape).astype(NATIVE_NUMPY[dtype])
    out = rng.standard_normal(shape).astype(NATIVE_NUMPY[dtype])
    where = rng.random(shape) < 0.3
    out[where] = rng.choice(np.array(SPECIAL, out.dtype), int(where.sum()))
    return out


def same(got: np.ndarray, want: np.ndarray) -> bool:
    return got.dtype == want.dtype and np.array_equal(got, want, equal_nan=got.dtype.kind == "f")


def beside(dtype: str) -> str:
    """A float type of the lanes that a type has; of truth values any."""
    return "f64" if dtype in ("f64", "i64") else "f32"


def test_every_cheap_operation_has_its_forms():
    casts = {cast_index(a, b) for lanes in LANES.values() for a in (*lanes, "bool") for b in (*lanes, "bool") if a != b}
    assert {STENCIL_INDEX[name, dtype] for dtype, names in STRIPS.items() for name in names} | casts == STRIP_INDEXES


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["bool", "f32", "f64", "i32", "i64"])
def test_each_operation_in_each_form(dtype, level):
    """Operands held, in memory and one number a row, in all combinations; truth values in lanes of both widths."""
    rng = np.random.default_rng(1)
    shape = (3, 150)
    for name in sorted(STRIPS[dtype] - {"exp", "tanh", "erf"}):
        arity = BY_NAME[name].arity
        kinds = ["bool", dtype, dtype] if name == "select" else [dtype] * arity
        for wide in ((False, True) if dtype == "bool" else (False,)):
            other = "f64" if wide else beside(dtype)
            for case in range(3 ** arity):
                places = [case // 3 ** k % 3 for k in range(arity)]  # 0: held, 1: memory, 2: one number a row
                if places.count(0) > 1 or places == [2] * arity:
                    continue
                made = [values(rng, (3, 1) if place == 2 else shape, kind) for place, kind in zip(places, kinds, strict=True)]
                if name in ("shl", "shr"):
                    made[1] = np.abs(made[1])
                args = [np.broadcast_to(x, shape) for x in made]
                nodes = []
                slots = list(range(arity))
                lane = np.broadcast_to(values(rng, shape, other), shape)  # so that truth values know how wide they are
                if 0 in places:
                    k = places.index(0)
                    slots[k] = arity + 1
                    nodes.append(node("mov", kinds[k], k))
                nodes.append(node(name, dtype, *slots))
                nodes.append(node("mov", other, arity))
                last = arity + len(nodes)
                want = numpy_result(name, *args)
                out, beside_it = np.zeros(shape, want.dtype), np.zeros(shape, lane.dtype)
                outs = [(last - 1, "store", out, 0), (last, "store", beside_it, 0)]
                run_nest(shape, [*args, lane], nodes, outs, level)
                assert same(out, want), (name, places, made)
                assert same(beside_it, lane)


@LEVEL_AND_FLOAT
def test_conversions(dtype, level):
    rng = np.random.default_rng(2)
    for frm in (*LANES[dtype], "bool"):
        for to in (*LANES[dtype], "bool"):
            for n in (40, 150, 1100):
                x = values(rng, (2, n), frm)
                if frm[0] == "f":
                    x[~np.isfinite(x)] = 2.75
                lane = values(rng, (2, n), dtype)
                out, copy = np.zeros((2, n), NATIVE_NUMPY[to]), np.zeros((2, n), lane.dtype)
                nodes = [node("cast", frm, 0, result=to)] if frm != to else [node("mov", frm, 0)]
                nodes.append(node("mov", dtype, 1))
                run_nest((2, n), [x, lane], nodes, [(2, "store", out, 0), (3, "store", copy, 0)], level)
                assert same(out, x.astype(out.dtype)), (frm, to, n)


@LEVEL_AND_FLOAT
def test_comparisons_that_are_made_where_they_are_read(dtype, level):
    """Each comparison before a choice, either side of it held, memory or a number, and joined with another answer."""
    rng = np.random.default_rng(3)
    for kind in LANES[dtype]:
        for n in (64, 150, 1100):
            x, y, z = (values(rng, (2, n), kind) for _ in range(3))
            number = np.broadcast_to(values(rng, (2, 1), kind), (2, n))
            for name, compare in COMPARED.items():
                for first, second in ((0, 1), (0, 3), (3, 0)):
                    arrays = [x, y, z, number]
                    c = compare(arrays[first], arrays[second])
                    compared = node(name, kind, first, second)
                    made = node("mul", kind, 2, 1)  # slot 5, held
                    product = numpy_result("mul", z, y)
                    for chosen in ((5, 0), (5, 3), (0, 5), (3, 5), (0, 1), (3, 1), (5, 5)):
                        sides = [product if k == 5 else arrays[k] for k in chosen]
                        out = np.zeros((2, n), x.dtype)
                        nodes = [compared, made, node("select", kind, 4, *chosen)]
                        run_nest((2, n), arrays, nodes, [(6, "store", out, 0)], level)
                        assert same(out, np.where(c, *sides)), (name, first, second, chosen, n)
                    for join, call in (("and", np.logical_and), ("or", np.logical_or)):
                        answer, best = np.zeros((2, n), bool), np.zeros((2, n), bool)
                        nodes = [compared, node("lt", kind, 2, 1), node(join, "bool", 4, 5), node("ge", kind, 1, 0),
                                 node(join, "bool", 7, 6)]
                        run_nest((2, n), arrays, nodes, [(6, "store", answer, 0), (8, "store", best, 0)], level)
                        want = call(c, z < y)
                        assert same(answer, want) and same(best, call(want, y >= x)), (name, first, second, join)


@LEVEL_AND_FLOAT
def test_a_late_comparison_finds_its_operands(dtype, level):
    """Operands whose buffer another value takes before the answer is read: then the comparison is made at once."""
    rng = np.random.default_rng(4)
    for n in (100, 1100):
        x, y = values(rng, (2, n), dtype), values(rng, (2, n), dtype)
        nodes = [node("add", dtype, 0, 1), node("mul", dtype, 2, 0), node("gt", dtype, 2, 3), node("sub", dtype, 0, 1),
                 node("mul", dtype, 5, 5), node("add", dtype, 6, 5), node("select", dtype, 4, 7, 6)]
        out = np.zeros_like(x)
        run_nest((2, n), [x, y], nodes, [(8, "store", out, 0)], level)
        with np.errstate(all="ignore"):
            total, square = x + y, (x - y) * (x - y)
            want = np.where(total > total * x, square + (x - y), square)
        assert same(out, want)


@LEVEL_AND_FLOAT
def test_sums_under_masks(dtype, level):
    """Zeros where the mask does not hold: the value held, the mask held, neither, and two sums under one mask."""
    rng = np.random.default_rng(5)
    for n in LENGTHS:
        for kind in LANES[dtype]:
            x, y = rng.integers(-9, 9, (3, n)).astype(NATIVE_NUMPY[kind]), values(rng, (3, n), "bool")
            if kind[0] == "f":
                x[:, 0] = np.nan
                y[:, 0] = False
            for nodes, value, mask, outs in (
                    ([], 0, 1, 1), ([node("add", kind, 0, 0)], 3, 1, 1), ([node("not", "bool", 1)], 0, 3, 1),
                    ([node("square", kind, 0), node("not", "bool", 1)], 3, 4, 2)):
                builder = Builder()
                zero = builder.scalar(0, kind)
                sums = [np.zeros(3, x.dtype) for _ in range(outs)]
                nodes = [*nodes, *[node("select", kind, mask, slot, 2) for slot in (value, 0)[:outs]]]
                first = 3 + len(nodes) - outs
                run_nest((3, n), [x, y, zero], nodes, [(first + k, "sum", out, 2) for k, out in enumerate(sums)], level, builder)
                made = {0: x, 3: x + x if outs == 1 and mask == 1 else x * x}
                holds = y if mask == 1 else ~y
                for slot, out in zip((value, 0), sums, strict=False):
                    with np.errstate(all="ignore"):
                        want = np.where(holds, made[slot], x.dtype.type(0)).sum(1, dtype=x.dtype)
                    assert same(out, want), (n, kind, value, mask)


@LEVEL_AND_FLOAT
def test_reductions_of_integers_and_truth_values(dtype, level):
    rng = np.random.default_rng(6)
    kind = LANES[dtype][1]
    for n in LENGTHS:
        x, y = values(rng, (4, n), kind), values(rng, (4, n), kind)
        y[1], y[2, -1], y[3, 0] = x[1], x[2, -1] + 1, x[3, 0] - 1
        made = [np.zeros(4, x.dtype) for _ in range(3)] + [np.zeros(4, bool) for _ in range(2)]
        nodes = [node("add", kind, 0, 1), node("eq", kind, 0, 1), node("le", kind, 0, 1)]
        ways = [(2, "sum"), (2, "max"), (1, "min"), (3, "any"), (4, "all")]
        outs = [(*way, out, 2) for way, out in zip(ways, made, strict=True)]
        run_nest((4, n), [x, y], nodes, outs, level)
        wanted = [(x + y).sum(1, dtype=x.dtype), (x + y).max(1), y.min(1), (x == y).any(1), (x <= y).all(1)]
        for got, want in zip(made, wanted, strict=True):
            assert same(got, want), n
        extremes = np.full((1, n), np.iinfo(x.dtype).max)
        wrapped = np.zeros(1, x.dtype)
        run_nest((1, n), [extremes], [], [(0, "sum", wrapped, 2)], level)
        assert same(wrapped, extremes.sum(1, dtype=x.dtype))


@LEVEL_AND_FLOAT
def test_truth_values_in_memory_are_any_bytes(dtype, level):
    """Inputs of bytes other than 0 and 1, strided outer axes, and answers that are stored, and read again, as 0 and 1."""
    rng = np.random.default_rng(7)
    for n in (64, 100, 513, 2200):
        whole = rng.choice(np.array([0, 1, 2, 128, 255], np.uint8), (6, n + 5)).view(bool)
        masks = [whole[::2, 1:n + 1], whole[5::-2, 2:n + 2]]
        x = values(rng, (3, n), dtype)
        both, kept, room = np.zeros((3, n), bool), np.zeros((3, n), x.dtype), np.full((3, n + 6), 7, np.uint8).view(bool)
        some = np.zeros(3, bool)
        nodes = [node("and", "bool", 0, 1), node("select", dtype, 3, 2, 2), node("isnan", dtype, 2), node("or", "bool", 5, 3)]
        outs = [(3, "store", both, 0), (4, "store", kept, 0), (6, "store", room[:, 3:n + 3], 0), (3, "any", some, 2)]
        run_nest((3, n), [*masks, x], nodes, outs, level)
        true = [mask.view(np.uint8) != 0 for mask in masks]
        assert np.array_equal(both.view(np.uint8), true[0] & true[1]) and same(kept, x) and same(some, (true[0] & true[1]).any(1))
        assert np.array_equal(room.view(np.uint8)[:, 3:n + 3], np.isnan(x) | (true[0] & true[1]))
        assert np.all(room.view(np.uint8)[:, :3] == 7) and np.all(room.view(np.uint8)[:, n + 3:] == 7)


@LEVEL_AND_FLOAT
def test_in_place(dtype, level):
    """Outputs over inputs, floats and truth values: no last strip may make again what was overwritten."""
    rng = np.random.default_rng(8)
    for n in LENGTHS:
        x, mask = values(rng, (3, n), dtype), values(rng, (3, n), "bool")
        other = values(rng, (3, n), dtype)
        want, negated = np.where(mask, numpy_result("add", x, other), x), ~mask
        nodes = [node("add", dtype, 0, 1), node("select", dtype, 2, 3, 0), node("not", "bool", 2)]
        run_nest((3, n), [x, other, mask], nodes, [(4, "store", x, 0), (5, "store", mask, 0)], level)
        assert same(x, want) and same(mask, negated), n


def random_case(rng: np.random.Generator, dtype: str, level: str) -> None:
    """A DAG over floats, integers and truth values of one width, stored and reduced."""
    kinds = (*LANES[dtype], "bool")
    shape = (int(rng.choice([1, 2, 3, 5])), int(rng.choice(LENGTHS)))
    inputs, types, nodes = [], [], []
    for k in range(int(rng.integers(1, 5))):
        kind = str(rng.choice([dtype, *kinds]))
        part = [shape, shape, (1, shape[1]), (shape[0], 1), (1, 1)][int(rng.integers(5)) if k else 0]
        inputs.append(np.broadcast_to(values(rng, part, kind), shape))
        types.append(kind)
    results = list(inputs)

    def pick(kind: str) -> int:
        found = [k for k, of in enumerate(types) if of == kind]
        return -1 if not found else found[-1] if rng.random() < 0.5 else int(rng.choice(found))

    for _ in range(int(rng.integers(1, 12))):
        kind = str(rng.choice([dtype, *kinds]))
        name = str(rng.choice(sorted(STRIPS[kind] - {"exp", "tanh", "erf", "shl", "shr", "mov"})))
        args = [pick(kind) for _ in range(BY_NAME[name].arity)]
        if name == "select":
            args[0] = pick("bool")
        if -1 in args:
            frm = str(rng.choice([k for k in kinds if k != kind]))
            args = [pick(frm)]
            if args[0] < 0 or (kind[0] == "i" and frm[0] == "f"):
                continue
            nodes.append(node("cast", frm, args[0], result=kind))
            results.append(results[args[0]].astype(NATIVE_NUMPY[kind]))
        else:
            nodes.append(node(name, kind, *args))
            results.append(np.broadcast_to(numpy_result(name, *[results[a] for a in args]), shape))
        types.append(nodes[-1].dtype)
    outs, wanted = [], []
    for slot in sorted({len(results) - 1, *rng.integers(len(results), size=int(rng.integers(3))).tolist()}):
        of, result = types[slot], results[slot]
        how = str(rng.choice(["store", "store", *(("any", "all") if of == "bool" else ("sum", "max", "min"))]))
        out = np.zeros(shape if how == "store" else shape[:1], result.dtype)
        outs.append((slot, how, out, 0 if how == "store" else 2))
        wanted.append((how, out, result))
    run_nest(shape, inputs, nodes, outs, level)
    with np.errstate(all="ignore"):
        for how, out, result in wanted:
            if how == "sum" and result.dtype.kind == "f":
                exact, size = result.astype("f8").sum(1), np.abs(result.astype("f8")).sum(1)
                near = np.abs(out - exact) <= 16 * np.finfo(out.dtype).eps * size
                assert np.all(near | (out == exact) | (np.isnan(out) & np.isnan(exact))), nodes
            else:
                want = (result if how == "store" else result.sum(1, dtype=result.dtype) if how == "sum"
                        else getattr(result, how)(1))
                assert same(out, want), (how, nodes, types, outs)


@LEVEL_AND_FLOAT
def test_random_nests(dtype, level):
    for seed in range(250):
        rng = np.random.default_rng(seed)
        try:
            random_case(rng, dtype, level)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
