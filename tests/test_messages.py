"""What a user reads when something goes wrong or is looked into: errors, counts of calls that raised, log and dumps."""

from __future__ import annotations

import contextlib
import math
import traceback

import numpy as np
import pytest

import prebake


def picked(x, i):
    return x[i] * 2


def written(x, i):
    x[0] = 7
    return x[i] * 2


def solved(x):
    return np.linalg.inv(x)


@pytest.mark.parametrize("engine", ["auto", "jit", "interpreter"])
@pytest.mark.parametrize(("function", "args", "kind"), [
    (picked, (np.arange(3.0), 5), IndexError), (written, (np.arange(3.0), 5), IndexError),
    (solved, (np.zeros((3, 3)),), np.linalg.LinAlgError)])
def test_calls_that_raise_are_counted_as_their_misses_are(function, args, kind, engine):
    f = prebake.jit(function)
    with prebake.engine(engine):
        for _ in range(3):
            with pytest.raises(kind):
                f(*args)
    counts = f.stats()
    assert counts["calls"] == 3
    if engine == "interpreter":
        assert counts["interpreter"] == 3
    if engine == "auto":
        assert sum(row["count"] for row in counts["misses"]) == 3


def test_a_plan_that_hands_a_call_to_the_interpreter_counts_one_miss():
    f = prebake.jit(lambda x, n: x * (2.0 ** n))
    for n in (1.0, 2.0, 5000.0, 5000.0):
        with contextlib.suppress(OverflowError):
            f(np.ones(3), n)
    counts = f.stats()
    assert counts["calls"] == 4 == sum(row["count"] for row in counts["misses"])
    assert counts["jit"] and counts["interpreter"]


def refused(x):
    print(x)
    return x


def test_refusals_carry_no_frames_of_the_compiler():
    f = prebake.jit(refused)
    for _ in range(3):
        with pytest.raises(prebake.UnsupportedError) as caught:
            f(1)
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert not any("frontend" in frame.filename for frame in frames) and len(frames) <= 8
        assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_the_log_tells_the_result_and_the_miss(monkeypatch, capsys):
    monkeypatch.setenv("PREBAKE_LOG", "1")

    def many(x, w):
        y = x @ w
        return y, {"s": [y.sum(), x], "n": None}, y[y > 100]

    x, w = np.ones((3, 4)), np.ones((4, 2))
    prebake.jit(many)(x, w)
    with prebake.engine("jit"):
        prebake.jit(picked)(x, 1)
    first, second = [line for line in capsys.readouterr().err.splitlines() if "Compiled" in line]
    assert "for input shape (3, 4), (4, 2) -> ((3, 2), {[a scalar, x], None}, (?,)) in " in first
    assert "after a miss (NO_BUNDLE): plan " in first
    assert "for input shape (3, 4) -> (4,) in " in second and "miss" not in second


def test_dumps_are_for_reading(monkeypatch, capsys):
    monkeypatch.setenv("PREBAKE_DUMP", "plan,code")
    prebake.jit(lambda x, w: np.maximum(x @ w, 0).sum(axis=1))(np.ones((3, 4)), np.ones((4, 2)))
    text = capsys.readouterr().err
    assert "product f64 batch []" in text and "Expr" not in text and "Nest(" not in text and "object at" not in text
    assert max(map(len, text.splitlines())) < 200


def put(a, i, v):
    a[0] = 1
    a[i] = v
    return a


def put_sum(a, i, v):
    a[0] = 1
    a[1] = v.sum()
    return a[i]


def picked_at(a, rows):
    a[0] = 1
    total = 0
    for r in rows:
        total += a[int(r)]
    return total


def masked(a, mask, v):
    a[0] = 1
    a[mask] = v
    return a


def rooted(a, v):
    a[0] = 1
    return math.sqrt(v)


@pytest.mark.parametrize(("function", "args", "texts"), [
    (put, (np.zeros(3, np.int64), 1, float("nan")), ["cannot convert float NaN to integer"]),
    (put, (np.zeros(3, np.int32), 1, 1e30), ["number out of bounds for int32"]),
    (put, (np.zeros(3, np.uint8), 1, 300), ["integer out of bounds for uint8", "integer 300 out of bounds for uint8"]),
    (put_sum, (np.zeros(3, np.int64), 1, np.array([1.0, np.nan])), ["cannot convert float NaN to integer"]),
    (picked_at, (np.arange(3.0), np.array([0, 7])), ["out of bounds for an axis with size 3"]),
    (masked, (np.zeros(4), np.array([True, True, False, True]), np.ones(2)), ["boolean array indexing assignment"]),
    (rooted, (np.zeros(3), -1.0), ["math domain error"]),
], ids=lambda value: getattr(value, "__name__", ""))
def test_errors_after_a_write_say_what_is_wrong(function, args, texts):
    """The interpreter cannot run the call again for NumPy's own text: the plan has to tell it."""
    kinds = []
    for serve in (function, prebake.jit(function)):
        own = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        with pytest.raises(Exception) as caught:
            serve(*own)
        kinds.append(type(caught.value))
        assert own[0][0] == 1
    assert kinds[0] is kinds[1]
    assert any(text in str(caught.value) for text in texts), str(caught.value)
    assert serve.stats()["jit"] == 1 or "300" in str(caught.value)


def innermost(z, i):
    return z[i]


def middle(z, i):
    w = z + 1
    return innermost(w, i) * 2


def outermost(x, i):
    y = middle(x, 0)
    return y + middle(x, i)


def outermost_written(x, i):
    x[0] = 1.0
    for j in np.arange(i + 1):
        y = middle(x, j)
    return y


@pytest.mark.parametrize("engine", ["auto", "interpreter", "python"])
@pytest.mark.parametrize("function", [outermost, outermost_written])
def test_tracebacks_show_the_calls_of_inlined_functions(function, engine):
    with prebake.engine(engine), pytest.raises(IndexError) as caught:
        prebake.jit(function)(np.ones(3), 9)
    frames = [(frame.name, frame.line) for frame in traceback.extract_tb(caught.value.__traceback__)
              if frame.filename == __file__][1:]
    call = "return y + middle(x, i)" if function is outermost else "y = middle(x, j)"
    assert frames == [(function.__name__, call), ("middle", "return innermost(w, i) * 2"), ("innermost", "return z[i]")]
    assert not getattr(caught.value, "__notes__", ())


@pytest.mark.parametrize(("function", "what", "cure"), [
    (lambda x: np.nansumm(x), "'numpy' has no attribute 'nansumm'", "did you mean 'nansum'?"),
    (lambda x: np.nosuchthingatall(x), "'numpy' has no attribute", "correct the name"),
    (lambda x: np.sum(x, axs=1), "the keyword 'axs' is not supported", "did you mean 'axis'?"),
    (lambda x: np.concatenate([x, x], axs=1), "the keyword 'axs' is not supported", "did you mean 'axis'?"),
    (lambda x: np.sum(x, qqqqqq=1), "the keyword 'qqqqqq' is not supported", "leave it out"),
])
def test_refusals_of_misspelt_names(function, what, cure):
    with pytest.raises(prebake.UnsupportedError) as caught:
        _ = prebake.jit(function).bytecode
    assert what in str(caught.value) and cure in str(caught.value) and "import it" not in str(caught.value)
