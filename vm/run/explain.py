"""`fn.explain(*args)`: who would serve a call, by which rules, why not a prebuilt kernel, what would change that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import PrebakeError, UnsupportedError
from . import _dispatch
from .arguments import shape_of_args
from .rows import why_row_differs
from .stats import buckets, nearest_bucket, short_shape, symbol_names
from .tensors import Arrays
from .variants import outgrown, planned_variant, serving

if TYPE_CHECKING:
    from .function import FunctionState

# what to do about a miss
_FIXES = {
    "NO_BUNDLE": "no bundle holds this function: prebake profile, plan, build",
    "NO_BUCKET": "put the line under functions / '{name}' / buckets of buckets.yaml, then prebake build",
    "STALE_SOURCE": "the source has changed since the bundle was built: profile, plan and build again",
    "STALE_STAMP": "prebake.ready() says what does not fit; then prebake build",
    "CPU_LEVEL": "prebake build --targets, with a level of this host (prebake doctor names them)",
    "DTYPE": "record calls with such arguments, then plan and build again",
    "LAYOUT": "record calls with such arguments, then plan and build again",
    "GUARD": "record calls with such arguments, then plan and build again",
    "BUNDLES_OFF": "PREBAKE_BUNDLES switches bundles off",
}

_OF_VARIANT = "a program of its own serves such objects: the function's has no code for them, and bundles hold that one alone"


class Explanation:
    """Who serves a call. `str()` is for reading.

    engine: 'prebuilt', 'jit', 'interpreter' or 'python'; 'tier_up': a kernel that was compiled in the background (counted as
    `jit`); 'none' where the call raises. reason: why it is not prebuilt ('' when it is). nearest: the
    bucket that misses by least. rules: fusions that fired, with their notes. call_outs: kernels that the plan asks the
    library for. yaml: the bucket line that would cover the shape; str() says where to put it. instead: what to write in
    a function that cannot be compiled ('' where nobody knows): until then nothing makes its calls prebuilt. raises: what is
    wrong with the arguments, where the call is known to end in an error.
    """

    def __init__(self, function: str, engine: str, reason: str, nearest: dict[str, Any] | None, rules: list[str],
                 yaml: str, kernel: str, detail: str, shape: dict[str, int],
                 call_outs: Sequence[str] = (), instead: str | None = None, raises: str = "") -> None:
        self.function, self.engine, self.reason, self.nearest = function, engine, reason, nearest
        self.rules, self.yaml, self.kernel, self.detail, self.shape = rules, yaml, kernel, detail, shape
        self.call_outs, self.instead, self.raises = list(call_outs), instead, raises

    def why_lines(self) -> list[str]:
        """Because of what it is not prebuilt, the nearest bucket, what would change it: a line each, without margin."""
        lines = [f"because   {self.detail}"] if self.detail else []
        if self.nearest is not None:
            lines.append(f"nearest   {_bucket_text(self.nearest)}")
        return lines + self.fix_lines()

    def fix_lines(self) -> list[str]:
        """What would make such a call prebuilt; nothing where engine 'python' was asked for."""
        if self.instead is not None:
            return [f"fix       {self.instead}"] if self.instead else []
        if self.engine == "python":
            return []
        lines = [f"fix       {self.yaml}"] if self.yaml else []
        if self.reason in _FIXES and self.engine != "interpreter":
            lines.append(f"{'' if self.yaml else 'fix':9} {_FIXES[self.reason].format(name=self.function)}")
        return lines

    def __str__(self) -> str:
        lines = [f"{self.function}", f"  shape     {_bucket_text(self.shape)}", f"  engine    {self.engine}"]
        if self.kernel:
            lines.append(f"  kernel    {self.kernel}")
        if self.reason:
            lines.append(f"  reason    {self.reason}")
        if self.raises:
            lines.append(f"  raises    {self.raises}")
        elif self.detail:
            lines.append(f"  because   {self.detail}")
        if self.call_outs:
            lines.append(f"  calls     {', '.join(self.call_outs)}: NumPy's own, with the GIL")
        if self.nearest is not None:
            lines.append(f"  nearest   {_bucket_text(self.nearest)}")
        by_note: dict[str, list[str]] = {}  # 'not implemented' and the like are said once
        for rule in self.rules:
            name, _, note = rule.partition(": ")
            by_note.setdefault(note, []).append(name)
        lines += [f"  rule      {', '.join(names)}: {note}"
                  for note, names in sorted(by_note.items(), key=lambda item: len(item[1]))]
        lines += [f"  {line}" for line in self.fix_lines()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<prebake.Explanation {self.function} {self.engine} {self.reason}>"


def explain_call(state: FunctionState, args: tuple) -> Explanation:
    """What would serve these arguments. A plan is made where none is there yet; the function does not run."""
    state.prepare()
    function = state.function
    engine = function._engine()
    if engine != _dispatch.ENGINE_CODES["python"]:
        try:
            args = Arrays(args, state.fn.__code__).args
        except UnsupportedError as error:
            served = "python" if state.fallback == "python" else "none"
            return Explanation(function.name, served, state.reason_of(0), None, [], "", "", error.what, {}, instead=error.hint)
        other = serving(state, args)
        if other is not state:
            return _of_variant(other, args)
    if state.stated.shape_check is not None:
        try:
            state.stated.shape_check(args)
        except ValueError as error:
            shape = _shape(None, args, symbol_names(state), state)
            return Explanation(function.name, "none", "", None, [], "", "", str(error), shape, instead="", raises=str(error))
    _, planned = function._entries()
    found = _prebuilt(state, args, engine)
    if found.engine == "prebuilt":
        return found
    reason, nearest, yaml, detail, shape = found.reason, found.nearest, found.yaml, found.detail, found.shape
    if engine == _dispatch.ENGINE_CODES["python"]:
        return Explanation(function.name, "python", reason, nearest, [], yaml, "", "engine 'python' was asked for",
                           shape)
    try:
        state.program()
    except UnsupportedError as error:
        served = "python" if state.fallback == "python" else "none"
        return Explanation(function.name, served, reason, nearest, [], "", "", error.what, shape, instead=error.hint)
    if engine == _dispatch.ENGINE_CODES["interpreter"]:
        return Explanation(function.name, "interpreter", reason, nearest, [], yaml, "",
                           "engine 'interpreter' was asked for", shape)
    variant = planned_variant(state, args)
    if variant is not None:
        return _of_variant(variant, args, reason)
    for entry in planned:
        if function._probe(entry, args, False)[0] == 0:
            compiled = entry.kernel_names[0] if entry.is_prebuilt else ""
            why = "; ".join(filter(None, (detail, state.tier_note)))
            return Explanation(function.name, "tier_up" if compiled else "jit", reason, nearest, _rules(entry.note), yaml,
                               compiled, why, shape, entry.call_outs)
    with state.lock:
        try:
            made, note = state.specialise(args)
        except (PrebakeError, NameError) as error:
            made, note = None, str(error)
        if made is None and note.startswith("property: ") and state.grow(args, properties=True):
            made, note = state.specialise(args)
    if made is None and note.startswith("callee: "):
        try:
            grown = outgrown(state, args)
        except UnsupportedError as error:
            served = "python" if state.fallback == "python" else "none"
            return Explanation(function.name, served, reason, nearest, [], "", "", error.what, shape, instead=error.hint)
        if grown is not None:
            return explain_call(state, args) if grown is state else _of_variant(grown, args, reason)
        note = "; ".join([note.partition(": ")[2], *state.program().__dict__.get("left_out", ())])
    if made is not None and function._probe(made, args, False)[0] == 0:
        return Explanation(function.name, "jit", reason, nearest, _rules(made.note), yaml, "", detail, shape, made.call_outs)
    from ..plan.control import RAISING

    kind, _, raises = note.partition(": ")
    if kind in RAISING or kind == "no-value":
        return Explanation(function.name, "interpreter", reason, None, [], "", "", raises, shape, instead="", raises=raises)
    # no bucket helps what cannot be planned: the note names what stands in the way
    return Explanation(function.name, "interpreter", reason, nearest, [], "" if note else yaml, "", note or detail, shape)


def _of_variant(variant: FunctionState, args: tuple, reason: str = "") -> Explanation:
    """What a program for other objects makes of a call. reason: why no prebuilt kernel of the function's own program does."""
    made = explain_call(variant, args)
    if made.engine in ("jit", "tier_up", "interpreter"):
        made.reason, made.nearest, made.yaml, made.instead = reason or made.reason, None, "", ""
        made.detail = "; ".join(filter(None, (_OF_VARIANT, made.detail)))
    return made


