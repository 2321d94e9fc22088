"""Pages are well-formed, self-contained, and show what was planned."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import profile_helpers as made
import pytest

from prebake.pgo import svg
from prebake.pgo.planning import plan
from prebake.pgo.report import render_report

_VOID = {"meta", "rect", "circle", "line", "path"}


class Balance(HTMLParser):
    """Fails where tags do not nest; collects ids of what is drawn and every address in attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.counts = [], [], {}

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in _VOID or (tag in ("rect", "circle", "path") and not self.get_starttag_text().endswith("/>")):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag


def _parse(page):
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    return parser


def _planned(shapes, rank=2):
    rows = [made.array_row("x", rank)]
    return plan(made.profile(made.function_profile(made.doubling("<b>&co:f"), shapes, rows=rows)), max_kernels=6)


def test_the_report_is_well_formed_and_fetches_nothing():
    planned = _planned({(b, d): 1 + b * d % 7 for b in range(1, 90, 3) for d in (8, 16)})
    page = render_report(planned)
    parsed = _parse(page)
    assert parsed.addresses == [] and "script" not in parsed.counts
    assert "@import" not in page and "url(" not in page and "http" not in page
    assert "prefers-color-scheme: dark" in page
    assert "<b>&co" not in page and "&lt;b&gt;&amp;co:f" in page
    assert parsed.counts["svg"] == 4  # b, d, both, what each kernel buys
    for choice in planned.selection.choices:
        assert choice.candidate.text() in page


def test_every_bar_and_bucket_lies_inside_its_picture():
    counts = {n: n % 5 + 1 for n in range(1, 3000, 11)}
    text = svg.histogram(counts, [(1, 4096, "wide"), (7, 7, "exact"), (100, 2**62, "open")], "calls")
    width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', text).groups())
    rects = re.findall(r'<rect [^>]*x="([-\d.]+)" y="([-\d.]+)" width="([-\d.]+)" height="([-\d.]+)"', text)
    assert len(rects) > 20
    for x, y, w, h in (map(float, r) for r in rects):
        assert x >= -1 and x + w <= width + 1 and y >= -1 and y + h <= height + 1 and w > 0 and h >= 0


@pytest.mark.parametrize("counts", [{5: 1}, {0: 3, 1: 2}, {1: 1, 10**9: 1}, dict.fromkeys(range(200), 1)])
def test_odd_histograms_are_drawn(counts):
    _parse(svg.histogram(counts, [(min(counts), max(counts), "all")], "calls"))


def test_bars_of_a_histogram_hold_every_call():
    counts = {n: n for n in range(1, 1000)}
    text = svg.histogram(counts, [], "calls")
    assert sum(int(c.replace(",", "")) for c in re.findall(r": ([\d,]+) calls", text)) == sum(counts.values())


def test_scales_are_monotonous_and_their_ticks_inside():
    for scale in (svg.Scale(0, 7, 10, 90), svg.Scale(0.02, 900, 90, 10, True), svg.Scale(3, 3, 0, 1)):
        values = [scale.lo + (scale.hi - scale.lo) * i / 20 for i in range(21)]
        places = [scale(v) for v in values]
        assert places in (sorted(places), sorted(places, reverse=True))
        assert all(scale.lo - 1e-9 <= t <= scale.hi * 1.001 for t in scale.ticks())


def test_other_charts_are_well_formed():
    _parse(svg.steps([100.0, 80.0, 79.5], "saving"))
    _parse(svg.dots([("0", [0.1, 20.0]), ("1", [0.3])], "latency"))
    _parse(svg.bars([("NumPy", "0", 3.0, "3 ms"), ("none", "1", 0.0, "0")], "first"))
    _parse(svg.joint([(1, 2, 3), (4000, 2, 1)], [((1, 4096), (2, 2), "wide")], ("b", "d"), "joint"))
