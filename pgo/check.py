"""`check`: is a bundle whole, is it of today's source, does it still fit the traffic. It finds, it does not raise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..vm.errors import PlanError, PrebakeError
from .profile import FunctionProfile, Profile, constant_symbols, merge_paths, shape_text

DEFAULT_MAX_MISS = 0.01
MISSING_CURE = ("run it in the project's folder, or in an environment where the project is installed, or with PYTHONPATH naming "
                "the folder of its modules")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. kind: 'integrity', 'fit' (this machine), 'freshness' or 'drift'."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass
class Report:
    """What `check` found; true when there is nothing. miss_rate: of the profile's calls, None without a profile."""

    bundle: str
    findings: list[Finding] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    kernels: int = 0
    packs: int | None = None  # arrays, of a folder of packs
    miss_rate: float | None = None
    misses: list[tuple[str, int]] = field(default_factory=list)  # (function and shape, calls), the commonest first

    def __bool__(self) -> bool:
        return not self.findings

    def add(self, kind: str, text: str) -> None:
        """Note a finding."""
        self.findings.append(Finding(kind, text))

    def __str__(self) -> str:
        what = f"{self.kernels} kernels of {len(self.functions)} functions"
        lines = [f"{self.bundle}: {what if self.packs is None else f'packs of {self.packs} arrays'}"]
        if self.miss_rate is not None:
            lines.append(f"  {100 * self.miss_rate:.2f}% of the profile's calls miss the bundle")
            lines += [f"    {calls:>10,}  {text}" for text, calls in self.misses[:10]]
        lines += [f"  {finding}" for finding in self.findings] or ["  fine"]
        return "\n".join(lines)


def parse_share(value: float | str) -> float:
    """0.01 for 0.01, "0.01" and "1%". Raises PlanError outside 0..1."""
    text = str(value).strip()
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise PlanError(f"'{value}' is no share: write 1% or 0.01")
    return share


def check_bundle(bundle: object, profile: object = None, max_miss: float | str | None = None) -> Report:
    """Everything that is wrong with a bundle folder (or a loaded Bundle); see `Report`."""
    limit = DEFAULT_MAX_MISS if max_miss is None else parse_share(max_miss)
    folder = Path(getattr(bundle, "path", bundle))  # type: ignore[arg-type]
    report = Report(str(folder))
    functions = _records(folder, report)
    if functions is None:
        return report
    report.functions = sorted(functions)
    report.kernels = sum(len(plan["kernels"]) for f in functions.values() for plan in f["plans"])
    for name in report.functions:
        _check_sources(folder, name, functions[name], report)
    if profile is not None:
        _check_drift(functions, profile, limit, report)
    return report


def _records(folder: Path, report: Report) -> Mapping[str, Any] | None:
    """Qualified name -> record of the manifest, or None when the bundle is refused (the finding says why)."""
    from ..vm.run.bundle import Bundle
    from ..vm.run.packs import MANIFEST as PACKS

    if (folder / PACKS).is_file():
        _check_packs(folder, report)
        return None
    if not folder.is_dir():
        report.add("integrity", f"there is no bundle: {folder} is no folder; fix: prebake build BUCKETS.yaml -o {folder}")
        return None
    found = Bundle(os.fspath(folder))
    if found.error is None:
        for line in found.damaged_targets():
            report.add("integrity", line)
        return found.records
    error = found.error
    kind = "fit" if error.reason == "CPU_LEVEL" else "integrity"
    report.add(kind, f"{error.field}: built for {error.built}, here {error.here}; fix: {error.fix}")
    return None


def _check_packs(folder: Path, report: Report) -> None:
    """Every byte of a folder of packs, all CPU levels."""
    from ..vm.run.packs import Packs

    found = Packs(os.fspath(folder))
    error = found.error
    if error is None or error.reason == "CPU_LEVEL":
        for line in found.damages():
            report.add("integrity", line)
    if error is not None:
        kind = "fit" if error.reason == "CPU_LEVEL" else "integrity"
        report.add(kind, f"{error.field}: built for {error.built}, here {error.here}; fix: {error.fix}")
    report.packs = len(found)


