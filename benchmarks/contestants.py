"""What the workloads share: their command line, contestants in fresh, pinned, single-threaded processes, medians, tables."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

PEERS = ("numpy", "onnxruntime", "torch", "torch.compile", "jax", "numba")
OURS = ("prebuilt", "jit")
QUICK = ("numpy", "onnxruntime", *OURS)
COMPILING_PEERS = tuple(name for name in PEERS if name not in QUICK)

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
              # fresh large results otherwise refault memory in each call, for every contestant
              "MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "1073741824"}


def spawn(script: str, contestant: str, folder: Path, args: argparse.Namespace) -> dict | None:
    """Figures that `script --worker contestant` prints as JSON; None (said on stderr) when the contestant is missing.

    args: requests, and core to pin to. The worker's last argument is CLOCK_MONOTONIC, in seconds, at its start.
    """
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    environment.update(ONE_THREAD)
    command = [sys.executable, script, "--requests", str(args.requests), "--worker", contestant, str(folder)]
    if hasattr(os, "sched_setaffinity"):
        command = ["taskset", "-c", str(args.core), *command]
    run = subprocess.run([*command, repr(time.clock_gettime(time.CLOCK_MONOTONIC))], env=environment, text=True,
                         capture_output=True)
    if run.returncode:
        print(f"{contestant}: left out ({run.stderr.strip().splitlines()[-1] if run.stderr else run.returncode})",
              file=sys.stderr)
        return None
    return json.loads(run.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def spawn_rounds(script: str, folder: Path, args: argparse.Namespace) -> dict[str, list[dict]]:
    """Figures of `args.rounds` processes of each contestant, in turn, so that a drift of the machine meets all of them."""
    found: dict[str, list[dict]] = {name: [] for name in (*QUICK, *(COMPILING_PEERS if args.peers else ()))}
    for _ in range(args.rounds):
        for name, rows in found.items():
            row = spawn(script, name, folder, args)
            if row is not None:
                rows.append(row)
    return {name: rows for name, rows in found.items() if rows}


def onnx_answer(path: Path, inputs: Sequence[str]) -> Callable[..., Any]:
    """The first output of an ONNX file in ONNX Runtime, one thread; arguments in the order of `inputs`."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda *args: session.run(None, dict(zip(inputs, args, strict=True)))[0]


def medians(rows: Sequence[Mapping[str, Any]], scalars: Iterable[str], table: str) -> dict[str, Any]:
    """Medians over processes of the named figures and of each cell of `table`; of the statistics, the last one's counts."""
    out: dict[str, Any] = {key: median(row[key] for row in rows) for key in scalars}
    out[table] = {cell: median(row[table][cell] for row in rows) for cell in rows[0][table]}
    out["stats"] = {k: v for k, v in rows[-1]["stats"].items() if k in ("calls", "prebuilt", "jit", "interpreter")}
    return out


def print_ceilings(ceiling: Mapping[str, float]) -> None:
    """What this machine can do at most."""
    print(f"ceilings: {ceiling['fma_flops'] / 1e9:.0f} GFLOP/s float32 FMA, {ceiling['copy_bytes'] / 1e9:.1f} GB/s copy")


def print_shares(figures: Mapping[str, Mapping[str, Any]], table: str, floor: Mapping[str, float], scale: float) -> None:
    """A line for each cell of `table`: seconds times `scale`, the share of ONNX Runtime's time, and the floor."""
    print(f"{'':>8}" + "".join(f"{name:>18}" for name in figures) + f"{'floor':>10}")
    peer = figures.get("onnxruntime")
    for cell in floor:
        texts = [f"{row[table][cell] * scale:.2f}" + (f" ({row[table][cell] / peer[table][cell]:.2f})" if peer else "")
                 for row in figures.values()]
        print(f"{cell:>8}" + "".join(f"{text:>18}" for text in texts) + f"{floor[cell] * scale:10.2f}")


def command(about: str, requests: int, worker: Callable[[str, str, int, float], None],
            run: Callable[[argparse.Namespace], dict], show: Callable[[dict], None]) -> None:
    """The command line of a workload: run every contestant in turn and print the table, or be one contestant.

    worker(name, folder, requests, started) prints its figures as JSON; started: CLOCK_MONOTONIC, in seconds, at spawn.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=requests)
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peers", action="store_true", help="PyTorch, JAX and Numba too")
    parser.add_argument("--worker", nargs=3, metavar=("NAME", "FOLDER", "STARTED"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(args.worker[0], args.worker[1], args.requests, float(args.worker[2]))
        return
    result = run(args)
    show(result)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))


def percentile(times: Sequence[float], q: float) -> float:
    """The q-th percentile, nearest rank."""
    ordered = sorted(times)
    return ordered[min(int(len(ordered) * q / 100), len(ordered) - 1)]
