"""Small charts as inline SVG, coloured by CSS classes, so that one page serves light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

# Palette: colours apart in hue and in lightness, readable on both backgrounds.
STYLE = """
:root { --bg: #fcfcfb; --card: #ffffff; --ink: #1d2329; --soft: #5d6872; --line: #dfe3e6; --grid: #eceff1;
  --c0: #2a6fbb; --c1: #d2691e; --c2: #2e8b57; --c3: #8e5bb5; --c4: #b8860b; --bar: #9db7d3; --wide: #cfe3d6; }
@media (prefers-color-scheme: dark) { :root { --bg: #14181c; --card: #1b2127; --ink: #e6eaed; --soft: #9aa6b1;
  --line: #323b44; --grid: #262e36; --c0: #6aa9ec; --c1: #f09a5b; --c2: #63c08c; --c3: #bf95e0; --c4: #e0b84c;
  --bar: #3d5a78; --wide: #27483a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 980px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; letter-spacing: -.01em; } h2 { font-size: 19px; margin: 40px 0 8px; }
h3 { font-size: 15px; margin: 22px 0 6px; } p { margin: 6px 0 10px; } .soft, figcaption { color: var(--soft); }
code { font: 13px/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
h2 code { font-size: 17px; font-weight: 600; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; overflow-x: auto;
  font: 12.5px/1.55 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 12px; margin: 20px 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; }
.card b { display: block; font-size: 25px; line-height: 1.25; font-weight: 650; letter-spacing: -.02em; }
.card span { color: var(--soft); font-size: 13px; }
figure { margin: 10px 0 6px; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 12px 14px 8px; } figcaption { font-size: 13px; margin-top: 4px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
.scroll { overflow-x: auto; } th { text-align: right; font-weight: 600; color: var(--soft); font-size: 13px; }
td, th { padding: 6px 10px; border-bottom: 1px solid var(--line); } td { text-align: right; }
td:first-child, th:first-child { text-align: left; } tr.strong td { font-weight: 650; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 11px; }
svg .label { fill: var(--ink); } .grid { stroke: var(--grid); } .axis { stroke: var(--line); }
.bar { fill: var(--bar); } .range { fill: var(--wide); stroke: var(--c2); } .exact { fill: var(--c1); stroke: none; }
.f0 { fill: var(--c0); } .f1 { fill: var(--c1); } .f2 { fill: var(--c2); } .f3 { fill: var(--c3); }
.f4 { fill: var(--c4); }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); } .s2 { stroke: var(--c2); } .s3 { stroke: var(--c3); }
.s4 { stroke: var(--c4); } .bb { background: var(--bar); } .b4 { background: var(--c4); }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 5px 0 12px; }
.b0 { background: var(--c0); } .b1 { background: var(--c1); } .b2 { background: var(--c2); }
.b3 { background: var(--c3); } .bw { background: var(--wide); outline: 1px solid var(--c2); }
"""

WIDTH = 920
_LEFT, _RIGHT = 58, 22


def page(title: str, body: str) -> str:
    """A whole HTML page: no script, nothing fetched from anywhere."""
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
            f'content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
            f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
            f"<body><main>\n{body}\n</main></body></html>\n")


def cards(items: Sequence[tuple[str, str]]) -> str:
    """Large figures with a line below each."""
    inside = (f'<div class="card"><b>{escape(value)}</b><span>{escape(text)}</span></div>' for value, text in items)
    return f'<div class="cards">{"".join(inside)}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], strong: Sequence[int] = ()) -> str:
    """A table; the first column is text, the others are figures. strong: rows to set in bold."""
    body = "".join(f'<tr{" class=strong" if i in strong else ""}>'
                   + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for i, row in enumerate(rows))
    return ('<div class="scroll"><table><thead><tr>' + "".join(f"<th>{escape(h)}</th>" for h in head)
            + f"</tr></thead><tbody>{body}</tbody></table></div>")


def figure(svg: str, caption: str) -> str:
    """A chart with its caption (HTML, so that it may hold colour keys)."""
    return f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"


def key(css: str, text: str) -> str:
    """A colour key for a caption."""
    return f'<span class="key {css}"></span>{escape(text)}'


@dataclass(frozen=True)
class Scale:
    """Values to pixels. log: logarithmic, for spans of more than a factor of 64 (values must be positive)."""

    lo: float
    hi: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        lo, hi, value = (math.log(max(v, 1e-12)) if self.log else v for v in (self.lo, self.hi, value))
        share = (value - lo) / (hi - lo) if hi > lo else 0.5
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self, count: int = 6) -> list[float]:
        """Round values inside the scale."""
        if self.log:
            exponents = range(math.floor(math.log10(max(self.lo, 1e-12))), math.ceil(math.log10(self.hi)) + 1)
            found = [m * 10.0 ** e for e in exponents for m in (1, 2, 5)]
            found = [v for v in found if self.lo <= v <= self.hi * 1.0001]
            if len(found) > count + 3:
                found = [v for v in found if f"{v:e}"[0] == "1"] or found[:: len(found) // count]
            return found
        raw = (self.hi - self.lo) / count or 1.0
        step = min((m * 10.0 ** math.floor(math.log10(raw)) for m in (1, 2, 5, 10)), key=lambda s: abs(s - raw))
        first = math.ceil(self.lo / step)
        return [i * step for i in range(first, math.floor(self.hi / step + 1e-9) + 1)]


def number(value: float) -> str:
    """1200 -> 1,200; 0.25 -> 0.25; 1500000 -> 1.5M."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def _open(height: float, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(label, quote=True)}">'


def _text(x: float, y: float, text: str, anchor: str = "middle", css: str = "") -> str:
    style = f' class="{css}"' if css else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


def _y_axis(scale: Scale, unit: str = "") -> list[str]:
    parts = []
    for tick in scale.ticks(4):
        y = scale(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:g}" y2="{y:g}"/>')
        parts.append(_text(_LEFT - 8, y + 4, number(tick) + unit, "end"))
    return parts


def histogram(counts: Mapping[int, int], boxes: Sequence[tuple[int, int, str]], label: str) -> str:
    """Calls by extent, and buckets in lanes below: (lo, hi, text); exact ones are marks, ranges are bars."""
    lo = min([*counts, *(b[0] for b in boxes)])
    hi = max([*counts, *(min(b[1], 4 * max(counts)) for b in boxes)])
    log = lo > 0 and hi / lo > 64
    x = Scale(lo / 1.08 if log else lo - .5, hi * 1.08 if log else hi + .5, _LEFT, WIDTH - _RIGHT, log)
    bars = _bars(counts, x, log)
    top, base = 16.0, 170.0
    y = Scale(0, max(bar[2] for bar in bars), base, top)
    lanes = _lanes(boxes, x)
    height = base + 36 + 15 * (max(lanes.values(), default=-1) + 1)
    parts = [_open(height, label), *_y_axis(y)]
    for left, right, calls, text in bars:
        parts.append(f'<rect class="bar" x="{left:.2f}" y="{y(calls):g}" width="{max(right - left, 1):.2f}" '
                     f'height="{base - y(calls):.2f}"><title>{escape(text)}: {calls:,} calls</title></rect>')
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>')
    parts += [_text(x(t), base + 16, number(t)) for t in x.ticks(10) if t == int(t)]
    for i, (low, high, text) in enumerate(boxes):
        at = base + 26 + 15 * lanes[i]
        left, right = x(max(low - (0 if log else .5), x.lo)), x(min(high + (0 if log else .5), x.hi))
        if low == high:
            middle = (left + right) / 2
            parts.append(f'<rect class="exact" x="{middle - 3:.2f}" y="{at:g}" width="6" height="10" rx="2">'
                         f"<title>{escape(text)}</title></rect>")
        else:
            parts.append(f'<rect class="range" x="{left:.2f}" y="{at + .5:g}" width="{max(right - left, 3):.2f}" '
                         f'height="9" rx="3"><title>{escape(text)}</title></rect>')
    return "".join(parts) + "</svg>"


def _bars(counts: Mapping[int, int], x: Scale, log: bool) -> list[tuple[float, float, int, str]]:
    """(left, right, calls, text): one bar an extent while there are few, else bins of equal width on the scale."""
    if len(counts) <= 96 and (log or x.hi - x.lo <= 192):
        half = min((x.end - x.start) / max(len(counts), 12) * .42, 14.0)
        if not log:
            half = min(half, (x(1) - x(0)) * .45)
        return [(x(v) - half, x(v) + half, c, str(v)) for v, c in sorted(counts.items())]
    bins = 64
    total: dict[int, int] = {}
    seen: dict[int, list[int]] = {}
    for value, calls in counts.items():
        at = min(int((x(value) - x.start) / (x.end - x.start) * bins), bins - 1)
        total[at] = total.get(at, 0) + calls
        seen.setdefault(at, []).append(value)
    width = (x.end - x.start) / bins
    return [(x.start + at * width + .7, x.start + (at + 1) * width - .7, total[at],
             f"{min(seen[at])} to {max(seen[at])}") for at in sorted(total)]


def _lanes(boxes: Sequence[tuple[int, int, str]], x: Scale) -> dict[int, int]:
    """A lane for each box such that none overlap; marks are eight pixels wide."""
    ends: list[float] = []
    lanes: dict[int, int] = {}
    order = sorted(range(len(boxes)), key=lambda i: (boxes[i][0] == boxes[i][1], boxes[i][0], -boxes[i][1]))
    for i in order:
        low, high, _ = boxes[i]
        left, right = x(max(low, x.lo)) - 4, x(min(high, x.hi)) + 4
        for lane, end in enumerate(ends):
            if end <= left:
                lanes[i], ends[lane] = lane, right
                break
        else:
            lanes[i] = len(ends)
            ends.append(right)
    return lanes


def joint(points: Sequence[tuple[int, int, int]], boxes: Sequence[tuple[tuple[int, int], tuple[int, int], str]],
          names: tuple[str, str], label: str) -> str:
    """Calls by two extents: circles whose area is the count, and the buckets as rectangles over them."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    scales = []
    for values, start, end in ((xs, _LEFT + 12, WIDTH - _RIGHT - 12), (ys, 258, 22)):
        lo, hi = min(values), max(values)
        log = lo > 0 and hi / lo > 64
        margin = 0.0 if log else max((hi - lo) * .03, .5)
        scales.append(Scale(lo / 1.1 if log else lo - margin, hi * 1.1 if log else hi + margin, start, end, log))
    x, y = scales
    most = max(p[2] for p in points)
    parts = [_open(300, label), *_y_axis(y)]
    for (x0, x1), (y0, y1), text in boxes:
        left, right = x(max(x0, x.lo)) - 5, x(min(x1, x.hi)) + 5
        upper, lower = y(min(y1, y.hi)) - 5, y(max(y0, y.lo)) + 5
        css = "exact" if x0 == x1 and y0 == y1 else "range"
        opacity = ' fill-opacity=".35"'
        parts.append(f'<rect class="{css}"{opacity} x="{left:.1f}" y="{upper:.1f}" width="{right - left:.1f}" '
                     f'height="{lower - upper:.1f}" rx="4"><title>{escape(text)}</title></rect>')
    for a, b, calls in sorted(points, key=lambda p: -p[2]):
        radius = max(9 * math.sqrt(calls / most), 1.2)
        parts.append(f'<circle class="f0" fill-opacity=".65" cx="{x(a):g}" cy="{y(b):g}" r="{radius:.1f}">'
                     f"<title>{names[0]}={a}, {names[1]}={b}: {calls:,} calls</title></circle>")
    parts += [_text(x(t), 282, number(t)) for t in x.ticks(10)]
    parts += [_text(WIDTH - _RIGHT, 297, names[0], "end", "label"), _text(_LEFT, 12, names[1], "start", "label")]
    return "".join(parts) + "</svg>"


def steps(values: Sequence[float], label: str, unit: str = "%") -> str:
    """A falling curve: value after 0, 1, 2, ... kernels."""
    x = Scale(0, max(len(values) - 1, 1), _LEFT, WIDTH - _RIGHT - 10)
    y = Scale(0, max(values) or 1, 150, 14)
    path = " ".join(f"{'M' if i == 0 else 'L'}{x(i):g} {y(v):g}" for i, v in enumerate(values))
    marks = [f'<circle class="f0" cx="{x(i):g}" cy="{y(v):g}" r="3.2">'
             f"<title>{i} kernels: {v:.2f}{unit}</title></circle>" for i, v in enumerate(values)]
    ticks = sorted({round(t) for t in x.ticks(8)})
    return "".join([_open(182, label), *_y_axis(y, unit),
                    f'<path class="s0" fill="none" stroke-width="2" d="{path}"/>', *marks,
                    *[_text(x(t), 168, str(t)) for t in ticks], _text(WIDTH - _RIGHT, 180, "kernels", "end"), "</svg>"])


def dots(series: Sequence[tuple[str, Sequence[float]]], label: str, unit: str = " ms") -> str:
    """Values in order (request after request) on a logarithmic axis, one colour a series: (css digit, values)."""
    every = [v for _, values in series for v in values if v > 0]
    y = Scale(min(every) * .8, max(every) * 1.25, 236, 12, True)
    x = Scale(0, max(len(values) for _, values in series), _LEFT, WIDTH - _RIGHT)
    parts = [_open(270, label), *_y_axis(y, unit)]
    for css, values in series:
        parts.append(f'<g class="f{css}" fill-opacity=".5">' + "".join(
            f'<circle cx="{x(i):g}" cy="{y(v):g}" r="1.7"/>' for i, v in enumerate(values)) + "</g>")
    parts += [_text(x(t), 254, number(t)) for t in x.ticks(10)]
    parts.append(_text(WIDTH - _RIGHT, 267, "request", "end"))
    return "".join(parts) + "</svg>"


def bars(rows: Sequence[tuple[str, str, float, str]], label: str) -> str:
    """Horizontal bars: (name, css digit, value, text behind the bar)."""
    left = 190
    x = Scale(0, max(r[2] for r in rows) or 1, left, WIDTH - 120)
    height = 26 * len(rows) + 8
    parts = [_open(height, label)]
    for i, (name, css, value, text) in enumerate(rows):
        at = 6 + 26 * i
        parts.append(_text(left - 10, at + 13, name, "end", "label"))
        width = max(x(value) - left, 1.5)
        parts.append(f'<rect class="f{css}" x="{left}" y="{at}" width="{width:.1f}" height="17" rx="3"/>')
        parts.append(_text(max(x(value), left + 2) + 8, at + 13, text, "start"))
    return "".join(parts) + "</svg>"
