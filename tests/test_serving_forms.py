"""Forms that serving code has around its arrays: enumerations, counters and caches on self, on every engine."""

from __future__ import annotations

import enum
import functools
import logging
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from dispatch_helpers import check

import prebake

X = np.arange(6.0).reshape(2, 3)


class Act(enum.Enum):
    RELU = 1
    TANH = "tanh"
    ALSO = 1  # another name of RELU


class Level(enum.IntEnum):
    LOW = 0
    HIGH = 1


class Mode(enum.StrEnum):
    A = "a"
    B = "b"


@dataclass
class Config:
    act: Act = Act.RELU
    level: Level = Level.HIGH
    mode: Mode = Mode.A


CONFIGS = [Config(), Config(Act.TANH, Level.LOW, Mode.B), Config(None, 1, "a")]


@prebake.jit
def by_member(x, config):
    if config.act is Act.RELU:
        x = np.maximum(x, 1)
    if config.act != Act.ALSO:
        x = x * Act.RELU.value
    if config.act == Act.TANH:
        x = x + (1 if Act.TANH.name == "TANH" else 2)
    return x if config.act is not Act.TANH else -x


@prebake.jit
def matched(x, config):
    match config.act:
        case Act.RELU:
            return x + 1
        case Act.TANH:
            return x * 2
    return x


@prebake.jit
def as_numbers(x, config):
    if config.mode == Mode.A:
        x = x + 1
    return x[:, config.level] * Level.HIGH


FACTORS = {Act.RELU: 2.0, Act.TANH: 3.0, None: 4.0}


@prebake.jit
def looked_up(x, config):
    return x * FACTORS[config.act]


def test_enumerations(engine: str) -> None:
    for config in CONFIGS:
        for function in (by_member, matched, as_numbers, looked_up):
            check(function, X, config)
    if engine == "jit":
        for function in (by_member, matched):
            assert [function.explain(X, config).engine for config in CONFIGS] == ["jit"] * 3


class Server:
    limit = 3

    def __init__(self):
        self.calls, self.cache, self.last, self.w = 0, {}, None, np.ones(3)

    def note(self, x):
        self.last = x
        self.calls += 1

    @prebake.jit
    def run(self, x):
        self.calls += 1
        if self.calls > self.limit:
            self.calls = 0
        n = x.shape[1]
        if n not in self.cache:
            self.cache[n] = np.arange(n) * 2.0
        y = x * self.w + self.cache[n]
        self.note(y)
        return y

    @prebake.jit
    def swapped(self, x, act):
        self.act = act
        return self.act(x)

    @prebake.jit
    def accumulated(self, x):
        self.w += x[0]
        self.w.shape = (1, 3)
        return self.w * 2


def test_counters_and_caches_on_self(engine: str) -> None:
    one, other = Server(), Server()
    for _ in range(5):
        np.testing.assert_array_equal(one.run(X), Server.run.__wrapped__(other, X))
        assert (one.calls, list(one.cache)) == (other.calls, list(other.cache))
        np.testing.assert_array_equal(one.last, other.last)
    told = Server.run.explain(one, X)
    assert told.engine == "interpreter" and (engine == "interpreter" or "assigns 'calls'" in told.detail)
    assert one.calls == other.calls  # explaining changes nothing
    one.w, kept = np.zeros(3), one.w
    one.w = kept
    np.testing.assert_array_equal(one.accumulated(X), [[2.0, 4.0, 6.0]])
    assert one.w is kept and kept.shape == (1, 3)


def test_what_is_assigned_and_called_in_one_function_is_never_wrong(engine: str) -> None:
    server = Server()
    for act in (np.tanh, np.sin, np.tanh):
        try:
            np.testing.assert_allclose(server.swapped(X, act), act(X))
        except prebake.UnsupportedError as error:
            assert error.kind in ("attribute-store", "unknown-method")


def test_attributes_of_modules_and_classes_are_not_assigned() -> None:
    with pytest.raises(prebake.UnsupportedError) as caught:
        prebake.jit(_of_class)(X)
    assert caught.value.kind == "attribute-store"


def _of_class(x):
    Server.limit = 5
    return x


@prebake.jit
def item_of(x, table, key):
    return x * table[key]


def test_keys_that_are_no_numbers_or_texts_find_their_own_items(engine: str) -> None:
    """An object as a key read what the dict holds under None."""
    table = {None: 1.0, Act.RELU: 2.0, (1, 2): 3.0, "a": 4.0}
    for key in (None, Act.RELU, (1, 2), "a"):
        check(item_of, X, table, key)
    with pytest.raises(KeyError):
        item_of(X, table, Act.TANH)
    with pytest.raises(KeyError):
        item_of(X, {None: 1.0}, Act.RELU)


@dataclass
class Result:
    scores: np.ndarray
    n: int = 3
    extra: tuple = ()

    def __post_init__(self):
        Result.made += 1


Result.made = 0


class Pair(NamedTuple):
    first: np.ndarray
    second: object = None


@prebake.jit
def as_dataclass(x):
    return Result(x + 1, n=x.shape[0])


@prebake.jit
def as_tuples(x):
    pair = Pair(x, second=x.sum())
    return [Pair(pair.first * 2), pair]