def miss_text(state: FunctionState, args: tuple) -> str:
    """Why no prebuilt kernel takes a call and what would change that: lines that begin with a newline, or ''."""
    found = _prebuilt(state, args, _dispatch.ENGINE_CODES["prebuilt"])
    return "".join(f"\n  {line}" for line in found.why_lines())


def _prebuilt(state: FunctionState, args: tuple, engine: int) -> Explanation:
    """The prebuilt kernel that serves a call (engine 'prebuilt'), or why there is none (engine 'none')."""
    function, names = state.function, symbol_names(state)
    why, detail = 0, ""
    if engine in (_dispatch.ENGINE_CODES["auto"], _dispatch.ENGINE_CODES["prebuilt"]):
        for entry in function._entries()[0]:
            status, kernel = function._probe(entry, args, False)
            if status == 0:
                shape = _shape(entry, args, names, state)
                bucket = [(s, [lo, hi]) for s, (lo, hi) in entry.buckets[kernel].items()]
                return Explanation(function.name, "prebuilt", "", None, [], "", entry.kernel_names[kernel],
                                   f"bucket {_bucket_text(short_shape(bucket, names))} holds", shape, entry.call_outs)
            if status >= why:
                why, detail = status, why_row_differs(entry, args, function) if status != 4 else ""
    reason = state.reason_of(why)
    shape = _shape(None, args, names, state)
    nearest = nearest_bucket(buckets(state), dict(shape_of_args(state.function, args)), names)
    yaml = f"- {_bucket_text(shape)}" if shape and reason in ("NO_BUNDLE", "NO_BUCKET") else ""
    return Explanation(function.name, "none", reason, nearest, [], yaml, "", detail, shape)


def _rules(plan: Any) -> list[str]:
    fired = getattr(plan, "fired", None) or {}
    return [f"{name}: {note}" for name in sorted(fired) for note in fired[name]]


def _shape(entry: _dispatch.Entry | None, args: tuple, names: dict[str, str], state: FunctionState) -> dict[str, int]:
    """{symbol: extent} of the arguments, under their short names; frozen arrays are no symbols."""
    from ..plan.signature import is_constant

    fixed = {name for name, value in zip(state.fn.__code__.co_varnames, args, strict=False)
             if isinstance(value, np.ndarray) and is_constant(value)}
    return short_shape([(symbol, extent) for symbol, extent in shape_of_args(state.function, args)
                        if symbol.partition(".")[0] not in fixed], names)


def _bucket_text(bucket: Any) -> str:
    def bound(value: Any) -> str:
        if isinstance(value, (tuple, list)):
            lo, hi = value
            return str(lo) if lo == hi else f"[{lo}, {'inf' if hi >= 1 << 62 else hi}]"
        return str(value)

    def key(symbol: str) -> str:
        return symbol if symbol.isidentifier() else f'"{symbol}"'

    return "{" + ", ".join(f"{key(symbol)}: {bound(value)}" for symbol, value in bucket.items()) + "}"
