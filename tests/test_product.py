"""The matrix product in C against NumPy: shapes, strides, transposes, batches, both dtypes, every level."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, TypeAlias

import numpy as np
import pytest

from prebake.templates import levels
from prebake.vm.run.precision import rounded

INCLUDE = Path(__file__).resolve().parents[1] / "templates" / "include"
LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4") if platform.machine() == "x86_64" else ("native",)
# the vectors and tiles of v4 on the instructions of v3, for hosts that have no others
# (-O3 takes longer for it than for all others together, and finds no more than it does for v4)
WIDER = {"x86-64-v4 on v3": ["-march=x86-64-v3", "-DPB_VECTOR_BYTES=64", "-O1"]} if platform.machine() == "x86_64" else {}
SOURCE = """
#include "pb_product.h"
void product(const pb_product_args *p) { pb_product(p); }
int64_t pack_bytes(int32_t dtype, int64_t k, int64_t n) { return pb_pack_bytes(dtype, k, n); }
void pack(int32_t dtype, int64_t k, int64_t n, const char *src, int64_t rs, int64_t cs, void *dst) {
    pb_pack(dtype, k, n, src, rs, cs, dst);
}
const char *layout(void) { return PB_PACK_LAYOUT; }
"""
Dtype: TypeAlias = "type[np.float32] | type[np.float64]"
I64 = ctypes.c_int64
I64P = ctypes.POINTER(I64)


class Args(ctypes.Structure):
    """pb_product_args."""

    _fields_: ClassVar = [
        *((name, ctypes.c_int32) for name in ("dtype", "nbatch", "act", "has_pack")),
        ("m", I64), ("n", I64), ("k", I64), ("batch", I64P),
        ("a", ctypes.c_void_p), ("a_rs", I64), ("a_cs", I64), ("a_bs", I64P),
        ("b", ctypes.c_void_p), ("b_rs", I64), ("b_cs", I64), ("b_bs", I64P),
        ("pack", ctypes.c_void_p),
        ("c", ctypes.c_void_p), ("c_rs", I64), ("c_cs", I64), ("c_bs", I64P),
        ("bias", ctypes.c_void_p), ("bias_s", I64),
        ("residual", ctypes.c_void_p), ("residual_rs", I64), ("residual_cs", I64), ("residual_bs", I64P),
    ]


def runs_here(level: str) -> bool:
    """True when this host has the level's instructions, as far as NumPy tells (an emulator's /proc tells of its host)."""
    if level == LEVELS[0]:
        return True
    return levels.can_run(levels.LEVELS["v3" if level in WIDER else level.removeprefix("x86-64-")])


class Library:
    """The product compiled for one level."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.c = ctypes.CDLL(str(path))
        self.c.pack_bytes.restype = I64
        self.c.pack_bytes.argtypes = [ctypes.c_int32, I64, I64]
        self.c.pack.argtypes = [ctypes.c_int32, I64, I64, ctypes.c_void_p, I64, I64, ctypes.c_void_p]
        self.c.layout.restype = ctypes.c_char_p

    def pack(self, b: np.ndarray, dtype: int | None = None) -> np.ndarray:
        """Return b (k, n) packed; the bytes behind the pack are checked to stay untouched."""
        dtype = int(b.dtype == np.float64) if dtype is None else dtype
        size = self.c.pack_bytes(dtype, *b.shape)
        packed = np.full(size + 64, 0xA5, np.uint8)
        self.c.pack(dtype, *b.shape, b.ctypes.data, *b.strides, packed.ctypes.data)
        assert (packed[size:] == 0xA5).all(), "pack wrote past pack_bytes"
        return packed

    def product(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, bias: np.ndarray | None = None, relu: bool = False,
                packed: bool = False, residual: np.ndarray | None = None, dtype: int | None = None) -> None:
        """c[...] = act(a @ b + bias + residual) for arrays that have their matrix axes. dtype: 2, 3 round a and b."""
        batch = c.shape[:-2]
        rank = len(batch)

        def numbers(values: tuple[int, ...]) -> ctypes.Array[I64]:
            return (I64 * max(len(values), 1))(*values)

        a_bs = numbers(np.broadcast_to(a, batch + a.shape[-2:]).strides[:-2])
        b_bs = numbers(np.broadcast_to(b, batch + b.shape[-2:]).strides[:-2])
        pack = self.pack(b, dtype) if packed else None
        args = Args(
            dtype=int(c.dtype == np.float64) if dtype is None else dtype, nbatch=rank, act=int(relu), has_pack=int(packed),
            m=c.shape[-2], n=c.shape[-1], k=a.shape[-1], batch=numbers(batch),
            a=a.ctypes.data, a_rs=a.strides[-2], a_cs=a.strides[-1], a_bs=a_bs,
            b=None if packed else b.ctypes.data, b_rs=b.strides[-2], b_cs=b.strides[-1],
            b_bs=None if packed else b_bs, pack=pack.ctypes.data if pack is not None else None,
            c=c.ctypes.data, c_rs=c.strides[-2], c_cs=c.strides[-1], c_bs=numbers(c.strides[:-2]),
            bias=bias.ctypes.data if bias is not None else None, bias_s=bias.strides[0] if bias is not None else 0,
        )
        if residual is not None:
            args.residual, (*batch_strides, args.residual_rs, args.residual_cs) = residual.ctypes.data, residual.strides
            args.residual_bs = numbers(tuple(batch_strides))
        self.c.product(ctypes.byref(args))


