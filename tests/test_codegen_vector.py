"""Loops in vectors: each vector operation gives in every lane what its scalar function gives, on every CPU level of this host;
what an element becomes does not depend on where it stands."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from kernel_build import c_source, drivers
from plan_build import Builder

from prebake.pgo import toolchain
from prebake.pgo.codegen import Kernel
from prebake.templates import levels
from prebake.templates.scalars import OPS, ScalarOp
from prebake.vm.plan.lower import lower_plan
from prebake.vm.plan.passes import run_passes
from prebake.vm.plan.steps import Literal

FLOATS = {"f32": np.float32, "f64": np.float64}
LEVELS = [level.name for level in levels.runnable_levels()]
if "v4" not in LEVELS and levels.is_x86() and levels.can_run(levels.LEVELS["v4_on_v3"]):
    LEVELS.insert(0, "v4_on_v3")
SIZE = 64 * 9 + 5  # no multiple of any register


def check_function(op: ScalarOp, dtype: str) -> str:
    """C text of a function that counts the elements where the two forms of an operation differ."""
    bits = dtype[1:]
    names = "abc"[:op.arity]
    args = ", ".join(f"pb_v_head_{dtype}({x} + l, n - l)" for x in names)
    scalars = ", ".join(f"{x}[i]" for x in names)
    if op.name == "select":
        args = f"pb_v_gt_{dtype}(pb_v_head_{dtype}(a + l, n - l), pb_v_head_{dtype}(b + l, n - l)), " + args.split("), ", 1)[1]
        scalars = "a[i] > b[i], b[i], c[i]"
    native, differ = (f"b{bits}", "got[i] != -(int)want") if op.predicate else \
        (dtype, "!(got[i] == want && !memcmp(got + i, &want, sizeof want)) && (got[i] == got[i] || want == want)")
    memory = f"i{bits}" if op.predicate else dtype
    return f"""
__attribute__((visibility("default")))
int check_{op.name}_{dtype}(const pb_{dtype} *a, const pb_{dtype} *b, const pb_{dtype} *c, int n) {{
    static pb_{memory} got[{SIZE + 1}];
    int bad = 0;
    memset(got, 0x55, sizeof got);
    for (int l = 0; l < n; l += PB_V_{dtype}) pb_v_put_head_{memory}(got + l, pb_v_{op.name}_{dtype}({args}), n - l);
    for (int i = 0; i < n; i++) {{
        const {'pb_bool' if op.predicate else f'pb_{native}'} want = pb_{op.name}_{dtype}({scalars});
        bad += {differ};
    }}
    for (size_t i = n * sizeof *got; i < sizeof got; i++) bad += ((const char *)got)[i] != 0x55;
    return bad;
}}"""


@pytest.fixture(scope="module", params=LEVELS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Checks of every operation on floats, compiled for one level."""
    folder = tmp_path_factory.mktemp("vector")
    compiler, level = toolchain.find_toolchain(), levels.LEVELS[request.param]
    checks = [check_function(op, dtype) for op in OPS for dtype in op.dtypes if dtype in FLOATS]
    (folder / "checks.c").write_text('#include "pb_vector.h"\n' + "".join(checks))
    compiler.compile(folder / "checks.c", folder / "checks.so",
                     [*compiler.flags(level.flags, level.target), *compiler.kernel_flags], [])
    return ctypes.CDLL(str(folder / "checks.so"))


def values(dtype: str, seed: int) -> np.ndarray:
    """Ordinary and special values, in a random order."""
    kind, rng = FLOATS[dtype], np.random.default_rng(seed)
    info = np.finfo(kind)
    special = np.array([0.0, -0.0, 1, -1, 0.5, 2, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, -info.tiny,
                        info.smallest_subnormal, 88.7, -87.4, -103.5, 1e-20, 3e5], kind)
    ordinary = np.concatenate([rng.standard_normal(200) * 3, np.exp(rng.standard_normal(SIZE - 200 - len(special)) * 20)])
    found = np.concatenate([special, ordinary.astype(kind)])
    return np.ascontiguousarray(rng.permutation(found))


