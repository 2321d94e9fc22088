"""Random NumPy programs through every engine, against NumPy itself; and proof that the comparison sees differences.

Everyday: some hundred programs. `-m slow`: as many as PREBAKE_FUZZ_COUNT says (20,000), from seed PREBAKE_FUZZ_SEED on.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from fuzz import fuzz, fuzz_table
from generator_arguments import Layer, copy_arguments
from generator_expressions import EQUAL, EXACT, NEAR
from generators import generate
from oracles import Reference, compare, is_loose, load, memory_limit, run, run_reference

EVERYDAY_SEED, EVERYDAY_COUNT = 20_000, 250
MEMORY = 1 << 30


def test_a_seed_is_a_program() -> None:
    """The same seed gives the same source and equal arguments; seeds differ."""
    for seed in range(30):
        one, two = generate(seed), generate(seed)
        assert one.source == two.source and one.grade == two.grade
        for variant in (0, 1):
            assert repr(one.build(variant)) == repr(two.build(variant))
    assert len({generate(seed).source for seed in range(100)}) > 95


def test_programs_are_valid_and_varied() -> None:
    """Most programs end well; the constructs that matter all occur."""
    ended: Counter[str] = Counter()
    text = ""
    for seed in range(300):
        program = generate(seed)
        text += program.source
        outcome = run(load(program.source), program.build())
        ended[outcome.error.__name__ if outcome.error else "well"] += 1
    print(f"seeds 0..299: {dict(ended)}")
    assert ended["well"] > 240
    for construct in ("for i in range", "while ", "if ", "else:", "def helper", "params", " @ ", "+= ", "[::-1]",
                      ".sum(", "np.where", "axis=-1", "keepdims=True", "return ", "break",
                      "np.concatenate", "for p in params"):
        assert construct in text, construct


def test_copies_keep_layout_and_sharing() -> None:
    """Strides, offsets, overlap, read-only flags and containers survive; memory is new."""
    base = np.arange(40.0)
    args: list[Any] = [base[2:12].reshape(2, 5).T, base[3:13], np.broadcast_to(base[:1], (3,)),
            {"p": Layer(base[::-2], [base[4:4]])}]
    args[1].flags.writeable = False
    copies = copy_arguments(args)
    assert copies[0].strides == args[0].strides and np.shares_memory(copies[0], copies[1])
    assert not copies[1].flags.writeable and copies[0].flags.writeable
    assert copies[2].strides == (0,) and copies[3]["p"].w.strides == (-16,)
    assert not np.shares_memory(copies[0], base)
    copies[0][0, 0] = -1.0
    assert base[2] == 2.0


def test_the_reference_agrees_with_itself() -> None:
    """NumPy against NumPy: no differences; and hardly any program is too unsteady to compare."""
    loose = 0
    for seed in range(150):
        program = generate(seed)
        reference = Reference(program.source, program.grade)
        for variant in (0, 1):
            args = program.build(variant)
            expected = reference.run(args)
            loose += is_loose(expected)
            if variant == 0:
                assert compare(run(load(program.source), args), expected) == [], (seed, program.source)
    assert loose < 15, loose


MUTATIONS = ((" + ", " - "), (" * ", " + "), ("axis=0", "axis=-1"), ("np.exp", "np.exp2"), (" > ", " < "),
             ("[::-1]", "[::1]"), ("[1:]", "[:-1]"), ("np.maximum", "np.minimum"), (".mean(", ".sum("), (" / ", " * "),
             ("range(1, ", "range(0, "), (" += ", " -= "), (".T", ""), ("[0]", "[1]"))


def test_a_changed_program_is_seen() -> None:
    """One changed operation shows in values, shapes, types, errors or arguments for most programs where it can."""
    seen: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for seed in range(400):
        program = generate(seed)
        place = program.source.index("def f(")
        body = program.source[place:]
        for old, new in MUTATIONS:
            if old not in body or tried[old] >= 12 or "while " in body:  # a changed counter would never end
                continue
            at = body.rindex(old)  # late: more often it reaches the result
            changed = program.source[:place] + body[:at] + new + body[at + len(old):]
            tried[old] += 1
            arguments = [program.build(variant) for variant in range(3)]
            seen[old] += any(compare(run(load(changed), args), run_reference(program.source, args, program.grade))
                             for args in arguments)
    print({old: f"{seen[old]} of {tried[old]}" for old in tried})
    assert sum(tried.values()) > 100
    # The rest changes nothing: extents of 1, branches not taken, symmetric values.
    assert sum(seen.values()) > 0.4 * sum(tried.values())
    assert all(seen[old] for old in tried)


@pytest.mark.parametrize(("source", "wrong"), [
    ("def f(x):\n    return x * 2", "def f(x):\n    return x * 2.0"),                                # dtype of integers
    ("def f(x):\n    return x[:2]", "def f(x):\n    return x[:2].copy()"),                           # a view
    ("def f(x):\n    return x", "def f(x):\n    return x + 0"),                                      # the argument
    ("def f(x):\n    x[0] = 5\n    return 1", "def f(x):\n    return 1"),                            # an effect
    ("def f(x):\n    return x.sum()", "def f(x):\n    return int(x.sum())"),                         # a NumPy scalar
    ("def f(x):\n    return x.sum(keepdims=True)", "def f(x):\n    return x.sum().reshape(1, 1)"),   # a shape
    ("def f(x):\n    return x, 1", "def f(x):\n    return [x, 1]"),                                  # a container
    ("def f(x):\n    return x[9]", "def f(x):\n    return x[3]"),                                    # an error
    ("def f(x):\n    return x[9]", "def f(x):\n    return x.reshape(5, 5)"),                         # another error
    ("def f(x):\n    return x[::-1]", "def f(x):\n    return x[::-1][::1].copy()[::1]"),             # strides of a view
])
def test_small_differences_are_seen(source: str, wrong: str) -> None:
    """Type, dtype, shape, sharing, effects and exceptions are compared, not values alone."""
    args = [np.arange(12, dtype=np.int32)[2:8]]
    for grade in (EXACT, EQUAL, NEAR):
        expected = run_reference(source, args, grade)
        assert compare(run(load(source), args), expected) == []
        assert compare(run(load(wrong), args), expected), (grade, wrong)


def test_tolerance_follows_the_program() -> None:
    """Bit for bit when exact; else a few units in the last place, more only where the program magnifies them."""
    x = [np.linspace(0.5, 2.0, 9).astype(np.float32)]
    steady = "import numpy as np\ndef f(x):\n    return np.exp(x)"
    unsteady = "import numpy as np\ndef f(x):\n    return np.exp(x) - np.exp(x * 1)"
    assert compare(run(load(re.sub("np.exp\\(x\\)", "np.exp(x) * np.float32(1.0000001)", steady)), x),
                   run_reference(steady, x, EXACT))
    assert not compare(run(load(re.sub("np.exp\\(x\\)", "np.exp(x) * np.float32(1.0000001)", steady)), x),
                       run_reference(steady, x, NEAR))
    assert compare(run(load(re.sub("np.exp\\(x\\)", "np.exp(x) * np.float32(1.001)", steady)), x),
                   run_reference(steady, x, NEAR))
    assert not compare(run(load(unsteady.replace("np.exp(x * 1)", "np.exp(x * 1) * np.float32(1.0000001)")), x),
                       run_reference(unsteady, x, NEAR))


@pytest.mark.parametrize("start", range(EVERYDAY_SEED, EVERYDAY_SEED + EVERYDAY_COUNT, 50))
def test_engines_agree_with_numpy(start: int) -> None:
    """Interpreter and JIT on 50 programs with three sets of extents each."""
    with memory_limit(MEMORY):
        report = fuzz(start, 50)
    print(f"seed {start}\n{report.text()}")
    assert not report.failures
    assert sum(report.refused.values()) < 15
    assert report.on_tape > 0.25 * report.calls["jit"], "hardly anything ran on the tape"


def test_operations_agree_with_numpy() -> None:
    """Every 20th operation on every kind of operand, errors too."""
    with memory_limit(MEMORY):
        report = fuzz_table(first=7, step=20)
    assert not report.failures


@pytest.mark.slow
def test_all_operations_agree_with_numpy() -> None:
    with memory_limit(MEMORY):
        report = fuzz_table()
    print(report.text())
    assert not report.failures


@pytest.mark.slow
def test_engines_agree_with_numpy_on_many_programs() -> None:
    """The same on PREBAKE_FUZZ_COUNT programs."""
    seed = int(os.environ.get("PREBAKE_FUZZ_SEED", "1000000"))
    count = int(os.environ.get("PREBAKE_FUZZ_COUNT", "20000"))
    with memory_limit(MEMORY):
        report = fuzz(seed, count, limit=50)
    print(f"seed {seed}\n{report.text()}")
    assert not report.failures