@pytest.fixture(scope="module", params=[*LEVELS, *WIDER])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The header compiled without a warning, for one level."""
    level = request.param
    compiler = os.environ.get("CC") or (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip(f"no C compiler ({compiler})")
    folder = tmp_path_factory.mktemp("product")
    (folder / "product.c").write_text(SOURCE)
    target = folder / f"product-{level}.so"
    flags = ["-O3", "-Wall", "-Werror", "-Wno-psabi", "-ffp-contract=off", "-fwrapv", "-fPIC", "-shared"]
    flags += WIDER.get(level, [f"-march={level}"])
    subprocess.run([compiler, *flags, f"-I{INCLUDE}", "-o", str(target), str(folder / "product.c")], check=True)
    if not runs_here(level):
        pytest.skip(f"compiles for {level}, which this host cannot run")
    yield Library(target)


def laid_out(rng: np.random.Generator, shape: tuple[int, ...], dtype: Dtype, layout: str) -> np.ndarray:
    """Random (..., rows, columns) in a memory layout: c, f, rows, columns (every second), reversed, broadcast."""
    *batch, rows, cols = shape
    if layout == "f":
        return np.swapaxes(rng.standard_normal((*batch, cols, rows)).astype(dtype), -1, -2)
    if layout == "rows":
        return rng.standard_normal((*batch, 2 * rows, cols + 3)).astype(dtype)[..., ::2, :cols]
    if layout == "columns":
        return rng.standard_normal((*batch, rows, 2 * cols)).astype(dtype)[..., ::2]
    if layout == "reversed":
        return rng.standard_normal(shape).astype(dtype)[..., ::-1, ::-1]
    if layout == "broadcast":
        return np.broadcast_to(rng.standard_normal((*batch, 1, cols)).astype(dtype), shape)
    return rng.standard_normal(shape).astype(dtype)


def sums(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a @ b in a wider type, and how many eps of a's type a sum of that many terms may be off.

    Large products of float64 are compared with float64's (NumPy has no fast wider one), which may be off by as much.
    """
    is_wide = a.dtype == np.float32 or a.shape[-2] * a.shape[-1] * b.shape[-1] > 1 << 18
    wide_a, wide_b = (x.astype(np.float64 if is_wide else np.longdouble) for x in (a, b))
    terms = (a.shape[-1] + 2) * (2 if is_wide and a.dtype == np.float64 else 1)
    return wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b) * terms