def test_objects_are_made_once_each_and_interpreted(engine: str) -> None:
    got, want = as_dataclass(X), Result(X + 1, 2)
    assert type(got) is Result and (got.n, got.extra) == (want.n, want.extra)
    np.testing.assert_array_equal(got.scores, want.scores)
    before = Result.made
    as_dataclass(X)
    assert Result.made == before + 1
    first, second = as_tuples(X)
    assert type(first) is Pair and first.second is None and type(second.second) is np.float64
    np.testing.assert_array_equal(first.first, X * 2)
    assert second.first is X
    told = as_dataclass.explain(X)
    assert told.engine == "interpreter" and Result.made == before + 1
    assert engine == "interpreter" or "makes an object" in told.detail
    with pytest.raises(TypeError, match="missing"):
        prebake.jit(lambda x: Result() if x.ndim else x)(X)


class Counting:
    n = 0

    @prebake.jit
    def of_class(self, x, item):
        self.n += 1
        return x + 1 if isinstance(item, (Result, Counting)) else x * 2


def test_classes_are_asked_where_a_program_cannot_run_again(engine: str) -> None:
    counting = Counting()
    items = (Result(X), counting, Pair(X), None, 3, X, Server(), Result(X))
    for at, item in enumerate(items):
        want = X + 1 if isinstance(item, (Result, Counting)) else X * 2
        np.testing.assert_array_equal(counting.of_class(X, item), want)
        assert counting.n == at + 1


@functools.lru_cache(maxsize=None)  # noqa: UP033 - as it is mostly written
def positions(n, d):
    table = np.zeros((n, d))
    table[:, ::2] = np.sin(np.arange(n))[:, None]
    return table


@functools.cache
def frozen(n):
    table = np.arange(n) * 1.0
    table.setflags(write=False)
    return table


@functools.lru_cache
def from_module(n):
    return np.arange(n) * FACTORS[None]


@functools.lru_cache
def shared(n):
    return np.zeros(n)


class Positions:
    def __init__(self):
        self.step = 2.0

    @functools.lru_cache  # noqa: B019
    def table(self, n):
        return np.arange(n) * 0.5

    @functools.lru_cache  # noqa: B019
    def stepped(self, n):
        return np.arange(n) * self.step

    @prebake.jit
    def run(self, x):
        return x + self.table(x.shape[1])

    @prebake.jit
    def run_stepped(self, x):
        return x + self.stepped(x.shape[1])


@prebake.jit
def with_positions(x):
    return x + positions(*x.shape) + positions(x.shape[0], x.shape[1])


@prebake.jit
def with_others(x):
    return x * frozen(x.shape[1]) + from_module(3)


@prebake.jit
def counts(x):
    total = shared(3)
    total += x[0]
    return total * 2


def test_functions_that_keep_their_results(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Positions()
    for _ in range(2):
        check(with_positions, X)
        check(with_others, X)
        check(model.run, X)
        check(model.run_stepped, X)
    monkeypatch.setitem(FACTORS, None, 9.0)
    model.step = 7.0  # what is kept stays as it was
    np.testing.assert_array_equal(with_others(X), with_others.__wrapped__(X))
    np.testing.assert_array_equal(model.run_stepped(X), Positions.run_stepped.__wrapped__(model, X))
    shared.cache_clear()
    np.testing.assert_array_equal(counts(X), [0.0, 2.0, 4.0])
    np.testing.assert_array_equal(counts(X), [0.0, 4.0, 8.0])  # the array that is kept was written into
    if engine == "jit":
        planned = ((with_positions, (X,)), (Positions.run, (model, X)))
        assert {function.explain(*args).engine for function, args in planned} == {"jit"}
        assert with_others.explain(X).engine == "interpreter"


LOG = logging.getLogger("serving")


def times(k):
    def inner(x):
        return x * k
    return inner


class Service:
    def __init__(self):
        self.log, self.w, self.stages = LOG, np.ones(3), [times(2.0), times(3.0)]

    def score(self, x):
        return x + self.w

    @prebake.jit
    def run(self, x):
        self.log.info("shape %s", x.shape)
        for stage in self.stages:
            x = stage(x)
        return x


@prebake.jit
def passed_on(x, score):
    return score(x) * 2


@prebake.jit
def each(x, stages):
    return [stage(x) for stage in stages]


def test_what_cannot_be_compiled_in_is_called_as_python_calls_it(engine: str, caplog: pytest.LogCaptureFixture) -> None:
    """Bound methods, closures, a logger: such calls are interpreted, each runs once, and explain names the reason."""
    service = Service()
    with caplog.at_level(logging.INFO, "serving"):
        for _ in range(2):
            np.testing.assert_array_equal(service.run(X), X * 6)
    assert [record.getMessage() for record in caplog.records] == ["shape (2, 3)"] * 2
    for _ in range(2):
        check(passed_on, X, service.score)
        check(passed_on, X, Service().score)
        check(passed_on, X, np.sqrt)
        check(each, X, service.stages)
    if engine == "jit":
        assert "'k' is a variable of the function that made" in each.explain(X, service.stages).detail
