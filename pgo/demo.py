"""`prebake demo`: a digit classifier is trained, profiled, planned, built and raced against plain NumPy, here and now.

Real data, no network: the UCI handwritten digits (see ATTRIBUTION; how the file was made: examples/make_digits.py).
Every figure is measured in fresh processes on this machine while the command runs.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ..vm.errors import InternalError
from . import svg
from .planning import Planned

ATTRIBUTION = ("Optical Recognition of Handwritten Digits (test set), E. Alpaydin and C. Kaynak, 1998, UCI Machine "
               "Learning Repository, doi.org/10.24432/C50P49, CC BY 4.0")
PAGE = "prebake-demo.html"
SERVICE = "prebake_demo_service.py"  # a name that no project has: sources are looked for by name
SEED = 20260
_TRAIN = 1297  # images for training; the other 500 are what the service is asked about
_REQUESTS = 1000
_RUNS = 3


@dataclass
class Figures:
    """What one contestant took: medians over its processes; times in microseconds, `first` in milliseconds."""

    name: str
    css: str
    runs: list[dict[str, Any]] = field(default_factory=list)

    def median(self, of: str) -> float:
        """first, worst, p50, p99 or accuracy."""
        values = {"first": lambda r: r["first_ms"], "worst": lambda r: max(r["taken_us"]),
                  "p50": lambda r: float(np.percentile(r["taken_us"], 50)), "accuracy": lambda r: r["accuracy"],
                  "p99": lambda r: float(np.percentile(r["taken_us"], 99))}[of]
        return statistics.median(values(r) for r in self.runs)

    @property
    def stats(self) -> Mapping[str, int]:
        """Who served the calls of the last process (empty for NumPy)."""
        return self.runs[-1].get("stats", {})


def run(output: str | os.PathLike[str] = ".", *, quiet: bool = False) -> int:
    """Do it all, print a table, write `prebake-demo.html` into the folder `output`; returns the exit code."""
    say = (lambda text: None) if quiet else (lambda text: print(text, flush=True))
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="prebake-demo-") as name:
        folder = Path(name)
        accuracy = prepare(folder)
        say(f"trained on {_TRAIN} images; {100 * accuracy:.1f}% of the other 500 are recognised")
        planned, built_s = profile_plan_build(folder, say, quiet)
        say(f"answering {_REQUESTS} requests of varying size, {_RUNS} fresh processes each")
        contestants = race(folder, quiet)
        _check_answers(contestants)
        text = table_text(contestants)
        say("\n" + text)
        page = Path(output) / PAGE
        page.parent.mkdir(parents=True, exist_ok=True)
        with np.load(folder / "requests.npz") as saved:
            images = saved["images"][:16]
        page.write_text(render_page(contestants, planned, images, built_s), encoding="utf-8")
    say(f"\nwrote {page} ({time.perf_counter() - began:.0f} s)")
    return 0


# --- data and model -------------------------------------------------------------------------------------------------

def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """Images (1797, 64) float32 in 0..1, labels (1797,) int64."""
    with resources.as_file(resources.files(__package__.rpartition(".")[0] + ".configs") / "digits.npz") as path, \
            np.load(path) as saved:
        return saved["pixels"].astype(np.float32) / 16, saved["labels"].astype(np.int64)


def train(images: np.ndarray, labels: np.ndarray, *, seed: int = SEED, epochs: int = 40) -> list[np.ndarray]:
    """[w0, b0, w1, b1, w2, b2] of a 64-128-64-10 classifier: Adam on the cross entropy, in NumPy, in a second or two.

    Source: Kingma and Ba 2015 (Adam), with its default decay rates.
    """
    random = np.random.default_rng(seed)
    sizes = [(64, 128), (128, 64), (64, 10)]
    weights: list[np.ndarray] = []
    for n_in, n_out in sizes:
        weights += [(random.standard_normal((n_in, n_out)) * np.sqrt(2 / n_in)).astype(np.float32),
                    np.zeros(n_out, np.float32)]
    first = [np.zeros_like(w) for w in weights]
    second = [np.zeros_like(w) for w in weights]
    step = 0
    for _ in range(epochs):
        order = random.permutation(len(images))
        for start in range(0, len(order), 32):
            rows = order[start:start + 32]
            step += 1
            for i, gradient in enumerate(_gradients(weights, images[rows], labels[rows])):
                first[i] = 0.9 * first[i] + 0.1 * gradient
                second[i] = 0.999 * second[i] + 0.001 * gradient * gradient
                rate = 2e-3 * np.sqrt(1 - 0.999 ** step) / (1 - 0.9 ** step)
                weights[i] = (weights[i] - rate * first[i] / (np.sqrt(second[i]) + 1e-8)).astype(np.float32)
    return weights


def _forward(weights: Sequence[np.ndarray], x: np.ndarray) -> list[np.ndarray]:
    layers = [x]
    for i in range(0, len(weights) - 2, 2):
        layers.append(np.maximum(layers[-1] @ weights[i] + weights[i + 1], 0))
    z = layers[-1] @ weights[-2] + weights[-1]
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return [*layers, e / e.sum(axis=1, keepdims=True)]


def _gradients(weights: Sequence[np.ndarray], x: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    *layers, p = _forward(weights, x)
    delta = p.copy()
    delta[np.arange(len(x)), labels] -= 1
    delta /= len(x)
    found: list[np.ndarray] = []
    for i in range(len(weights) - 2, -1, -2):
        found[:0] = [layers[i // 2].T @ delta, delta.sum(axis=0)]
        delta = (delta @ weights[i].T) * (layers[i // 2] > 0)
    return found


def traffic(random: np.random.Generator, count: int) -> np.ndarray:
    """Request sizes of a service that batches what is waiting: mostly a few images, now and then a hundred or more."""
    small = random.geometric(0.12, count)
    large = random.integers(64, 257, count)
    return np.where(random.random(count) < 0.12, large, np.minimum(small, 64))


def prepare(folder: Path) -> float:
    """Write weights, requests and the service's file into a folder; returns the accuracy on images not trained on."""
    images, labels = load_digits()
    random = np.random.default_rng(SEED)
    order = random.permutation(len(images))
    images, labels = images[order], labels[order]
    weights = train(images[:_TRAIN], labels[:_TRAIN])
    names = {f"{'wb'[i % 2]}{i // 2}": w for i, w in enumerate(weights)}
    np.savez(folder / "weights.npz", **names)  # type: ignore[arg-type]
    asked, right = images[_TRAIN:], labels[_TRAIN:]
    np.savez(folder / "requests.npz", images=asked, labels=right, yesterday=traffic(random, 400),
             today=traffic(random, _REQUESTS))
    shutil.copyfile(Path(__file__).with_name("demo_service.py"), folder / SERVICE)
    return float((_forward(weights, asked)[-1].argmax(axis=1) == right).mean())


