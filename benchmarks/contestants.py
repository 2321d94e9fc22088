"""What the workloads share: contestants in fresh, pinned, single-threaded processes, and percentiles."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

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


def percentile(times: Sequence[float], q: float) -> float:
    """The q-th percentile, nearest rank."""
    ordered = sorted(times)
    return ordered[min(int(len(ordered) * q / 100), len(ordered) - 1)]
