"""Workload C side by side: single operations in NumPy, ONNX Runtime, PyTorch, JAX, Numba and prebake, one thread.

    python benchmarks/workload_c.py [--rounds 3] [--core 1] [--peers] [--json out.json]

`--peers` adds PyTorch (eager and compiled), JAX and Numba, which compile while they run and take minutes.

Each round starts every contestant once, in turn, in a fresh, pinned process; a figure is the median of a process's calls
after a warm-up, then the median over rounds. Every contestant takes and returns what its users hold (PyTorch tensors, JAX
arrays, blocked until ready; NumPy arrays elsewhere), so that no conversion is timed. The floor is FLOPs over this
machine's FMA rate or bytes over its copy bandwidth, whichever is longer; what lies in a cache can be read faster than that.
`pip install -r benchmarks/requirements.txt` installs the peers; one that is missing is left out, and said so.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import contestants
import operations
from operations import CELLS, Cell


def contestant(name: str, folder: str) -> Callable[[Cell, tuple], Callable[[], Any]]:
    """(cell, NumPy arguments) -> a call without arguments that computes the cell once."""
    import numpy as np
    if name == "onnxruntime":
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1

        def session(cell: Cell, args: tuple) -> Callable[[], Any]:
            model = operations.onnx_bytes(cell.operation, tuple(a.ndim for a in args))
            made = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            feeds = {f"a{i}": a for i, a in enumerate(args)}
            return lambda: made.run(None, feeds)[0]
        return session
    if name.startswith("torch"):
        import torch
        torch.set_num_threads(1)
        functions = operations.torch_functions()
        if name == "torch.compile":
            functions = {key: torch.compile(f) for key, f in functions.items()}

        def eager(cell: Cell, args: tuple) -> Callable[[], Any]:
            tensors, function = [torch.from_numpy(a) for a in args], functions[cell.operation]

            def call() -> Any:
                with torch.inference_mode():
                    return function(*tensors)
            return call
        return eager
    if name == "jax":
        import jax
        import jax.numpy as jnp
        functions = {key: jax.jit(f) for key, f in operations.over(jnp).items()}

        def traced(cell: Cell, args: tuple) -> Callable[[], Any]:
            inside, function = [jnp.asarray(a) for a in args], functions[cell.operation]
            return lambda: function(*inside).block_until_ready()
        return traced
    if name == "numba":
        functions = operations.numba_functions()
    elif name == "numpy":
        functions = operations.over(np)
    else:
        import prebaked_operations
        functions = prebaked_operations.FUNCTIONS
        if name == "prebuilt":
            import prebake
            prebake.load_bundle(str(Path(folder, "bundle")))

    def plain(cell: Cell, args: tuple) -> Callable[[], Any]:
        function = functions[cell.operation]
        return (lambda: function(args[0])) if len(args) == 1 else (lambda: function(*args))
    return plain


def worker(name: str, folder: str, _requests: int, _started: float) -> None:
    """Measure every cell as one contestant and print seconds, largest errors and engines as JSON."""
    import numpy as np
    make = contestant(name, folder)
    seconds, errors = {}, {}
    reference = operations.over(np)
    for cell in CELLS:
        args = operations.arrays(cell, np.random.default_rng(3))
        call = make(cell, args)
        exact = reference[cell.operation](*[a.astype(np.float64) for a in args])
        errors[cell.name] = float(np.max(np.abs(np.asarray(call()) - exact) / (1e-6 + 1e-5 * np.abs(exact))))
        for _ in range(5):
            call()
        times: list[float] = []
        end = perf_counter() + 0.3
        while len(times) < 20 or (len(times) < 20_000 and perf_counter() < end):
            begin = perf_counter()
            call()
            times.append(perf_counter() - begin)
        seconds[cell.name] = median(times)
    stats: dict[str, int] = {}
    if name in contestants.OURS:
        import prebaked_operations
        for function in prebaked_operations.FUNCTIONS.values():
            for key in ("calls", "prebuilt", "jit", "interpreter"):
                stats[key] = stats.get(key, 0) + function.stats()[key]
    print(json.dumps({"seconds": seconds, "errors": errors, "stats": stats}))


def prepare(folder: Path) -> None:
    """A bundle planned from the cells' own shapes."""
    import numpy as np
    import prebaked_operations

    import prebake
    with prebake.profile(str(folder / "profile.json")):
        for cell in CELLS:
            for _ in range(20):
                prebaked_operations.FUNCTIONS[cell.operation](*operations.arrays(cell, np.random.default_rng(3)))
    prebake.plan(str(folder / "profile.json"), str(folder / "buckets.yaml"), measure=False)
    prebake.build(str(folder / "buckets.yaml"), str(folder / "bundle"))


def floors(ceiling: dict[str, float]) -> dict[str, float]:
    """Seconds that each cell takes at least: FLOPs over the FMA rate, or bytes over the copy bandwidth."""
    return {cell.name: cell.elements * max(cell.flops / ceiling["fma_flops"], cell.moved / ceiling["copy_bytes"])
            for cell in CELLS}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """{'ceilings', 'floor_s', 'figures': {contestant: {'seconds', 'errors', 'stats'}}}; medians over rounds."""
    import ceilings
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        ceiling = ceilings.measure()
        found = contestants.spawn_rounds(__file__, folder, options)
    figures = {each: {"seconds": {cell.name: median(row["seconds"][cell.name] for row in rows) for cell in CELLS},
                      "errors": rows[0]["errors"], "stats": rows[-1]["stats"]} for each, rows in found.items()}
    return {"ceilings": ceiling, "floor_s": floors(ceiling), "figures": figures}


def show(result: dict[str, Any]) -> None:
    """Print microseconds for each cell, and our share of the best peer's time."""
    figures = result["figures"]
    contestants.print_ceilings(result["ceilings"])
    print("microseconds; last columns: share of the best peer's time")
    print(f"{'':22}" + "".join(f"{name:>14}" for name in figures) + f"{'floor':>9}"
          + "".join(f"{name:>10}" for name in figures if name in contestants.OURS))
    for cell in CELLS:
        best = min(row["seconds"][cell.name] for name, row in figures.items() if name in contestants.PEERS)
        print(f"{cell.name:22}" + "".join(f"{row['seconds'][cell.name] * 1e6:14.2f}" for row in figures.values())
              + f"{result['floor_s'][cell.name] * 1e6:9.2f}"
              + "".join(f"{row['seconds'][cell.name] / best:10.2f}" for name, row in figures.items() if name in contestants.OURS))
    for name, row in figures.items():
        print(f"{name}: largest error {max(row['errors'].values()):.2f} of the tolerance"
              + (f", {row['stats']}" if row["stats"] else ""))


if __name__ == "__main__":
    contestants.command(__doc__, 0, worker, run, show)
