"""Call-outs in programs: on the tape, as C, and in the evaluators of steps and code, against NumPy."""

from __future__ import annotations

import copy
import gc
import threading
import traceback
import weakref
from typing import Any

import numpy as np
import pytest
from kernel_build import drivers
from plan_eval import CodeEvaluator, StepEvaluator
from test_typed import compiled, same

import prebake
from prebake.templates import registry
from prebake.vm.plan.lower import lower_plan
from prebake.vm.plan.passes import run_passes
from prebake.vm.plan.reading import LiveReader
from prebake.vm.plan.typed import type_program
from prebake.vm.run import _dispatch


def values() -> dict[str, Any]:
    """The operands that programs name."""
    rng = np.random.default_rng(3)
    a = rng.random((4, 4)) + 4 * np.eye(4)
    return {"a": a, "b": rng.random(4), "x": rng.random((5, 6)), "f": rng.random((5, 6)).astype(np.float32),
            "n": rng.integers(0, 6, 12), "m": rng.integers(0, 6, (3, 4)).astype(np.int32), "s": 2.5,
            "z": rng.random(8) + 1j * rng.random(8), "flags": rng.random(12) > 0.5}


PROGRAMS = """
solved:
    return np.linalg.solve(a * 2, b) + 1
inverse of a transposed view:
    return np.linalg.inv(a.T[::-1]) @ b
factors:
    q, r = np.linalg.qr(x)
    return q @ r, r[0]
fields of a named tuple:
    f = np.linalg.svd(x, full_matrices=False)
    return (f.U * f.S) @ f.Vh
numbers:
    return np.linalg.det(a) * 2, np.linalg.matrix_rank(x), np.linalg.cond(a)
spectrum:
    y = np.fft.rfft(x, axis=0)
    return np.fft.irfft(y * np.exp(-np.arange(y.shape[0]))[:, None], n=x.shape[0], axis=0)
complex in and out:
    return np.fft.fft(z * 2j).real, np.fft.ifft(z)
complex matrices:
    w = a + 1j * a.T
    return np.linalg.solve(w, b), np.linalg.eigvals(w).shape[0]
sorted:
    return np.sort(x, axis=0)[::-1], np.argsort(-x), np.sort(f, axis=None), x[np.argsort(x[:, 0])]
sorted in place:
    x[1:].sort(axis=0)
    return x * 2
sorted twice:
    y = x * 2
    y.sort()
    y[:, 0] = 7
    y.sort(axis=0)
    return y
sets:
    u, i, c = np.unique(n, return_inverse=True, return_counts=True)
    return u[i] - n, c / c.sum(), u[c > 2], np.setdiff1d(n, [1, 2]), np.isin(n, u[:2])
rows:
    return np.unique(m, axis=0) * 2
counts:
    h = np.bincount(n, minlength=3)
    p = h / n.shape[0]
    q = np.cumsum(p)
    return h, q, np.searchsorted(q, 0.5), (p * np.log(np.maximum(p, 1e-9))).sum()
a size that nothing bounds, in a loop:
    t = 0.0
    for k in range(4):
        h = np.bincount(n[k:]) + 1
        g = np.cumsum(h)[::-1] * 0.5
        t += g[0] * g.shape[0]
    return t
histogram:
    h, e = np.histogram(x, bins=5, range=(0.0, 1.0))
    return h / h.sum(), (e[1:] + e[:-1]) / 2
statistics:
    return np.median(x), np.percentile(x, [10, 90], axis=1), np.quantile(f, 0.3), np.cov(x), np.corrcoef(x)[0]
holes:
    y = np.where(x > 0.5, x, np.nan)
    return np.nanmean(y, axis=0), np.nanmax(y), np.nanargmin(y, axis=1)
in a loop:
    t = 0.0
    for k in range(x.shape[0]):
        x[k] = np.sort(x[k])
        t += np.median(x[k, k:])
    return t
carried through a loop:
    y = x[0]
    for k in range(x.shape[0]):
        y = np.sort(y + x[k])
    return y
in a branch:
    if x[0, 0] > 0.5:
        y = np.sort(x, axis=1)
    else:
        y = x + 1
    return y * 2
until it settles:
    y = b * 1
    d = 1.0
    while d > 1e-6:
        w = np.linalg.solve(a, y)
        w = w / np.linalg.norm(w, 1)
        d = np.abs(w - y).max()
        y = w
    return y
two names:
    y = np.sort(x)
    w = y[1:]
    w[0] = 5
    return y, y
overwritten:
    y = np.sort(n)
    n[:] = y[::-1]
    return y
places:
    y = x * 1
    np.put(y, n[:3], [1.0, 2.0, 3.0])
    np.fill_diagonal(y, s)
    np.copyto(x, y, where=y > 0.5)
    return y
interpolated:
    return np.interp(x, b.cumsum(), np.arange(4.0)), np.interp(s, [1, 2, 3], [3.0, 2.0, 1.0])
edited:
    return np.delete(x, 1, axis=1), np.insert(b, 2, s), np.gradient(b), np.gradient(x)[1], np.trapezoid(x)
signals:
    return np.convolve(b, x[0], "same"), np.correlate(x[0], b), np.kron(a, m)
mathematics:
    import math
    return math.log(s) * math.atan2(s, 2.0), math.hypot(s, x.shape[0]), math.gcd(x.shape[0], 10)
triangles:
    i, j = np.triu_indices(4, k=1)
    return a[i, j].sum(), a[np.tril_indices_from(a)]
places of many:
    return np.argwhere(x > 0.5), np.take_along_axis(x, np.argsort(x, axis=1), axis=1), np.lexsort((n, n % 2))
numbers into arrays:
    return np.divmod(n, 4)[0], np.modf(x)[1], np.gcd(n, 6)
least squares:
    w, r, k, t = np.linalg.lstsq(x[:, :3], x[:, 3])
    return w * 2, r, t.max()
"""


