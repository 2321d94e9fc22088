"""The planning report: histograms of what was recorded and the buckets over them, as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from . import svg
from .buckets import Choice, Group
from .planning import Planned

_MOST_POINTS = 1500  # circles of a joint picture: the commonest shapes


def render_report(planned: Planned) -> str:
    """The page of a plan: figures, pictures of each function, the saving with each kernel, and the YAML itself."""
    chosen = planned.selection
    time = 100 * chosen.expected_ns / (chosen.tape_ns or 1)
    parts = [
        "<h1>prebake plan</h1>",
        f'<p class="soft">{planned.calls:,} recorded calls of {len(planned.functions)} functions; figures '
        + ("were measured on this machine" if planned.measured else "come from the cost model, nothing was measured")
        + ".</p>",
        svg.cards([(f"{100 * planned.hit_rate:.1f}%", "predicted hit rate"), (str(len(chosen.choices)), "kernels"),
                   (f"{time:.1f}%", "of the tape's time expected"), *_next_card(planned)]),
    ]
    for name in planned.functions:
        parts.append(f"<h2><code>{escape(name)}</code></h2>")
        parts += _function(planned, name)
    if chosen.curve:
        parts += ["<h2>What each kernel buys</h2>", svg.figure(
            svg.steps(_expected(planned), "expected time by number of kernels"),
            "Expected time of all recorded calls, relative to the tape, with the first, second, ... kernel.")]
    parts += ["<h2>buckets.yaml</h2>", f"<pre>{escape(planned.text)}</pre>"]
    return svg.page("prebake plan", "\n".join(parts))


def _next_card(planned: Planned) -> list[tuple[str, str]]:
    extra = planned.selection.next_choice
    if extra is None:
        return [("0%", "more from any further kernel")]
    return [(f"{100 * extra.saving_ns / (planned.selection.tape_ns or 1):.2f}%", "more from the next kernel")]


def _expected(planned: Planned) -> list[float]:
    tape = planned.selection.tape_ns or 1.0
    values = [100.0]
    for saving, _ in planned.selection.curve:
        values.append(values[-1] - 100 * saving / tape)
    return values


def _function(planned: Planned, name: str) -> Iterator[str]:
    function = planned.functions[name]
    symbols = ", ".join(f"<code>{escape(n)}</code> is {escape(' = '.join(s))}" for n, s in function.symbols.items())
    yield (f'<p class="soft">{function.profile.calls:,} calls, digest <code>{function.profile.digest[:16]}</code>. '
           f"{symbols}</p>")
    for number, signature in enumerate(function.signatures):
        groups = [(i, g) for i, g in enumerate(planned.groups) if g.function == name and g.signature == number]
        if len(function.signatures) > 1:
            yield f"<h3>({escape(signature.text())})</h3>"
        if number in function.refused:
            yield f'<p class="soft">Left to the interpreter: {escape(function.refused[number])}</p>'
        choices = [c for c in planned.selection.choices if c.candidate.group in {i for i, _ in groups}]
        yield from _pictures([g for _, g in groups], choices)
        if choices:
            yield _table(planned, choices)


def _pictures(groups: Sequence[Group], choices: Sequence[Choice]) -> Iterator[str]:
    if not groups:
        return
    names = groups[0].names
    caption = (svg.key("bb", "calls") + svg.key("bw", "ranged kernel") + svg.key("b1", "exact kernel"))
    varying: list[str] = []
    for axis, name in enumerate(names):
        counts: dict[int, int] = {}
        for group in groups:
            for point in group.points:
                counts[point.extents[axis]] = counts.get(point.extents[axis], 0) + point.calls
        if len(counts) < 2:
            continue
        varying.append(name)
        spans: dict[tuple[int, int], list[str]] = {}
        for choice in choices:
            if name in choice.candidate.box:
                spans.setdefault(choice.candidate.box[name], []).append(choice.candidate.text())
        boxes = [(lo, hi, "\n".join(texts)) for (lo, hi), texts in sorted(spans.items())]
        yield svg.figure(svg.histogram(counts, boxes, f"calls by {name}"),
                         f"Calls by <code>{escape(name)}</code> {caption}")
    if len(varying) == 2:
        first, second = (names.index(v) for v in varying)
        points = [(p.extents[first], p.extents[second], p.calls) for g in groups for p in g.points]
        points = sorted(points, key=lambda p: -p[2])[:_MOST_POINTS]
        rectangles = [(c.candidate.box[varying[0]], c.candidate.box[varying[1]], c.candidate.text()) for c in choices
                      if varying[0] in c.candidate.box and varying[1] in c.candidate.box]
        yield svg.figure(svg.joint(points, rectangles, (varying[0], varying[1]), "calls by two extents"),
                         f"Calls by <code>{escape(varying[0])}</code> and <code>{escape(varying[1])}</code>: the area "
                         "of a circle is the number of calls, rectangles are kernels.")


def _table(planned: Planned, choices: Sequence[Choice]) -> str:
    total = planned.calls or 1
    rows = [[c.candidate.text(), f"{100 * c.calls / total:.1f}%", f"{c.over_wider:.2f}x" if c.candidate.fixed else "",
             f"{c.over_tape:.2f}x", f"{c.saving_ns / 1e6:,.1f} ms"]
            for c in sorted(choices, key=lambda c: -c.saving_ns)]
    return svg.table(["kernel", "of all calls", "over the next wider", "over the tape", "saves in this profile"], rows)