def _check_sources(folder: Path, name: str, function: Mapping[str, Any], report: Report) -> None:
    from .freshness import load_program, source_state

    try:
        program = load_program((folder / function["msbc"]).read_bytes(), function["program_digest"], name)
    except (PrebakeError, OSError) as error:
        report.add("integrity", str(error).replace("\n", "; "))
        return
    state = source_state(program, _source_roots(folder))
    for line in state.stale:
        report.add("freshness", f"{line}: record the profile, plan and build again")
    for line in state.missing:
        report.add("freshness", f"{line}: {MISSING_CURE}")


def _source_roots(folder: Path) -> list[Path]:
    """Where the sources of a bundle are: beside its package, or in the project that it was built in."""
    from ..vm.run.bundle import FOLDER
    from .freshness import project_roots

    place = folder.resolve()
    own = [place.parents[2]] if place.parent.name == FOLDER and len(place.parents) > 2 else []
    return [*own, place.parent, *project_roots(place.parent.parent), *project_roots(os.getcwd())]


def _check_drift(functions: Mapping[str, Any], profile: object, limit: float, report: Report) -> None:
    try:
        seen = profile if isinstance(profile, Profile) else merge_paths(
            [profile] if isinstance(profile, (str, os.PathLike)) else profile)  # type: ignore[arg-type]
    except PlanError as error:
        report.add("drift", str(error))
        return
    total = missed = 0
    for name, recorded in sorted(seen.functions.items()):
        total += recorded.calls
        built = functions.get(name)
        if built is None:
            missed += recorded.calls
            report.misses.append((f"{name} is not in the bundle", recorded.calls))
        elif built["program_digest"] != recorded.digest:
            missed += recorded.calls
            report.add("freshness", f"the profile is of another program of '{name}': digest {recorded.digest[:16]}, "
                                    f"the bundle has {built['program_digest'][:16]}")
        else:
            missed += _count_misses(name, built, recorded, report)
    report.misses.sort(key=lambda item: (-item[1], item[0]))
    report.miss_rate = missed / total if total else 0.0
    if report.miss_rate > limit:
        report.add("drift", f"{100 * report.miss_rate:.2f}% of the profile's calls miss, allowed are {100 * limit:g}%: "
                            "plan and build with this profile")


def _count_misses(name: str, built: Mapping[str, Any], recorded: FunctionProfile, report: Report) -> int:
    missed = recorded.unplanned
    if missed:
        report.misses.append((f"{name}: calls without a plan", missed))
    for signature in recorded.signatures.values():
        rows = signature.signature.to_json()
        plans = [plan for plan in built["plans"] if plan["rows"] == rows]
        if not plans:
            missed += signature.calls
            report.misses.append((f"{name} ({signature.text()}): no kernel of this signature", signature.calls))
            continue
        buckets = [kernel["bucket"] for plan in plans for kernel in plan["kernels"]]
        held = {s for s, n in constant_symbols(signature).items() if any(_holds(bucket, {s: n}) for bucket in buckets)}
        for extents, counts in signature.shapes.items():
            values = dict(zip(signature.symbols, extents, strict=True))
            if not any(_holds(bucket, values) for bucket in buckets):
                missed += counts.calls
                report.misses.append((f"{name} {shape_text(signature, extents, held)}", counts.calls))
        if signature.other:  # their shapes are not known, so nothing can be claimed about them
            missed += signature.other
            report.misses.append((f"{name}: rare shapes that the recorder did not keep", signature.other))
    return missed


def _holds(bucket: Mapping[str, Any], values: Mapping[str, int]) -> bool:
    for symbol, span in bucket.items():
        lo, hi = span if isinstance(span, (list, tuple)) else (span, span)
        if symbol in values and not lo <= values[symbol] <= hi:
            return False
    return True