def check(library: Library, a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None, relu: bool = False,
          packed: bool = False, c_layout: str = "c") -> np.ndarray:
    """Compare one product with NumPy in double precision; nothing beside c may change. Returns c."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    dtype = a.dtype.type
    guard = 12345.0
    whole = np.full([2 * extent + 4 for extent in shape], guard, dtype)
    if c_layout == "f":
        whole = np.swapaxes(np.full_like(np.swapaxes(whole, -1, -2), guard, order="C"), -1, -2)
    inside = tuple(slice(2, 2 + e) for e in shape)
    if c_layout == "strided":
        inside = tuple(slice(2, 2 + 2 * e, 2) for e in shape)
    if c_layout == "reversed":
        inside = tuple(slice(e + 1, 1, -1) for e in shape)
    c = whole[inside]
    assert c.shape == shape
    library.product(a, b, c, bias, relu, packed)
    # The bound: k rounding errors of the sum of magnitudes (twice that without FMA).
    expected, bound = sums(a, b)
    if bias is not None:
        expected = expected + bias
        bound = bound + 4 * np.abs(bias)
    if relu:
        expected = np.maximum(expected, 0)
    error = np.abs(c - expected)
    assert (error <= bound * np.finfo(dtype).eps).all(), (a.shape, a.strides, b.shape, b.strides, packed, c_layout)
    result = c.copy()
    c[...] = guard
    assert (whole == guard).all(), "wrote outside c"
    residual = laid_out(np.random.default_rng(list(shape)), shape, dtype, next(RESIDUALS))
    if relu:
        library.product(a, b, c, bias, False, packed)
    before = c.copy() if relu else result
    library.product(a, b, c, bias, relu, packed, residual)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(c, np.maximum(before + residual, 0) if relu else before + residual)
    c[...] = guard
    assert (whole == guard).all(), "wrote outside c"
    return result


DTYPES = (np.float32, np.float64)
RESIDUALS = itertools.cycle(("c", "rows", "c", "columns", "broadcast", "f", "reversed"))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_remainder(library: Library, dtype: Dtype, packed: bool) -> None:
    """All row counts to past two tiles, all column remainders, k of 1 and around the vector width."""
    rng = np.random.default_rng(1)
    rows = (*range(1, 15), 24, 25, 27)
    for m, n in itertools.product(rows, (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 47, 64, 65, 100, 128, 130)):
        k = int(rng.choice([1, 2, 3, 4, 7, 8, 9, 16, 17, 33]))
        bias = rng.standard_normal(n).astype(dtype)
        check(library, laid_out(rng, (m, k), dtype, "c"), laid_out(rng, (k, n), dtype, "c"), bias, bool(n % 2), packed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(library: Library, dtype: Dtype) -> None:
    """Every pair of operand layouts, with each layout of the result in turn, packed and not."""
    rng = np.random.default_rng(2)
    layouts = ("c", "f", "rows", "columns", "reversed", "broadcast")
    results = itertools.cycle(("c", "f", "strided", "reversed"))
    for (left, right), (m, n, k) in itertools.product(
        itertools.product(layouts, layouts),
        ((1, 40, 9), (3, 5, 20), (4, 33, 64), (5, 3, 17), (29, 70, 31), (40, 1, 50), (13, 16, 3), (2, 2, 2), (1, 1, 5)),
    ):
        a, b = laid_out(rng, (m, k), dtype, left), laid_out(rng, (k, n), dtype, right)
        bias = rng.standard_normal(2 * n).astype(dtype)[::2] if rng.random() < 0.5 else None
        for packed in (False, True):
            check(library, a, b, bias, bool(rng.random() < 0.5), packed, next(results))


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_k_is_blocked(library: Library, dtype: Dtype) -> None:
    """Several blocks of k, with tails, through every way to read b."""
    rng = np.random.default_rng(3)
    for m, n, k in ((1, 40, 5000), (7, 21, 4097), (30, 37, 2500), (30, 64, 1025), (13, 3, 9000), (3, 3, 70000)):
        for left, right, packed in itertools.product("cf", "cf", (False, True)):
            bias = rng.standard_normal(n).astype(dtype)
            for c_layout in ("c", "strided"):
                a, b = laid_out(rng, (m, k), dtype, left), laid_out(rng, (k, n), dtype, right)
                check(library, a, b, bias, True, packed, c_layout)


@pytest.mark.parametrize("dtype", DTYPES)
def test_few_rows_against_a_large_b(library: Library, dtype: Dtype) -> None:
    """Each way to read an unpacked b that no near cache holds: in streams, in blocks of k, copied (rows pages apart)."""
    rng = np.random.default_rng(6)
    for m, (k, n) in itertools.product((1, 2, 4, 7, 13), ((1030, 300), (300, 1024), (515, 1021), (700, 2048))):
        bias = rng.standard_normal(n).astype(dtype)
        check(library, laid_out(rng, (m, k), dtype, "c"), laid_out(rng, (k, n), dtype, "c"), bias, True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_rows(library: Library, dtype: Dtype) -> None:
    """Row blocks: more rows than the copy of a left operand holds."""
    rng = np.random.default_rng(4)
    for left, right in itertools.product("cf", "cf"):
        for n in (2, 70):
            check(library, laid_out(rng, (1500, 300), dtype, left), laid_out(rng, (300, n), dtype, right))


@pytest.mark.parametrize("dtype", DTYPES)
def test_groups_of_panels(library: Library, dtype: Dtype) -> None:
    """An unpacked b of several groups of panels and blocks of k, whose last ones are partial, against many tiles of rows: in
    place, transposed and with rows whole pages apart; the sums are those of a packed b."""
    rng = np.random.default_rng(7)
    for left, right, c_layout in (("c", "c", "c"), ("f", "c", "c"), ("c", "f", "strided"), ("rows", "rows", "c")):
        for m, k, n in ((97, 300, 530), (133, 600, 261), (50, 257, 1030)):
            a, b = laid_out(rng, (m, k), dtype, left), laid_out(rng, (k, n), dtype, right)
            bias = rng.standard_normal(n).astype(dtype)
            here = check(library, a, b, bias, True, False, c_layout)
            np.testing.assert_array_equal(here, check(library, a, b, bias, True, True))
    paged = rng.standard_normal((260, 1024)).astype(dtype)
    check(library, paged[:, :700], rng.standard_normal((700, 1024)).astype(dtype)[:, :280])


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches(library: Library, dtype: Dtype) -> None:
    """Broadcast batch axes on either side, axes that fold into rows and axes that do not."""
    rng = np.random.default_rng(5)
    cases = [((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((4, 1, 2), (3, 1)), ((1,), (1,)),
             ((5, 0), (1,)), ((2, 3, 2), ())]
    shapes = ((1, 5, 4), (2, 3, 3), (6, 20, 7), (8, 40, 16), (3, 1, 9))
    for (left, right), (m, n, k) in itertools.product(cases, shapes):
        for la, lb, lc in (("c", "c", "c"), ("f", "c", "strided"), ("rows", "f", "c"), ("c", "columns", "f")):
            a, b = laid_out(rng, (*left, m, k), dtype, la), laid_out(rng, (*right, k, n), dtype, lb)
            check(library, a, b, c_layout=lc)
            if not right:
                check(library, a, b, rng.standard_normal(n).astype(dtype), True, True, lc)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("packed", [False, True])
def test_empty(library: Library, dtype: Dtype, packed: bool) -> None:
    """m, n or k of 0: nothing written, or act(bias), or zeros."""
    for m, n, k in itertools.product((0, 1, 7), (0, 1, 3, 20), (0, 1, 5)):
        a, b = np.ones((m, k), dtype), np.ones((k, n), dtype)
        bias = np.linspace(-2, 2, n).astype(dtype)
        got = check(library, a, b, bias, True, packed)
        if k == 0:
            assert np.array_equal(got, np.broadcast_to(np.maximum(bias, 0), (m, n)))
        check(library, a, b, None, False, packed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(library: Library, dtype: Dtype) -> None:
    """NaN survives relu and stays in its own row and column; infinities are not spread by padding or by tails."""
    for m, n, k in ((1, 1, 9), (5, 3, 11), (7, 19, 6), (13, 40, 33), (2, 70, 3)):
        for packed in (False, True):
            a, b = np.ones((m, k), dtype), np.ones((k, n), dtype)
            a[0, 0] = np.nan
            b[k - 1, n - 1] = np.inf
            c = np.empty((m, n), dtype)
            library.product(a, b, c, np.full(n, -1, dtype), True, packed)
            with np.errstate(invalid="ignore"):
                expected = np.maximum(a @ b - 1, 0)
            assert np.array_equal(c, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_do_not_depend_on_the_batch(library: Library, dtype: Dtype) -> None:
    """A row's result is the same bits alone and among others, packed and not."""
    rng = np.random.default_rng(6)
    for n, k in ((512, 128), (1, 64), (3, 100), (70, 300), (37, 2500)):
        a, b = laid_out(rng, (40, k), dtype, "c"), laid_out(rng, (k, n), dtype, "c")
        whole = np.empty((40, n), dtype)
        library.product(a, b, whole, packed=True)
        for m in (1, 2, 3, 4, 5, 7, 8, 13, 29):
            for packed in (False, True):
                part = np.empty((m, n), dtype)
                library.product(a[:m], b, part, packed=packed)
                if n > 4 or packed:
                    assert np.array_equal(part, whole[:m]), (n, k, m, packed)