# --- the pipeline ---------------------------------------------------------------------------------------------------

def profile_plan_build(folder: Path, say: Any, quiet: bool) -> tuple[Planned, float]:
    """Record yesterday's requests, plan, build beside the service; returns the plan and the seconds of building."""
    from .api import build, plan

    profile = folder / "profile.json"
    _run_service(folder, "warmup", {"PREBAKE_PROFILE": str(profile)})
    say("recorded 400 requests of yesterday")
    planned = plan(profile, folder / "buckets.yaml")
    say(planned.summary())
    began = time.perf_counter()
    build(folder / "buckets.yaml", folder / "__prebake__" / "digits", progress=not quiet)
    seconds = time.perf_counter() - began
    say(f"built the bundle in {seconds:.1f} s")
    return planned, seconds


def race(folder: Path, quiet: bool = True) -> list[Figures]:
    """Today's requests, answered by fresh processes of each contestant in turns."""
    contestants = [Figures("NumPy", "0"), Figures("prebake, no bundle", "1"), Figures("prebake, with bundle", "2")]
    modes = [("numpy", {}), ("prebake", {"PREBAKE_BUNDLES": "off"}), ("prebake", {"PREBAKE_BUNDLES": "on"})]
    turns: Any = [(c, m) for _ in range(_RUNS) for c, m in zip(contestants, modes, strict=True)]
    if not quiet:
        from tqdm import tqdm

        turns = tqdm(turns, desc="racing", unit="process", leave=False, disable=None)
    for contestant, (mode, environment) in turns:
        contestant.runs.append(json.loads(_run_service(folder, mode, environment)))
    return contestants


def _run_service(folder: Path, mode: str, environment: Mapping[str, str]) -> str:
    """Standard output of a fresh process of the service. One thread for everyone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREBAKE_")}
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run([sys.executable, str(folder / SERVICE), mode, str(folder), str(time.time_ns())],
                          env={**kept, **one, "PYTHONPATH": paths, **environment}, capture_output=True, text=True,
                          check=False, timeout=120)
    if done.returncode:
        raise InternalError(f"the demo's service ({mode}) failed:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def _check_answers(contestants: Sequence[Figures]) -> None:
    """All contestants must give NumPy's answers. Raises InternalError otherwise."""
    expected = np.array(contestants[0].runs[0]["answer"])
    for contestant in contestants[1:]:
        for taken in contestant.runs:
            if not np.allclose(taken["answer"], expected, rtol=1e-4, atol=1e-6):
                raise InternalError(f"{contestant.name}: other probabilities than NumPy's")


# --- showing --------------------------------------------------------------------------------------------------------

HEAD = ("", "first response", "worst call", "p50", "p99", "prebuilt", "jit", "accuracy")


