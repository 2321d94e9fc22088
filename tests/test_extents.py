"""The integer algebra against brute force: values, bounds, and answers that must never be wrong."""

from __future__ import annotations

import itertools
import random

import pytest

from prebake.vm.plan.extents import (
    Expr,
    add,
    compare,
    const,
    emax,
    emin,
    floordiv,
    is_equal,
    is_less_equal,
    mod,
    mul,
    register,
    select,
    symbol,
    trim_interned,
)

N, M, K = symbol("n", 0, 4), symbol("m", 1, 3), symbol("k", -2, 2)
POINTS = [dict(zip("nmk", p, strict=True)) for p in itertools.product(range(5), range(1, 4), range(-2, 3))]


def random_pair(rng: random.Random, depth: int) -> tuple[Expr, object]:
    """A random expression, and the same as a Python function of a point."""
    if depth == 0 or rng.random() < 0.15:
        kind = rng.choice("nmkc")
        if kind == "c":
            value = rng.randint(-3, 6)
            return const(value), lambda p, v=value: v
        return {"n": N, "m": M, "k": K}[kind], lambda p, s=kind: p[s]
    op = rng.choice(("add", "sub", "mul", "floordiv", "mod", "min", "max", "eq", "lt", "le", "select"))
    a, f = random_pair(rng, depth - 1)
    b, g = random_pair(rng, depth - 1)
    if op in ("floordiv", "mod"):
        b, g = emax(b, 1), (lambda p, g=g: max(g(p), 1))
        return ((floordiv(a, b), lambda p: f(p) // g(p)) if op == "floordiv" else (mod(a, b), lambda p: f(p) % g(p)))
    if op == "select":
        c, h = random_pair(rng, depth - 1)
        return select(compare("lt", a, b), c, a), lambda p: h(p) if f(p) < g(p) else f(p)
    build = {"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "min": lambda: emin(a, b),
             "max": lambda: emax(a, b), "eq": lambda: compare("eq", a, b), "lt": lambda: compare("lt", a, b),
             "le": lambda: compare("le", a, b)}[op]
    value = {"add": lambda p: f(p) + g(p), "sub": lambda p: f(p) - g(p), "mul": lambda p: f(p) * g(p),
             "min": lambda p: min(f(p), g(p)), "max": lambda p: max(f(p), g(p)), "eq": lambda p: int(f(p) == g(p)),
             "lt": lambda p: int(f(p) < g(p)), "le": lambda p: int(f(p) <= g(p))}[op]
    return build(), value


@pytest.mark.parametrize("seed", range(40))
def test_values_and_bounds(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        expr, value = random_pair(rng, 3)
        lo, hi = expr.bounds()
        for point in POINTS:
            want = value(point)  # type: ignore[operator]
            assert expr.evaluate(point) == want, expr
            assert lo <= want <= hi, (expr, lo, hi, point)


@pytest.mark.parametrize("seed", range(40))
def test_answers_are_never_wrong(seed: int) -> None:
    rng = random.Random(1000 + seed)
    for _ in range(25):
        a, f = random_pair(rng, 2)
        b, g = random_pair(rng, 2)
        pairs = [(f(p), g(p)) for p in POINTS]  # type: ignore[operator]
        equal, less = is_equal(a, b), is_less_equal(a, b)
        if equal is not None:
            assert all((x == y) is equal for x, y in pairs), (a, b)
        if less is not None:
            assert all((x <= y) is less for x, y in pairs), (a, b)


@pytest.mark.parametrize("seed", range(20))
def test_polynomials_have_one_form(seed: int) -> None:
    rng = random.Random(2000 + seed)
    terms = [[rng.choice((N, M, K)) for _ in range(rng.randint(0, 3))] for _ in range(5)]
    coefs = [rng.randint(-3, 3) for _ in terms]

    def build() -> Expr:
        total = const(0)
        order = list(zip(terms, coefs, strict=True))
        rng.shuffle(order)
        for atoms, coef in order:
            product = const(coef)
            for atom in rng.sample(atoms, len(atoms)):
                product = mul(atom, product) if rng.random() < 0.5 else mul(product, atom)
            total = add(product, total) if rng.random() < 0.5 else add(total, product)
        return total

    first = build()
    assert all(build() is first for _ in range(6))
    assert first - first is const(0)


@pytest.mark.parametrize("seed", range(20))
def test_substitution_is_evaluation(seed: int) -> None:
    rng = random.Random(3000 + seed)
    (((atom,), _),) = N.terms
    for _ in range(20):
        expr, _ = random_pair(rng, 3)
        by, value = random_pair(rng, 1)
        new = expr.substitute({atom: by})
        for point in POINTS:
            moved = dict(point, n=value(point))  # type: ignore[operator]
            assert new.evaluate(point) == expr.evaluate(moved), (expr, by)


def test_what_algebra_knows() -> None:
    n, m = symbol("rows"), symbol("columns", 1)
    assert (n + 1) * (n - 1) is n * n - 1
    assert floordiv(n * m * 4, m) is n * 4
    assert floordiv(n * 8 + 4, 4) is n * 2 + 1
    assert mod(n * 8 + 4, 4) is const(0)
    assert emin(n, n + 3) is n and emax(n, 0) is n
    assert is_less_equal(0, n * m) is True and is_less_equal(n, n * m) is None
    assert is_equal(n + 1, n) is False and is_equal(n, m) is None
    assert is_less_equal(floordiv(n, 2), n * 0 + 2**47) is True


def test_registers_are_no_entry_values_and_never_shared() -> None:
    a, b = register("i", 0, 5), register("i", 0, 5)
    assert a is not b and not a.is_entry and not (a * N).is_entry and not floordiv(a, 2).is_entry
    assert N.is_entry and floordiv(N, 2).is_entry
    assert (a + b).bounds() == (0, 10)


def test_whole_multiples_of_a_divisor_stay_near_the_dividend() -> None:
    """step * ((n - 1) // step), as windows of any step have it, is no longer than what they are cut from."""
    n, step, offset = symbol("n", 0, 2**47), symbol("s", 1, 2**47), symbol("o", -2**47, 2**47)
    assert (step * floordiv(n, step)).bounds() == (0, 2**47)
    assert (offset * floordiv(n, offset)).bounds() == (-2**48, 2**48)
    assert (offset * floordiv(n, step)).bounds() == (-2**94, 2**94)
    for divisor in (N, M, K):
        for dividend in (N - 2, K + 1, N * M):
            product = divisor * floordiv(dividend, divisor)
            lo, hi = product.bounds()
            assert all(lo <= product.evaluate(point) <= hi for point in POINTS)


def test_texts_of_what_shares_its_parts_are_bounded() -> None:
    """Each of 60 steps holds the one before it twice; written out whole, the last would be 2**60 characters long."""
    n = symbol("n", 0, 2**20)
    for _ in range(60):
        n = emin(floordiv(n, 3) * 2 + 5, M + n)
        assert len(repr(n)) < 5000


def test_a_name_with_other_bounds_is_another_symbol() -> None:
    anywhere, positive = symbol("count", -5, 5), symbol("count", 1, 5)
    assert anywhere.bounds() == (-5, 5) and positive.bounds() == (1, 5)
    assert is_less_equal(1, positive) is True and is_less_equal(1, anywhere) is None


def test_trimming_keeps_what_modules_hold() -> None:
    row, zero = register("row", 0), const(0)
    trim_interned(limit=0)
    assert (row + 5) - 5 is row and row - row is zero and const(0) is zero and const(1) is mul(const(1), const(1))


def test_trimming_keeps_values() -> None:
    before = N * M + 3
    trim_interned(limit=0)
    after = symbol("n", 0, 4) * symbol("m", 1, 3) + 3
    assert before.evaluate({"n": 3, "m": 2}) == after.evaluate({"n": 3, "m": 2}) == 9
    assert after is symbol("n", 0, 4) * symbol("m", 1, 3) + 3