PAGE = mmap.PAGESIZE


def before_a_wall(values: np.ndarray) -> np.ndarray:
    """A copy of a 2-D array, C-ordered, whose last byte is the last of a page: the next page may not be touched."""
    whole = mmap.mmap(-1, (values.nbytes // PAGE + 2) * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    end = len(whole) - PAGE
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + end), ctypes.c_size_t(PAGE), 0) == 0
    copy = np.frombuffer(whole, values.dtype, values.size, end - values.nbytes).reshape(values.shape)
    copy[...] = values
    return copy


def check_walls(path: str) -> None:
    """Products whose operands end at a wall, in every layout (run in a process of its own: a fault is a signal)."""
    library = Library(Path(path))
    rng = np.random.default_rng(7)
    shapes = ((1, 1, 7), (1, 600, 130), (2, 21, 5), (3, 40, 17), (5, 7, 9), (7, 2, 33), (13, 35, 100), (30, 37, 300),
              (530, 45, 150))
    for dtype, (m, n, k) in itertools.product(DTYPES, shapes):
        bias = before_a_wall(np.ones((1, n), dtype))[0]
        for left, right in itertools.product((False, True), repeat=2):
            a = before_a_wall(rng.standard_normal((k, m) if left else (m, k)).astype(dtype))
            b = before_a_wall(rng.standard_normal((n, k) if right else (k, n)).astype(dtype))
            a, b = a.T if left else a, b.T if right else b
            for packed in (False, True):
                c = before_a_wall(np.zeros((m, n), dtype))
                library.product(a, b, c, bias, False, packed)
                assert np.allclose(c, a @ b + 1, rtol=1e-3, atol=1e-3)


