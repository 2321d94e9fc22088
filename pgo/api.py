"""The pipeline from Python: `prebake.plan`, `prebake.build`, `prebake.check`. The commands call the same functions."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .check import Report, check_bundle
from .planning import Planned
from .planning import plan as _plan


def plan(profile: object, output: str | os.PathLike[str] | None = None, *, max_kernels: int | None = None,
         measure: bool = True) -> Planned:
    """Choose buckets for a profile (a path, several, or a Profile); with `output`, write the YAML and its folder.

    measure: build the candidates and time them, where a compiler is there; kernels without gain are not emitted.
    Raises PlanError for an empty profile, one of another program, or limits that cannot hold.
    """
    from .measure import measure_candidates

    return _plan(profile, output, max_kernels=max_kernels, measure=measure_candidates if measure else None)


def build(buckets: object, output: str | os.PathLike[str], **options: object) -> Path:
    """Build the bundle of a `buckets.yaml` (a path, or what `plan` answered) into the folder `output`; returns it.

    options: see `prebake.pgo.build.build` (targets, allow_stale, jobs, ...). Raises ConfigError, PlanError.
    """
    from .build import build as _build

    if isinstance(buckets, Planned) and buckets.path is None:
        from .freshness import project_roots

        with tempfile.TemporaryDirectory(prefix="prebake-") as folder:
            options.setdefault("roots", project_roots("."))
            _build(buckets.write(Path(folder) / "buckets.yaml"), output, **options)  # type: ignore[arg-type]
            buckets.path = None
    else:
        _build(os.fspath(buckets), output, **options)  # type: ignore[call-overload,arg-type]
    return Path(output)


def check(bundle: object, profile: object = None, max_miss: float | str | None = None) -> Report:
    """Findings about a bundle: integrity, freshness and, with a profile, drift; `bool(report)` is True when it is fine.

    max_miss: share of the profile's calls that may miss (0.01 or "1%"; the default). Raises nothing for a bad bundle:
    that is a finding.
    """
    return check_bundle(bundle, profile, max_miss)