def rows_of(contestants: Sequence[Figures]) -> list[list[str]]:
    """The table's cells."""
    return [[c.name, f"{c.median('first'):.0f} ms", f"{c.median('worst') / 1e3:.2f} ms", f"{c.median('p50'):.1f} us",
             f"{c.median('p99'):.1f} us", str(c.stats.get("prebuilt", "")), str(c.stats.get("jit", "")),
             f"{100 * c.median('accuracy'):.1f}%"] for c in contestants]


def table_text(contestants: Sequence[Figures]) -> str:
    """The table as text."""
    rows = [list(HEAD), *rows_of(contestants)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(row, widths, strict=True))) for row in rows)


def render_page(contestants: Sequence[Figures], planned: Planned, images: np.ndarray, built_s: float) -> str:
    """The self-contained page: shape histogram with the buckets over it, latencies, the table."""
    plain, cold, warm = contestants
    caption = "".join(svg.key(f"b{c.css}", c.name) for c in contestants)
    sizes: dict[int, int] = {}
    for group in planned.groups:
        at = group.names.index(_batch(planned))
        for point in group.points:
            sizes[point.extents[at]] = sizes.get(point.extents[at], 0) + point.calls
    boxes = sorted({(*c.candidate.box[_batch(planned)], c.candidate.text()) for c in planned.selection.choices})
    shown = [run["taken_us"] for run in (c.runs[0] for c in contestants)]
    return svg.page("prebake demo", "\n".join([
        "<h1>prebake demo</h1>",
        f'<p class="soft">A handwritten-digit classifier (64-128-64-10, float32) answers {_REQUESTS:,} requests of 1 '
        "to 256 images, one thread, in fresh processes on this machine. The bundle was planned from yesterday's "
        f"requests and built in {built_s:.1f} s; today's requests have other sizes.</p>",
        svg.cards([(f"{plain.median('p50') / warm.median('p50'):.2f}x", "NumPy's speed at the median request"),
                   (f"{warm.median('first') - plain.median('first'):+.0f} ms", "to the first response, against NumPy"),
                   (f"{100 * warm.stats['prebuilt'] / max(warm.stats['calls'], 1):.1f}%", "of calls prebuilt"),
                   (f"{cold.median('worst') / 1e3:.1f} ms", "worst call without a bundle")]),
        svg.table(HEAD, rows_of(contestants), strong=[2]),
        "<h2>What came in, and the kernels for it</h2>",
        svg.figure(svg.histogram(sizes, boxes, "requests by batch size"),
                   "Yesterday's requests by number of images, and the buckets that were planned from them "
                   + svg.key("bb", "requests") + svg.key("bw", "ranged kernel") + svg.key("b1", "exact kernel")),
        "<h2>Every request</h2>",
        svg.figure(svg.dots([(c.css, [v / 1e3 for v in values]) for c, values in zip(contestants, shown, strict=True)],
                            "latency of each request"), f"Time of each call in the order of arrival {caption}"),
        "<h2>Time to the first response</h2>",
        svg.figure(svg.bars([(c.name, c.css, c.median("first"), f"{c.median('first'):.0f} ms") for c in contestants],
                            "time to the first response"), "From the start of the process, imports included."),
        "<h2>Time of a call</h2>",
        *(svg.figure(svg.bars([(c.name, c.css, c.median(of), f"{c.median(of):.1f} us") for c in contestants], of), text)
          for of, text in (("p50", "Median."), ("p99", "99th percentile: the large requests."))),
        "<h2>What it recognises</h2>", _digits(images, np.array(warm.runs[-1]["answer"]).argmax(axis=1)),
        f"<h2>buckets.yaml</h2><pre>{escape(planned.text)}</pre>",
        f'<p class="soft">Medians of {_RUNS} processes. Data: {escape(ATTRIBUTION)}.</p>']))


def _batch(planned: Planned) -> str:
    """The short name of the batch size."""
    for function in planned.functions.values():
        for name, symbols in function.symbols.items():
            if "x.shape[0]" in symbols:
                return name
    raise InternalError("the demo's profile has no x.shape[0]")


def _digits(images: np.ndarray, answers: np.ndarray) -> str:
    """Images as small pictures with the class below."""
    cell, gap = 5, 16
    parts = [f'<svg viewBox="0 0 {len(images) * (8 * cell + gap)} 62" role="img" aria-label="digits">']
    for i, (image, answer) in enumerate(zip(images, answers, strict=True)):
        left = i * (8 * cell + gap)
        for j, value in enumerate(image):
            if value > 0:
                parts.append(f'<rect class="f0" fill-opacity="{value:.2f}" x="{left + j % 8 * cell}" '
                             f'y="{j // 8 * cell}" width="{cell}" height="{cell}"/>')
        parts.append(f'<text class="label" x="{left + 4 * cell}" y="56" text-anchor="middle">{answer}</text>')
    return svg.figure("".join(parts) + "</svg>", "The first images of the day and what the bundle's kernels say.")
