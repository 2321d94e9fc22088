"""Several programs of one function: which one serves a call whose class or layers decide otherwise than the function's own.

What the class of a call's first argument decides (`self.step(...)`), and which functions and layers the arguments hold, is
compiled in. A call that has it otherwise is served by a variant: a `FunctionState` below the main one, with a program made
for such arguments. The last used one comes first; where there are too many the last goes, and the main one takes over its
counts.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..bindings import ABSENT, underlying
from ..errors import UnsupportedError, VerifyError

if TYPE_CHECKING:
    from .function import FunctionState

MAX_VARIANTS = 32


def serving(state: FunctionState, args: tuple) -> FunctionState:
    """The state whose program fits a call: this one, or a variant, made now if there is none."""
    with state.lock:
        if state.function._renamed():
            state.compile_again()
        with suppress(UnsupportedError, VerifyError):
            state.program(live=args)
        if not args or (not state.function._differs(args)
                        and (state.unsupported is None or not _is_method_of(state.fn, args))):
            return state
        for at, variant in enumerate(state.variants):
            if not variant.function._differs(args):
                state.variants.insert(0, state.variants.pop(at))
                break
        else:
            variant = _add(state, args, args[0])
        _announce(state)
        return variant


def of_other_objects(state: FunctionState, args: tuple) -> FunctionState:
    """A new variant for arguments that hold other functions or layers than the programs were made for."""
    with state.lock:
        variant = _add(state, args, ABSENT)
        _announce(state)
        return variant


def planned_variant(state: FunctionState, args: tuple) -> FunctionState | None:
    """The variant for other layers that has a plan for these arguments; None where there is none."""
    for variant in state.variants if state.main is None else ():
        if not variant.function._differs(args):
            for entry in variant.function._entries()[1]:
                if variant.function._probe(entry, args, False)[0] == 0:
                    return variant
    return None


def outgrown(state: FunctionState, args: tuple) -> FunctionState | None:
    """The state that plans arguments with other functions or classes of layers than the program was made for: this one, whose
    program grows, or a variant; None where no program of them has a plan. Raises UnsupportedError."""
    with state.lock:
        for variant in (state.main or state).variants:
            if variant is not state and not variant.function._differs(args) and _plans(variant, args):
                return variant
        if state.grow(args) and _plans(state, args):
            return state
        if state.main is not None:
            return None
        variant = _add(state, args, ABSENT)
        if variant.unsupported is None and _plans(variant, args):
            _announce(state)
            return variant
        state.variants.remove(variant)
        if variant.unsupported is not None:
            raise variant.unsupported
        return None


def _add(state: FunctionState, args: tuple, receiver: object) -> FunctionState:
    """A variant of a main state, whose program is made for these arguments, or is not supported."""
    variant = state.variant()
    variant.prepare()
    with suppress(UnsupportedError, VerifyError):
        variant.program(receiver, args)
    state.variants.insert(0, variant)
    if len(state.variants) > MAX_VARIANTS:
        absorb(state, state.variants.pop())
    return variant


def absorb(state: FunctionState, variant: FunctionState) -> None:
    """Take over the counts of a variant that goes."""
    from .stats import misses_of

    missed, other = misses_of(variant)
    for key, count in missed.items():
        state.settled[key] = state.settled.get(key, 0) + count
    state.other_misses += other
    state.asked_to_interpret += variant.asked_to_interpret
    state.absorbed_calls += variant.traffic()[0]
    counts = (*variant.function._counts()[:4], variant.asked_to_interpret)
    state.absorbed = tuple(a + b for a, b in zip(state.absorbed, counts, strict=True))
    state.function._absorb(variant.function)


def _announce(state: FunctionState) -> None:
    """Let the dispatcher try the variants as they are now."""
    state.function._set_variants([v.function for v in state.variants], state.unsupported is not None)


def _plans(state: FunctionState, args: tuple) -> bool:
    """Whether the program has or gets a plan for these arguments."""
    try:
        state.program()
    except (UnsupportedError, VerifyError):
        return False
    if any(state.function._probe(entry, args, False)[0] == 0 for entry in state.function._entries()[1]):
        return True
    made, note = state.specialise(args)
    if made is None and note.startswith("property: ") and state.grow(args, properties=True):
        made = state.specialise(args)[0]
    return made is not None


def _is_method_of(fn: Any, args: tuple) -> bool:
    """Whether a call's first argument is an object of a class that holds the function."""
    if not args or type(args[0]).__module__ in ("builtins", "numpy"):
        return False
    return any(underlying(member) is fn for cls in type(args[0]).__mro__ for member in cls.__dict__.values())