def programs() -> dict[str, str]:
    """Body of each program by its title."""
    found: dict[str, str] = {}
    for line in PROGRAMS.strip("\n").splitlines():
        if not line.startswith(" "):
            title = line.rstrip(":")
            found[title] = ""
        else:
            found[title] += line[4:] + "\n"
    return found


def function(title: str) -> tuple[Any, list[Any]]:
    """A program and its arguments."""
    body = programs()[title]
    words = set(body.replace("(", " ").replace(")", " ").replace("[", " ").replace("]", " ").replace(",", " ")
                .replace(":", " ").replace(".", " ").replace("-", " ").split())
    names = [name for name in values() if name in words]
    return compiled(body.rstrip("\n").replace("\n", "\n    "), names), [values()[name] for name in names]


@pytest.mark.parametrize("title", programs())
def test_on_the_tape(title: str) -> None:
    fn, args = function(title)
    want_args, got_args = copy.deepcopy(args), copy.deepcopy(args)
    with np.errstate(all="ignore"):
        want = fn(*want_args)
    jitted = prebake.jit(fn)
    with prebake.engine("jit"):
        for _ in range(2):  # the second call uses the plan again
            got = jitted(*copy.deepcopy(args))
            assert same(got, want), f"got {got!r}, expected {want!r}"
        jitted(*got_args)
    assert all(map(same, got_args, want_args))
    assert jitted.stats()["jit"] == 3, jitted.explain(*args).detail


def test_as_steps_as_code_and_as_c() -> None:
    codes, expected = {}, {}
    for title in programs():
        fn, args = function(title)
        program = prebake.jit(fn).bytecode
        made = copy.deepcopy(args)
        reader = LiveReader(program, made, lambda index: np)
        plan = type_program(program, reader)
        want_args = copy.deepcopy(args)
        want = fn(*want_args)
        for evaluate in (lambda leaves, p=plan: StepEvaluator(p, leaves).run(),
                         lambda leaves, p=plan: StepEvaluator(run_passes(p), leaves).run(),
                         lambda leaves, p=plan: CodeEvaluator(lower_plan(p), leaves).run()):
            leaves = dict(enumerate(copy.deepcopy(reader.objects)))
            assert same(_plain(evaluate(leaves)), _plain(want)), title
            assert all(same(leaves[i], want_args[row.key]) for i, row in enumerate(reader.rows)
                       if row.how == "arg" and row.kind == "array"), title
        name = f"k{len(codes)}"
        codes[name] = lower_plan(plan)
        expected[name] = (title, want, want_args, reader)
    for name, kernel in drivers(codes).items():
        title, want, want_args, reader = expected[name]
        leaves = dict(enumerate(copy.deepcopy(reader.objects)))
        assert same(_plain(kernel(leaves)), _plain(want)), title
        assert all(same(leaves[i], want_args[row.key]) for i, row in enumerate(reader.rows)
                   if row.how == "arg" and row.kind == "array"), title


def _plain(value: Any) -> Any:
    """Without the difference between Python's and NumPy's numbers."""
    return tuple(map(_plain, value)) if isinstance(value, tuple) else np.asarray(value)


