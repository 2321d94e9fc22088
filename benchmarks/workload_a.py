"""Workload A side by side: NumPy, ONNX Runtime, prebake prebuilt and prebake JIT, each in fresh, pinned processes.

    python benchmarks/workload_a.py [--rounds 3] [--requests 1000] [--core 1] [--peers] [--json out.json]

`--peers` adds PyTorch (eager, and compiled for dynamic shapes), JAX and Numba, which compile while they run and take minutes.

Each round starts every contestant once, in turn, so that a drift of the machine meets all of them. A process answers the
same 1,000 requests twice: the first pass gives first response (from process start, imports included) and worst call,
the second the warm percentiles. Medians over rounds. The floor is FLOPs over this machine's own FMA rate. The peers
come from benchmarks/requirements.txt; a contestant that is missing is left out, and said so.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))
import contestants

BY_BATCH = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def worker(name: str, folder: str, count: int, started: float) -> None:
    """Answer the requests as one contestant and print its figures as JSON. started: CLOCK_MONOTONIC at spawn."""
    answer, stats = _contestant(name, folder)
    requests = _load_requests(folder, count)
    first: list[float] = []
    response = 0.0
    for i, x in enumerate(requests):
        begin = time.perf_counter()
        answer(x)
        first.append(time.perf_counter() - begin)
        if i == 0:
            response = time.clock_gettime(time.CLOCK_MONOTONIC) - started
    warm = []
    for x in requests:
        begin = time.perf_counter()
        answer(x)
        warm.append(time.perf_counter() - begin)
    by_batch = {}
    for b in BY_BATCH:
        x = next(r for r in requests if len(r) == 256)[:b].copy() if any(len(r) == 256 for r in requests) else \
            _rows(requests, b)
        times = []
        for _ in range(60):
            begin = time.perf_counter()
            answer(x)
            times.append(time.perf_counter() - begin)
        by_batch[str(b)] = median(times)
    error = _worst_error(folder, requests[:50], answer)
    print(json.dumps({"response": response, "worst": max(first[1:]), "first_p99": contestants.percentile(first, 99),
                      "p50": contestants.percentile(warm, 50), "p99": contestants.percentile(warm, 99), "by_batch": by_batch,
                      "error": error, "stats": stats()}))


def _rows(requests: list, b: int) -> object:
    import numpy as np
    return np.concatenate(requests)[:b].copy()


def _load_requests(folder: str, count: int) -> list:
    import numpy as np
    pool = np.load(Path(folder, "pool.npy"))
    return [pool[:b].copy() for b in np.load(Path(folder, "sizes.npy"))[:count]]


def _layers(folder: str) -> list:
    import numpy as np
    with np.load(Path(folder, "weights.npz")) as data:
        return [(data[f"w{i}"], data[f"b{i}"]) for i in range(len(data.files) // 2)]


def _contestant(name: str, folder: str) -> tuple[Callable, Callable]:
    if name == "onnxruntime":
        return contestants.onnx_answer(Path(folder, "risk.onnx"), ["x"]), dict
    if name == "numpy":
        import numpy as np
        layers = _layers(folder)

        def plain(x: np.ndarray) -> np.ndarray:
            for i, (w, b) in enumerate(layers):
                x = x @ w + b
                if i < len(layers) - 1:
                    x = np.maximum(x, 0)
            return 1 / (1 + np.exp(-x))
        return plain, dict
    import risk
    if name in contestants.COMPILING_PEERS:
        return risk.peer(name, _layers(folder)), dict

    import prebake
    layers = prebake.freeze(_layers(folder))
    if name == "prebuilt":
        prebake.load_bundle(str(Path(folder, "bundle")))
    score = risk.jit_score
    return (lambda x: score(layers, x)), score.stats


def _worst_error(folder: str, requests: list, answer: Callable) -> float:
    """Largest |answer - NumPy| beyond rtol 1e-5, atol 1e-6, as a multiple of the tolerance."""
    import numpy as np
    plain, _ = _contestant("numpy", folder)
    worst = 0.0
    for x in requests:
        expected = plain(x)
        worst = max(worst, float(np.max(np.abs(answer(x) - expected) / (1e-6 + 1e-5 * np.abs(expected)))))
    return worst


def prepare(folder: Path, count: int) -> None:
    """Weights, requests, the ONNX file, and a bundle planned from the workload's own traffic."""
    import numpy as np
    import risk

    import prebake
    layers = risk.make_weights()
    np.savez(folder / "weights.npz", **{f"{k}{i}": v for i, pair in enumerate(layers)
                                        for k, v in zip("wb", pair, strict=True)})
    requests = risk.make_requests(count)
    np.save(folder / "sizes.npy", np.array([len(x) for x in requests]))
    np.save(folder / "pool.npy", max(requests, key=len))
    with suppress(ImportError):  # then that contestant is left out
        (folder / "risk.onnx").write_bytes(risk.onnx_bytes(layers))
    frozen = prebake.freeze(_layers(str(folder)))
    with prebake.profile(str(folder / "profile.json")):
        for x in requests:
            risk.jit_score(frozen, x)
    prebake.plan(str(folder / "profile.json"), str(folder / "buckets.yaml"))
    prebake.build(str(folder / "buckets.yaml"), str(folder / "bundle"))


def run(args: argparse.Namespace) -> dict:
    """{'ceilings', 'floor_s', 'floor_stream_s', 'figures': {contestant: medians over rounds}}."""
    import ceilings
    import risk
    ceiling = ceilings.measure()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, args.requests)
        found = contestants.spawn_rounds(__file__, folder, args)
        import numpy as np
        sizes = np.load(folder / "sizes.npy")
    scalars = ("response", "worst", "first_p99", "p50", "p99", "error")
    return {"ceilings": ceiling, "floor_s": {str(b): risk.flops(b) / ceiling["fma_flops"] for b in BY_BATCH},
            "floor_stream_s": median(risk.flops(int(b)) for b in sizes) / ceiling["fma_flops"],
            "figures": {name: contestants.medians(rows, scalars, "by_batch") for name, rows in found.items()}}


def show(result: dict) -> None:
    """Print the table of the stream, and microseconds by batch."""
    table = result["figures"]
    contestants.print_ceilings(result["ceilings"])
    print(f"{'':13}{'first s':>9}{'worst ms':>10}{'1st p99':>9}{'p50 ms':>9}{'p99 ms':>9}{'error/tol':>11}  engine counts")
    for name, row in table.items():
        print(f"{name:13}{row['response']:9.3f}{row['worst'] * 1e3:10.2f}{row['first_p99'] * 1e3:9.3f}"
              f"{row['p50'] * 1e3:9.3f}{row['p99'] * 1e3:9.3f}{row['error']:11.2f}  {row['stats'] or ''}")
    print(f"{'floor':13}{'':28}{result['floor_stream_s'] * 1e3:9.3f}")
    print("\nmicroseconds by batch (share of ONNX Runtime's time)")
    contestants.print_shares(table, "by_batch", result["floor_s"], 1e6)


if __name__ == "__main__":
    contestants.command(__doc__, 1000, worker, run, show)