def test_nothing_is_read_behind_the_operands(library: Library) -> None:
    """Operands and result end where their page ends: vector loads and stores stay inside."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import test_product; test_product.check_walls(sys.argv[2])"
    done = subprocess.run([sys.executable, "-c", program, str(Path(__file__).parent), str(library.path)], timeout=300,
                          capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr)


def test_layout_names_the_panels(library: Library) -> None:
    """The layout string is what decides whether a pack may be read elsewhere."""
    assert library.c.layout().decode() in {"f32p8-f64p4-narrow4", "f32p16-f64p8-narrow4", "f32p32-f64p16-narrow4"}


# --- operands of 16 bits --------------------------------------------------------------------------------------------------

ROUNDINGS = {2: "bfloat16", 3: "float16"}


def check_rounded(library: Library, dtype: int, a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None,
                  relu: bool = False, residual: np.ndarray | None = None) -> None:
    """Packed and not: the same bits, and those of rounded operands within the bound of float32 sums."""
    x, y = rounded(a, ROUNDINGS[dtype]).astype(np.float64), rounded(b, ROUNDINGS[dtype]).astype(np.float64)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    expected, bound = x @ y, (np.abs(x) @ np.abs(y)) * (a.shape[-1] + 2)
    for more in (bias, residual):
        if more is not None:
            expected, bound = expected + more, bound + 4 * np.abs(more)
    if relu:
        expected = np.maximum(expected, 0)
    results = []
    for packed in (False, True) if b.ndim == 2 else (False,):
        for order in "CF":
            c = np.full((*batch, a.shape[-2], b.shape[-1]), 7, np.float32, order=order)
            library.product(a, b, c, bias, relu, packed, residual, dtype)
            error = np.abs(c - expected)
            assert (error <= bound * np.finfo(np.float32).eps).all(), (dtype, a.shape, b.shape, packed, order)
            results.append(c)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("dtype", ROUNDINGS)
def test_rounded_every_remainder(library: Library, dtype: int) -> None:
    """Row counts to past two tiles, column remainders, k of 0 and more, bias, activation, residual."""
    rng = np.random.default_rng(11)
    for m, n in itertools.product((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 25), (1, 3, 4, 5, 8, 9, 15, 16, 17, 33, 64, 65, 130)):
        k = int(rng.choice([0, 1, 2, 7, 16, 33]))
        bias = rng.standard_normal(n).astype(np.float32)
        check_rounded(library, dtype, laid_out(rng, (m, k), np.float32, "c"), laid_out(rng, (k, n), np.float32, "c"), bias,
                      bool(n % 2), laid_out(rng, (m, n), np.float32, "rows") if m % 2 else None)


@pytest.mark.parametrize("dtype", ROUNDINGS)
def test_rounded_layouts(library: Library, dtype: int) -> None:
    """Every pair of operand layouts, several blocks of k and of rows, batches."""
    rng = np.random.default_rng(12)
    layouts = ("c", "f", "rows", "columns", "reversed", "broadcast")
    for left, right in itertools.product(layouts, layouts):
        for m, n, k in ((1, 40, 9), (4, 33, 64), (29, 70, 31), (40, 1, 50), (1, 1, 5)):
            check_rounded(library, dtype, laid_out(rng, (m, k), np.float32, left), laid_out(rng, (k, n), np.float32, right))
    for m, n, k in ((1, 40, 5000), (30, 37, 2500), (700, 20, 900)):
        check_rounded(library, dtype, laid_out(rng, (m, k), np.float32, "c"), laid_out(rng, (k, n), np.float32, "c"))
    for lead, rear in (((3,), (3,)), ((2, 3), ()), ((), (3,)), ((2, 1), (1, 3))):
        check_rounded(library, dtype, laid_out(rng, (*lead, 5, 7), np.float32, "c"),
                      laid_out(rng, (*rear, 7, 20), np.float32, "f"))


@pytest.mark.parametrize("dtype", ROUNDINGS)
def test_rounding_of_every_pattern(library: Library, dtype: int) -> None:
    """A product with one is the rounded operand itself: ties, subnormals, overflow, infinities, NaN; packed and not."""
    bits = np.random.default_rng(13).integers(0, 1 << 32, 4096, np.uint32)
    ties = np.arange(0x33000000, 0x47900000, 0x1000, np.uint32)  # halfway between float16 values, and past both its ends
    odd = np.array([0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001, 0x47800000, 0x477FF000,
                    0x477FEFFF, 0x33000000, 0x33000001, 0x3F808000, 0x3F818000, 0x3F807FFF], np.uint32)
    x = np.concatenate([bits, ties, odd, odd | np.uint32(0x80000000)]).view(np.float32)
    with np.errstate(all="ignore"):
        want = rounded(x, ROUNDINGS[dtype])
    one = np.ones((1, 1), np.float32)
    for packed in (False, True):
        c = np.zeros((1, len(x)), np.float32)
        library.product(one, x[None], c, packed=packed, dtype=dtype)
        np.testing.assert_array_equal(c[0], want)
    c = np.zeros((len(x), 1), np.float32)
    library.product(x[:, None], one, c, packed=True, dtype=dtype)
    np.testing.assert_array_equal(c[:, 0], want)
