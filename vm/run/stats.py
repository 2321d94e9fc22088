"""What ran where: counters of one function, of all functions, and as Prometheus text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import _dispatch, function
from .arguments import Shape

MAX_MISSES = 256  # rows of `misses` in one answer, the most frequent first
ENGINES = ("prebuilt", "jit", "interpreter", "python")
_SHOWN, _PRINTED = 3, 10  # of these, in `repr` and in `str`


class Stats(dict[str, Any]):
    """The counters of one function: a dictionary that is short to look at, and a table to print."""

    def __repr__(self) -> str:
        """As a dictionary's, with the first misses alone."""
        shown = [repr(row) for row in self["misses"][:_SHOWN]]
        rest = self["misses"][_SHOWN:]
        if rest:
            shown.append(f"and {len(rest)} more shapes, {sum(row['count'] for row in rest):,} calls")
        items = [f"{key!r}: {value!r}" for key, value in self.items() if key != "misses"]
        return "{" + ", ".join([*items, f"'misses': [{', '.join(shown)}]"]) + "}"

    def __str__(self) -> str:
        """Shares of the engines, and the shapes that were missed most, a line each."""
        calls = self["calls"]
        lines = [f"calls {calls:,}" + (f", and {self['refused']:,} that ended in an error before" if self["refused"] else "")]
        for engine in ENGINES:
            if self[engine]:
                compiled = f", {self['tier_up']:,} of them by kernels compiled in the background" * bool(
                    engine == "jit" and self["tier_up"])
                lines.append(f"  {engine:<12}{self[engine]:>12,}{100 * self[engine] / calls:>7.1f}%{compiled}")
        if self["misses"]:
            lines.append("missed")
        for row in self["misses"][:_PRINTED]:
            nearest = f", nearest {_text(row['nearest'])}" if row["nearest"] is not None else ""
            lines.append(f"  {row['reason']:<12}{row['count']:>12,}  {_text(row['shape']) if row['shape'] else 'other shapes'}"
                         f"{nearest}")
        rest = self["misses"][_PRINTED:]
        if rest:
            lines.append(f"  {'...':<12}{sum(row['count'] for row in rest):>12,}  {len(rest)} more shapes")
        return "\n".join(lines)


class AllStats(dict[str, Stats]):
    """`Stats` by qualified name; printed, one table after the other."""

    def __str__(self) -> str:
        return "\n".join(f"{name}: {row}" for name, row in self.items())


def _text(shape: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{symbol}: {extent}" for symbol, extent in shape.items()) + "}"


def function_stats(state: function.FunctionState) -> Stats:
    """Counters of a function: calls by engine (they add up), kernels launched, peak arena bytes, missed shapes.

    tier_up: how many of `jit` were served by kernels compiled in the background. refused: calls that ended in an error of
    prebake's before any engine served them; they are no part of `calls`.
    """
    counted = [s.function._counts() for s in (state, *state.variants)]
    prebuilt, jit, interpreter, python, launched, compiled = (
        sum(column) for column in list(zip(*counted, strict=True))[:6])
    return Stats({"calls": prebuilt + jit + interpreter + python, "prebuilt": prebuilt, "jit": jit,
                  "interpreter": interpreter, "python": python, "tier_up": compiled, "refused": state.turned_away,
                  "kernels_launched": launched, "peak_arena_bytes": max(row[6] for row in counted),
                  "misses": misses(state)})


def misses(state: function.FunctionState) -> list[dict[str, Any]]:
    """Shapes that no bundle covered: [{shape, reason, nearest, count}], the most frequent first, bounded.

    shape: {symbol: extent}; nearest: the bucket that misses by least, {symbol: n or [lo, hi]}, or None. A row with
    an empty shape counts what no longer fitted into the tables.
    """
    counted: dict[tuple[Shape, str], int] = {}
    other = 0
    for one in (state, *state.variants):
        missed, uncounted = misses_of(one)
        other += uncounted
        for key, count in missed.items():
            counted[key] = counted.get(key, 0) + count
    names = symbol_names(state)
    known = buckets(state)
    found: list[dict[str, Any]] = [
        {"shape": short_shape(shape, names), "reason": reason,
         "nearest": nearest_bucket(known, dict(shape), names), "count": count}
        for (shape, reason), count in sorted(counted.items(), key=lambda item: (-item[1], item[0]))]
    other += sum(int(row["count"]) for row in found[MAX_MISSES:])
    found = found[:MAX_MISSES]
    if other:
        found.append({"shape": {}, "reason": state.reason_of(0), "nearest": None, "count": other})
    return found


def misses_of(state: function.FunctionState) -> tuple[dict[tuple[Shape, str], int], int]:
    """(shape, reason) -> calls of one state's program, and the calls of shapes that are not kept."""
    counted: dict[tuple[Shape, str], int] = dict(state.misses)
    present, other = _present_misses(state)
    for part in (dict(state.settled), present):
        for key, missed in part.items():
            counted[key] = counted.get(key, 0) + missed
    return counted, state.other_misses + other


def _present_misses(state: function.FunctionState) -> tuple[dict[tuple[Shape, str], int], int]:
    """(shape, reason) -> calls of the plans that missed since `settle_misses`, and those of shapes that are not kept."""
    settled: dict[Shape, int] = {}
    for (shape, _), count in dict(state.settled).items():  # other threads may add to it
        settled[shape] = settled.get(shape, 0) + count
    found: dict[tuple[Shape, str], int] = {}
    other = 0
    for entry in [*state.function._entries()[1], *state.retired]:
        rows, (_, missed_other) = entry.counts()
        other += missed_other
        for extents, _, missed, why, _, _ in rows:
            shape = tuple(zip(entry.symbols, extents, strict=True))
            old = min(settled.get(shape, 0), missed)
            if old:
                settled[shape] -= old
            if missed > old:
                key = shape, state.reason_of(why)
                found[key] = found.get(key, 0) + missed - old
    return found, other


