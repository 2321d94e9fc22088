"""Which arguments could not be planned, so that calls with such ones are interpreted at once.

What a plan depends on inside objects is no part of a key: refusals are tried again now and then.
"""

from __future__ import annotations

import numpy as np

MAX_REFUSED = 4096
MAX_REFUSALS = 8  # refused shapes of one kind of arguments after which the kind itself is refused
_TRIED_AGAIN = (64, 4096, 262144)  # calls since a refusal


class Refusals:
    """What one function's program has no plan for."""

    __slots__ = ("_calls", "_kinds")

    def __init__(self) -> None:
        self._calls: dict[object, int] = {}  # arguments with shapes -> calls since they were refused
        self._kinds: dict[object, int] = {}  # arguments without shapes -> refused plans

    def clear(self) -> None:
        """Plan whatever comes."""
        self._calls.clear()
        self._kinds.clear()

    def holds(self, exact: object, kind: object) -> bool:
        """Whether to interpret a call, which is counted, without planning: refused before, and not to be tried again now."""
        calls = self._calls.get(exact)
        if calls is None:
            if self._kinds.get(kind, 0) < MAX_REFUSALS:
                return False
            calls = 0
        if len(self._calls) < MAX_REFUSED or exact in self._calls:
            self._calls[exact] = calls + 1
        return calls + 1 not in _TRIED_AGAIN

    def add(self, exact: object, kind: object) -> None:
        """Remember arguments that have no plan."""
        if len(self._calls) < MAX_REFUSED:
            self._calls.setdefault(exact, 0)
        self._kinds[kind] = self._kinds.get(kind, 0) + 1


def fingerprint(args: tuple, depth: int = 8, room: list[int] | None = None) -> tuple[object, object]:
    """(key with shapes, key without) of arguments, of `Refusals`. Containers may hold themselves."""
    room = [1000] if room is None else room  # items that are looked at
    exact: list[object] = []
    kind: list[object] = []
    for value in args:
        if isinstance(value, np.ndarray):
            flags_ = value.flags
            about = (type(value), value.dtype, value.ndim, flags_.c_contiguous, flags_.writeable, flags_.aligned)
            kind.append(about)
            exact.append((about, value.shape))
        elif isinstance(value, (bool, int, float, str, type(None))):
            kind.append(type(value))
            exact.append((type(value), value))
        elif isinstance(value, (tuple, list)) and len(value) <= min(64, room[0]) and depth:
            room[0] -= len(value)
            inner = fingerprint(tuple(value), depth - 1, room)
            kind.append((type(value), inner[1]))
            exact.append((type(value), inner[0]))
        else:
            kind.append(type(value))
            exact.append(type(value))
    return tuple(exact), tuple(kind)
