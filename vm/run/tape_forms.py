"""Nests that differ in their registers alone share a form: words that registers are put into, made when it is met again.

Layers of a model repeat themselves, and so do the plans of one process: what `encode_nest` decides (stencils, scratch,
blocks) depends on the operations and dtypes of a nest, and most of what a plan costs on the tape is that decision.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from itertools import count
from operator import itemgetter
from typing import TypeAlias

from ..plan.code import In, NestCode, Out, Ref
from .tape_nest import encode_nest

_FIRST = 1 << 40  # registers of a form: no word is as large
_MOST_FORMS = 1024

# words of a form that are no registers, and what picks the words from those and a nest's registers
_Form: TypeAlias = "tuple[list[int], Callable[[list[int]], tuple[int, ...]]]"
_forms: dict[tuple[object, ...], _Form | None] = {}


def append_nest(nest: NestCode, words: list[int], zeros: Container[int]) -> None:
    """Append the nest's words. Raises KeyError where no stencil exists. zeros: registers that hold the constant 0."""
    for op in nest.ops:
        if op.ref is not None:
            return encode_nest(nest, words, zeros)  # what gathers or scatters is not worth a form
    for out in nest.outs:
        if out.indexes:
            return encode_nest(nest, words, zeros)
    key = (
        len(nest.axes),
        tuple([(x.kind, x.dtype, x.memory, x.axis, x.reg in zeros) for x in nest.inputs]),
        tuple([(op.op, op.dtype, op.operand_dtype, op.args) for op in nest.ops]),
        tuple([(out.slot, out.reduce, out.memory, out.reduced, out.mask) for out in nest.outs]),
    )
    form = _forms.get(key)
    if form is None:
        if key not in _forms:  # made when it is met again
            if len(_forms) >= _MOST_FORMS:
                _forms.clear()
            _forms[key] = None
            return encode_nest(nest, words, zeros)
        form = _forms[key] = _make_form(nest, zeros)
    fixed, pick = form
    words += pick(fixed + _registers(nest))
    return None


def _registers(nest: NestCode) -> list[int]:
    """Everything in a nest that its form leaves open, in one order."""
    found = [*nest.axes]
    for x in nest.inputs:
        if x.ref is not None:
            found += (x.ref.base, x.ref.offset, *x.ref.strides)
        else:
            found.append(x.reg)
    for out in nest.outs:
        found += (out.ref.base, out.ref.offset, *out.ref.strides, out.position)
    return found


def _make_form(nest: NestCode, zeros: Container[int]) -> _Form:
    """The nest encoded with numbers in the place of its registers."""
    numbers = count(_FIRST)
    open_zeros: set[int] = set()

    def take(ref: Ref) -> Ref:
        return Ref(next(numbers), next(numbers), tuple([next(numbers) for _ in ref.strides]))

    def take_reg(reg: int) -> int:
        number = next(numbers)
        if reg in zeros:
            open_zeros.add(number)
        return number

    axes = tuple([next(numbers) for _ in nest.axes])
    inputs = tuple([In(x.kind, x.dtype, x.memory, axis=x.axis, ref=take(x.ref)) if x.ref is not None else
                    In(x.kind, x.dtype, x.memory, axis=x.axis, reg=take_reg(x.reg)) for x in nest.inputs])
    outs = tuple([Out(out.slot, out.reduce, out.memory, take(out.ref), out.reduced, out.mask, (), next(numbers))
                  for out in nest.outs])
    made: list[int] = []
    encode_nest(NestCode(axes, inputs, nest.ops, outs), made, open_zeros)
    fixed = [word for word in made if word < _FIRST]
    places = iter(range(len(fixed)))
    return fixed, itemgetter(*[len(fixed) + word - _FIRST if word >= _FIRST else next(places) for word in made])