def settle_misses(state: function.FunctionState) -> None:
    """Write down the misses so far with the reasons that they had: another bundle, or none, is about to come."""
    for key, missed in _present_misses(state)[0].items():
        state.settled[key] = state.settled.get(key, 0) + missed


def symbol_names(state: function.FunctionState) -> dict[str, str]:
    """Short names of symbols: those of the bundle, else of `jit(shapes=...)`."""
    if state.bundle is not None:
        given = state.bundle.records[state.function.name].get("symbols") or {}
        names: dict[str, str] = {}
        for short, symbols in given.items():
            for symbol in [symbols] if isinstance(symbols, str) else symbols:
                names[symbol] = short
        if names:
            return names
    if state.shapes:
        from .shape_spec import short_names

        return short_names(state.fn, state.shapes)
    return {}


def buckets(state: function.FunctionState) -> list[Mapping[str, tuple[int, int]]]:
    """Every bucket of the function's prebuilt kernels."""
    return [bucket for entry in state.function._entries()[0] for bucket in entry.buckets]


def nearest_bucket(known: list[Mapping[str, tuple[int, int]]], extents: Mapping[str, int],
                   names: Mapping[str, str]) -> dict[str, Any] | None:
    """The bucket that these extents miss by least (sum over symbols of the distance relative to the extent)."""
    def distance(bucket: Mapping[str, tuple[int, int]]) -> float:
        total = 0.0
        for symbol, (lo, hi) in bucket.items():
            n = extents.get(symbol)
            total += 1.0 if n is None else max(lo - n, n - hi, 0) / max(n, 1)
        return total

    if not known:
        return None
    best = min(known, key=distance)
    return short_shape([(s, lo if lo == hi else [lo, hi]) for s, (lo, hi) in best.items()], names)


def short_shape(shape: Iterable[tuple[str, Any]], names: Mapping[str, str]) -> dict[str, Any]:
    """{short name: extent}; symbols of one name are told once, unless they differ, which is worth telling."""
    found: dict[str, Any] = {}
    for symbol, extent in shape:
        short = names.get(symbol, symbol)
        found[short if found.setdefault(short, extent) == extent else symbol] = extent
    return found


def stats() -> AllStats:
    """`fn.stats()` of every decorated function that lives, by qualified name; those of one name are added up."""
    found = AllStats()
    for state in sorted(function.living(), key=lambda s: s.function.name):
        row = function_stats(state)
        known = found.setdefault(state.function.name, row)
        if known is not row:
            for key, value in row.items():
                known[key] = max(known[key], value) if key == "peak_arena_bytes" else known[key] + value
    return found


def metrics() -> str:
    """The statistics as Prometheus text (version 0.0.4)."""
    rows = stats()
    lines = ["# HELP prebake_calls_total Calls of decorated functions, by the engine that served them.",
             "# TYPE prebake_calls_total counter"]
    for name, row in rows.items():
        lines += [f'prebake_calls_total{{function="{_label(name)}",engine="{engine}"}} {row[engine]}'
                  for engine in ENGINES]
    for metric, key, help_text in (
            ("prebake_tier_up_calls_total", "tier_up", "Calls of engine jit that kernels compiled in the background served."),
            ("prebake_refused_calls_total", "refused", "Calls that ended in an error before any engine served them.")):
        lines += [f"# HELP {metric} {help_text}", f"# TYPE {metric} counter"]
        lines += [f'{metric}{{function="{_label(name)}"}} {row[key]}' for name, row in rows.items()]
    lines += ["# HELP prebake_kernels_launched_total Kernels and tape steps run.",
              "# TYPE prebake_kernels_launched_total counter"]
    lines += [f'prebake_kernels_launched_total{{function="{_label(name)}"}} {row["kernels_launched"]}'
              for name, row in rows.items()]
    lines += ["# HELP prebake_misses_total Calls that no prebuilt kernel took, by reason.",
              "# TYPE prebake_misses_total counter"]
    for name, row in rows.items():
        by_reason: dict[str, int] = {}
        for miss in row["misses"]:
            by_reason[miss["reason"]] = by_reason.get(miss["reason"], 0) + miss["count"]
        lines += [f'prebake_misses_total{{function="{_label(name)}",reason="{reason}"}} {count}'
                  for reason, count in sorted(by_reason.items())]
    lines += ["# HELP prebake_peak_arena_bytes Largest temporaries of one call.",
              "# TYPE prebake_peak_arena_bytes gauge"]
    lines += [f'prebake_peak_arena_bytes{{function="{_label(name)}"}} {row["peak_arena_bytes"]}'
              for name, row in rows.items()]
    packs, pack_bytes = _dispatch.pack_stats()
    for metric, help_text, value in (
            ("prebake_packed_operands", "Constant operands held in packed form.", packs),
            ("prebake_packed_bytes", "Their bytes.", pack_bytes),
            ("prebake_mapped_pack_bytes", "Those of them that lie in files, shared by all processes.",
             _dispatch.mapped_pack_bytes()),
            ("prebake_result_pool_bytes", "Bytes kept for the next results.", _dispatch.result_pool_bytes())):
        lines += [f"# HELP {metric} {help_text}", f"# TYPE {metric} gauge", f"{metric} {value}"]
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