def late_failure(x, a):
    x += 1
    b = np.linalg.inv(a)
    x += 1
    return b


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
def test_effects_before_an_exception_stay(engine: str) -> None:
    x = np.zeros(3)
    with prebake.engine(engine), pytest.raises(np.linalg.LinAlgError, match="Singular") as caught:
        prebake.jit(late_failure)(x, np.zeros((2, 2)))
    assert x.tolist() == [1, 1, 1]
    frames = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if frame.name == "late_failure"]
    assert [frame.line for frame in frames] == ["b = np.linalg.inv(a)"]
    assert not getattr(caught.value, "__notes__", ())  # the traceback shows the line already


def median_of_rows(x):
    out = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = np.median(np.sort(x[i] * 2))
    return out


def test_threads_call_out_at_the_same_time() -> None:
    jitted = prebake.jit(median_of_rows)
    x = np.random.default_rng(0).random((50, 100))
    jitted(x)
    faults: list[int] = []

    def work(k: int) -> None:
        for _ in range(20):
            if not np.allclose(jitted(x + k), np.median((x + k) * 2, axis=1)):
                faults.append(k)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults and jitted.stats()["interpreter"] == 0


def sorted_and_kept(x):
    y = np.sort(x)
    return y


def test_a_result_is_the_callers_own() -> None:
    jitted = prebake.jit(sorted_and_kept)
    first = jitted(np.array([3.0, 1.0, 2.0]))
    second = jitted(np.array([9.0, 8.0, 7.0]))
    assert first.tolist() == [1, 2, 3] and second.tolist() == [7, 8, 9]
    assert first.flags.owndata and first.flags.writeable


def test_explain_names_call_outs() -> None:
    jitted = prebake.jit(median_of_rows)
    found = jitted.explain(np.ones((3, 4)))
    assert found.engine == "jit" and "np.median, np.sort" in str(found)


def of_real_or_complex(a):
    return np.linalg.eigvals(a)


def test_results_whose_dtype_depends_on_values_are_interpreted() -> None:
    jitted = prebake.jit(of_real_or_complex)
    for a in (np.eye(2), np.array([[0.0, 1.0], [-1.0, 0.0]])):
        assert same(jitted(a), np.linalg.eigvals(a))
    assert jitted.stats()["interpreter"] == 2


def solved_late(x, a, b):
    for k in range(2):
        y = np.sort(x + k)
    return np.linalg.solve(a * y[0], b)


def operands_of(error: BaseException) -> list[Any]:
    """Arrays in the frames of an exception's traceback."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [value for frame in frames if frame.f_code.co_name == "solve" for value in frame.f_locals.values()
            if isinstance(value, np.ndarray)]


def test_operands_in_a_traceback_outlive_the_call() -> None:
    """The memory that call-outs were lent is not taken back from whoever still looks at it."""
    n = 700
    with prebake.engine("jit"), pytest.raises(np.linalg.LinAlgError) as caught:
        prebake.jit(solved_late)(np.zeros(n), np.ones((n, n)), np.full(n, 4.0))
    operands = operands_of(caught.value)
    _dispatch.clear_memory()
    others = [np.full((n, n), 7.0) for _ in range(3)] + [np.full(n, 7.0) for _ in range(3)]
    assert [float(x.max()) for x in operands] == [1, 4] and others
    released = weakref.ref(operands[0].base)
    del operands, caught
    gc.collect()
    assert released() is None  # nothing holds the temporaries any longer


def test_calls_from_inside_a_call_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same function called for many other shapes while its own call-out runs."""
    jitted = prebake.jit(sorted_and_kept)
    armed, depth = [False], []
    resolve = registry.resolve

    def resolve_calling(kernel: int) -> Any:
        """The kernel's function, which once calls the whole for other shapes before it answers."""
        function = resolve(kernel)

        def answer(*args: Any) -> Any:
            if armed[0]:
                armed[0] = False
                depth.append(1)
                for n in range(1, 40):
                    jitted(np.ones(n))
            return function(*args)
        return answer

    monkeypatch.setattr(registry, "resolve", resolve_calling)
    x = np.array([3.0, 1.0])
    _dispatch.set_timing(1)
    try:
        for _ in range(20):  # until the call is known to be short
            jitted(x)
        armed[0] = True
        assert jitted(x).tolist() == [1, 3]
    finally:
        _dispatch.set_timing(64)
    assert depth
    counts = [entry.counts()[0] for entry in jitted._entries()[1]]
    assert {(calls, timed) for found in counts for extents, calls, _, _, _, timed in found if extents == (2,)} == {(22, 22)}
