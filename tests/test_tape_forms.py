"""Nests of one form: registers put into the form give the words that encoding the nest itself gives."""

from __future__ import annotations

import random

import pytest
from nest_fuzz import random_nest
from plan_random import random_plan

from prebake.vm.plan.code import Code, NestCode
from prebake.vm.plan.lower import lower_plan
from prebake.vm.run.tape_forms import append_nest
from prebake.vm.run.tape_nest import encode_nest


def nests(code: Code) -> list[NestCode]:
    """Every nest of a code, those of loops and branches too."""
    found: list[NestCode] = []
    pending = list(code.body)
    while pending:
        instr = pending.pop()
        if isinstance(instr, NestCode):
            found.append(instr)
        for part in ("body", "then", "orelse"):
            pending += getattr(instr, part, ())
    return found


def words_of(encode, nest: NestCode, zeros: set[int]) -> list[int] | str:
    made: list[int] = [7]
    try:
        encode(nest, made, zeros)
    except KeyError as error:
        return str(error)
    return made


@pytest.mark.parametrize("build", [random_plan, lambda seed: random_nest(seed)[0]], ids=["plans", "nests"])
def test_forms_give_the_same_words(build):
    rng = random.Random(3)
    compared = 0
    for seed in range(150):
        code = lower_plan(build(seed).plan())
        zeros = {reg for reg, value in code.consts.items() if value == 0}
        for nest in nests(code):
            expected = words_of(encode_nest, nest, zeros)
            for _ in range(3):  # encoded, made a form, taken from the form
                assert words_of(append_nest, nest, zeros) == expected, seed
            compared += 1
            # the same form in other registers
            moved = list(range(len(code.types)))
            rng.shuffle(moved)
            other = renamed(nest, [reg + 1000 for reg in moved])
            elsewhere = {moved[reg] + 1000 for reg in zeros}
            assert words_of(append_nest, other, elsewhere) == words_of(encode_nest, other, elsewhere), seed
    assert compared > 100


def renamed(nest: NestCode, to: list[int]) -> NestCode:
    """The nest with every register replaced."""
    def ref(x):
        return x and type(x)(to[x.base], to[x.offset] if x.offset >= 0 else -1, tuple(to[s] for s in x.strides))

    def indexes(items):
        return tuple((slot, to[extent], to[stride]) for slot, extent, stride in items)

    inputs = tuple(type(x)(x.kind, x.dtype, x.memory, ref(x.ref), to[x.reg] if x.reg >= 0 else -1, x.axis)
                   for x in nest.inputs)
    ops = tuple(type(o)(o.op, o.dtype, o.operand_dtype, o.args, o.memory, ref(o.ref), indexes(o.indexes), o.position)
                for o in nest.ops)
    outs = tuple(type(o)(o.slot, o.reduce, o.memory, ref(o.ref), o.reduced, o.mask, indexes(o.indexes), o.position)
                 for o in nest.outs)
    return NestCode(tuple(to[a] for a in nest.axes), inputs, ops, outs)
