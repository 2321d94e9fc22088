"""Random programs in bundles: profiled, planned and built many at a time, then every call compared with NumPy.

A batch of programs becomes one bundle, as a model server's functions would: each program is a module of its own, the
warm-up calls it with some of the argument lists, and all argument lists are checked against the kernels.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from generators import Program, generate
from oracles import Report, check_engines, run

BATCH = 200


def fuzz_prebuilt(seed: int, count: int, engines: Sequence[str], variants: int, report: Report,
                  failed: Callable[[Program, list[str]], bool], batch: int = BATCH) -> None:
    """Check `count` programs from `seed` on, on other engines and on kernels of bundles; the report counts.

    failed(program, failures) is told of each program that differs; True ends the run.
    """
    for first in range(seed, seed + count, batch):
        programs = [generate(one) for one in range(first, min(first + batch, seed + count))]
        with tempfile.TemporaryDirectory(prefix="fuzz-") as name, _modules_of(Path(name)):
            folder = Path(name)
            arguments = {p.seed: [p.build(variant) for variant in range(variants)] for p in programs}
            for program in programs:
                (folder / f"fuzzed_{program.seed}.py").write_text(program.source)
            try:
                _build(folder, programs, arguments)
            except Exception:
                text = f"no bundle of seeds {first} to {first + len(programs) - 1}:\n{traceback.format_exc()}"
                report.failures.append(text)
                print(text, flush=True)
            for program in programs:
                module = load_module(folder, program.seed)
                found = check_engines(program.source, arguments[program.seed], engines, program.grade, report,
                                      {"prebuilt": module.f})
                if found and failed(program, found):
                    return


def load_module(folder: Path, seed: int) -> ModuleType:
    """A program's module, executed anew."""
    name = f"fuzzed_{seed}"
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def _modules_of(folder: Path) -> Iterator[None]:
    """While it lasts modules come from the folder too; afterwards the programs are forgotten."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.startswith("fuzzed_")]:
            del sys.modules[name]


def _build(folder: Path, programs: Sequence[Program], arguments: dict[int, list[list[Any]]]) -> None:
    """Warm up with all but the last argument list, plan without measuring, build for this machine, load."""
    import prebake
    from prebake.pgo.buckets import Limits
    from prebake.pgo.planning import plan
    from prebake.vm.run.bundle import usable_levels

    profile, buckets, bundle = str(folder / "profile.json"), str(folder / "buckets.yaml"), str(folder / "bundle")
    with prebake.profile(profile):
        for program in programs:
            function = prebake.jit(load_module(folder, program.seed).f)
            for args in arguments[program.seed][:-1] or arguments[program.seed]:
                run(function, args)
    plan(profile, buckets, limits=Limits(max_kernels=100_000, max_bytes=1 << 40, max_build_s=1e9, min_share=0.0))
    prebake.build(buckets, bundle, targets=usable_levels()[:1])
    loaded = prebake.load_bundle(bundle)
    if not loaded.accepted:
        raise RuntimeError(f"the bundle was refused: {loaded.reason}")
