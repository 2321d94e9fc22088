"""Small projects on disk: modules, buckets.yaml and what lies beside it, as `prebake plan` would leave them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from prebake.pgo.buckets_text import dump_buckets
from prebake.pgo.schema import (
    Bucket,
    BucketsFile,
    FunctionBuckets,
    RecordedSignature,
    Recordings,
    file_stem,
    programs_folder,
)
from prebake.vm.lang.frontend import compile_function
from prebake.vm.plan.planner import plan_live

MODEL = '''
import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def score(x, w, b):
    return softmax(np.maximum(x @ w + b, 0))


def branch(x):
    if x.shape[0] > 8:
        return x * 2
    return x + 1


def ways(x, y, z):
    a = x * 2 if x.shape[0] > 8 else x + 1
    b = y * 3 if y.shape[0] > 8 else y + 2
    c = z * 4 if z.shape[0] > 8 else z + 3
    return a.sum() + b.sum() + c.sum()


def running(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * 0.5
    return s


def shift(y):
    y[1:] = y[:-1] * 2


def rows(t, i):
    return t[i] * 2


def largest(x):
    return x.max(axis=0)


def pairs(x):
    return np.abs(x[:, None] - x).max()
'''


def load_module(folder: Path, name: str, text: str = MODEL) -> ModuleType:
    """A module written into a folder and loaded from there (sys.modules holds it until `forget`)."""
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run_beside(folder: Path, script: str, *args: object) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own, which finds the modules in the folder; the checkout is not where it works."""
    path = folder / "beside.py"
    path.write_text(script)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, str(path), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


def write_project(folder: Path, items: Sequence[tuple[Any, tuple[Any, ...], Mapping[str, Any], Sequence[Any]]],
                  name: str = "buckets") -> Path:
    """`NAME.yaml` for (function, arguments of a call, symbols, buckets); returns its path."""
    path = folder / f"{name}.yaml"
    side = programs_folder(path)
    side.mkdir(parents=True, exist_ok=True)
    functions = []
    for function, args, symbols, buckets in items:
        program = compile_function(function)
        plan = plan_live(program, args, lambda index: None)
        values = dict(zip([p.name for p in program.params], args, strict=True))
        sample: dict[str, int] = {}
        names: list[str] = []
        for row in plan.signature.rows:  # type: ignore[attr-defined]
            value = values[row.path]
            for d in range(row.ndim):
                names.append(f"{row.path}.shape[{d}]")
                sample[names[-1]] = value.shape[d]
                sample[f"{row.path}.strides[{d}]"] = value.strides[d]
        recorded = RecordedSignature(plan.signature, tuple(names), ((tuple(sample[n] for n in names), 1),),  # type: ignore[arg-type]
                                     sample)
        stem = file_stem(program.name)
        (side / f"{stem}.msbc").write_bytes(program.to_bytes())
        (side / f"{stem}.signatures.json").write_bytes(
            Recordings(program.name, program.digest, (recorded,)).to_bytes())
        functions.append(FunctionBuckets(program.name, {k: (v,) if isinstance(v, str) else tuple(v)
                                                        for k, v in symbols.items()}, {},
                                         tuple(b if isinstance(b, Bucket) else Bucket(b) for b in buckets)))
    path.write_text(dump_buckets(BucketsFile(path, tuple(functions)), {}))
    return path


def plain_name(file: str) -> str:
    """The name of a bundle's file without the digest that a shared object has in it."""
    return re.sub(r"\.[0-9a-f]{12}(?=\.abi3\.so$)", "", file)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """float32 values."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