@pytest.mark.parametrize("op", [op for op in OPS if set(op.dtypes) & set(FLOATS)], ids=lambda op: op.name)
def test_lanes_are_scalars(library: ctypes.CDLL, op: ScalarOp) -> None:
    for dtype in set(op.dtypes) & set(FLOATS):
        a, b, c = (values(dtype, seed) for seed in (1, 2, 3))
        for n in (0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, SIZE):
            bad = getattr(library, f"check_{op.name}_{dtype}")(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)), n)
            assert bad == 0, f"{bad} of {n} elements of {dtype}"


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("stages", [1, 3])
def test_position_does_not_matter(dtype: str, stages: int) -> None:
    """Every length, from an address that is not aligned: the results are parts of the longest one's; several long operations
    are loops of their own over blocks."""
    b = Builder()
    x = b.arg("x", [None], dtype)
    y = b.binary("mul", x, b.unary("exp", x))
    z = b.binary("sub", b.unary("tanh", y), b.binary("div", b.unary("log", b.unary("abs", y)), x)) if stages > 1 else y
    b.ret(b.where(b.binary("gt", x, 0.25), z, b.binary("maximum", y, 0.0)))
    code = lower_plan(run_passes(b.plan()))
    assert c_source([Kernel("pb_k", code, {})]).count("pb_v_put_head_") == 1  # one nest
    run = drivers({"chain": code})["chain"]
    data = (np.random.default_rng(5).standard_normal(900) * 3).astype(FLOATS[dtype])
    whole = run({0: data})
    y64 = data * np.exp(data.astype(np.float64))
    z64 = np.tanh(y64) - np.log(np.abs(y64)) / data if stages > 1 else y64
    np.testing.assert_allclose(whole, np.where(data > 0.25, z64, np.maximum(y64, 0)), rtol=1e-5 if dtype == "f32" else 1e-13,
                               atol=1e-5 if dtype == "f32" else 1e-13)
    for n in [*range(70), 127, 128, 129, 255, 256, 257, 511, 512, 513, 900]:
        for start in (0, 1, 3):
            np.testing.assert_array_equal(run({0: data[start:start + n]}), whole[start:start + n])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_extremum_beside_a_literal(dtype: str) -> None:
    """A NaN wins on either side; of equal ones it is the second, zeros of either sign among them."""
    codes, kind = {}, FLOATS[dtype]
    numbers = (0.0, -0.0, 1.5, -2.0, np.inf, np.nan)
    for name in ("maximum", "minimum"):
        for at, number in enumerate(numbers):
            for first in (0, 1):
                b = Builder()
                x = b.arg("x", [None], dtype)
                args = [x, (Literal(number, dtype), dtype)]
                b.ret(b.nest(x.shape, args, [(name, dtype, (first, 1 - first))], b.temp(x.shape, dtype)))
                codes[f"{name}_{at}_{first}"] = lower_plan(b.plan())
    run = drivers(codes)
    data = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 3, -3] * 5, kind)
    for key, found in run.items():
        name, at, first = key.split("_")
        pair = (data, np.full_like(data, numbers[int(at)]))
        a, b_ = pair if first == "0" else pair[::-1]
        want = np.where(np.isnan(a), a, np.where(a > b_ if name == "maximum" else a < b_, a, b_))
        got = found({0: data})
        np.testing.assert_array_equal(got, want, err_msg=key)
        np.testing.assert_array_equal(np.signbit(got)[got == 0], np.signbit(want)[want == 0], err_msg=key)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_extremum_of_arrays(dtype: str) -> None:
    """Registers without a NaN take a shorter way than those with one, wherever it is; zeros keep their sign."""
    codes, kind = {}, FLOATS[dtype]
    for name in ("maximum", "minimum"):
        b = Builder()
        x = b.arg("x", [None], dtype)
        y = b.arg("y", [*x.shape], dtype)
        of_sum = b.binary(name, b.binary("add", x, y), y)
        b.ret(b.binary("mul", of_sum, y), b.reduce("max", b.binary(name, x, y), [0], keepdims=False))
        codes[name] = lower_plan(b.plan())
    rng = np.random.default_rng(5)
    for name, found in drivers(codes).items():
        best = getattr(np, name)
        for n in (1, 5, 16, 31, 32, 33, 64, 70):
            for place in (*range(0, n, 3), None):
                for side in (0, 1):
                    pair = [rng.choice(np.array([0.0, -0.0, 1.0, -1.0, 2.5, np.inf], kind), n) for _ in range(2)]
                    if place is not None:
                        pair[side][place] = np.nan
                    x, y = pair
                    got, largest = found({0: x, 1: y})
                    with np.errstate(invalid="ignore"):
                        want = best(x + y, y) * y
                    np.testing.assert_array_equal(got, want)
                    np.testing.assert_array_equal(np.signbit(got)[got == 0], np.signbit(want)[want == 0])
                    np.testing.assert_array_equal(largest, best(x, y).max())


def test_elements_of_two_widths_stay_a_loop_over_elements() -> None:
    b = Builder()
    x = b.arg("x", [None], "f32")
    b.ret(b.binary("add", x, x))
    assert "pb_v_add_f32" in c_source([Kernel("pb_k", lower_plan(b.plan()), {})])
    b = Builder()
    x = b.arg("x", [None], "f16")
    b.ret(b.binary("add", x, x))
    assert "pb_v_" not in c_source([Kernel("pb_k", lower_plan(b.plan()), {})])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_reductions_in_registers(dtype: str) -> None:
    """Lengths around registers and blocks; NaN anywhere wins an extremum."""
    codes = {}
    for reduce in ("sum", "prod", "max", "min"):
        b = Builder()
        x = b.arg("x", [None], dtype)
        b.ret(b.reduce(reduce, b.binary("mul", x, x), [0]))
        codes[reduce] = lower_plan(b.plan())
    run = drivers(codes)
    rng = np.random.default_rng(7)
    for n in (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 300, 1025):
        data = (0.9 + rng.random(n) * 0.2).astype(FLOATS[dtype])
        tolerance = 1e-5 if dtype == "f32" else 1e-12
        for name, found in run.items():
            want = getattr(np, name)(np.square(data))
            np.testing.assert_allclose(found({0: data}), [want], rtol=tolerance if name in ("sum", "prod") else 0)
        data[rng.integers(n)] = np.nan
        assert all(np.isnan(found({0: data})).all() for found in run.values())
        data[:] = np.inf
        assert all((found({0: data}) == np.inf).all() for found in run.values())
