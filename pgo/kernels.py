"""Buckets -> kernels: one plan for each set of facts that a bucket's extents need, one kernel for each plan and bucket.

A plan rests on facts about extents. Where one plan does not hold over a whole bucket, the corners it leaves out are
planned too: the bucket then has several kernels, told apart by their guards at each call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..vm.errors import PlanError, VerifyError
from ..vm.lang.bytecode import Program
from ..vm.plan.code import Code
from ..vm.plan.lower import lower_plan
from ..vm.plan.planner import PlanRefused, plan_recorded
from ..vm.plan.reading import RecordedReader
from ..vm.plan.signature import Signature
from ..vm.plan.steps import Fact, Plan
from .codegen import Kernel, bucket_text, kernel_name
from .schema import UNBOUNDED, Bucket, BucketsFile, FunctionBuckets, RecordedSignature, Recordings

MAX_PLANS = 6  # of one bucket; past this its edges do not fit the program's branches, and the rest is left to the JIT
_FAR = 1 << 20  # stands for an unbounded extent when facts are looked at

Extents = dict[str, int]


@dataclass
class BuiltKernel:
    """One kernel: what is printed, its bucket, and extents inside it at which it is verified."""

    kernel: Kernel
    bucket: Bucket
    corners: list[Extents]


@dataclass
class BuiltPlan:
    """Kernels that share a signature and a Code."""

    signature: Signature
    code: Code
    kernels: list[BuiltKernel] = field(default_factory=list)


@dataclass
class BuiltFunction:
    """Everything that a bundle holds of one function. notes: corners that no kernel serves, and why; crowded: buckets that
    need more plans than one bucket may have."""

    buckets: FunctionBuckets
    recordings: Recordings
    program: Program
    msbc: bytes
    plans: list[BuiltPlan] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    crowded: list[str] = field(default_factory=list)

    @property
    def options(self) -> dict[str, object]:
        """Options that change code: the decorator's, as they were recorded, and those of the YAML, which win."""
        return {**self.recordings.options, **self.buckets.options}

    @property
    def precision(self) -> str:
        """Of float32 products."""
        return str(self.options.get("precision", "float32"))


def plan_kernels(config: BucketsFile, function: FunctionBuckets) -> BuiltFunction:
    """The kernels of a function's buckets. Raises PlanError for a bucket that no plan serves, ConfigError for files."""
    msbc = config.load_program(function)
    try:
        program = Program.from_bytes(msbc)
    except VerifyError as error:
        raise PlanError(f"{function.qualname}: its program beside the YAML is damaged\n  {error.faults[0]}\n"
                        f"  fix       prebake plan PROFILE -o {config.path.name}") from error
    if program.name != function.qualname:
        raise PlanError(f"{function.qualname}: the program beside the YAML is that of '{program.name}'\n"
                        f"  fix       prebake plan PROFILE -o {config.path.name}")
    recordings = config.load_recordings(function)
    if recordings.digest != program.digest:
        raise PlanError(f"{function.qualname}: the shapes beside the YAML belong to another program\n"
                        f"  found     digest {recordings.digest}\n  expected  digest {program.digest}\n"
                        f"  fix       prebake plan PROFILE -o {config.path.name}")
    built = BuiltFunction(function, recordings, program, msbc)
    by_code: dict[str, BuiltPlan] = {}
    for index, bucket in enumerate(function.buckets):
        for plan, corners in _plans_of_bucket(built, bucket, recordings.signatures[bucket.signature]):
            code = lower_plan(plan)
            signature = plan.signature
            known = by_code.setdefault(f"{signature!r}{code!r}", BuiltPlan(signature, code))
            if not known.kernels:
                built.plans.append(known)
            bounds = {s: span for s, span in function.bounds(bucket).items() if s in known.code.symbols}
            name = kernel_name(function.qualname, built.plans.index(known), index)
            known.kernels.append(BuiltKernel(Kernel(name, known.code, bounds), bucket, corners))
    return built


def _plans_of_bucket(built: BuiltFunction, bucket: Bucket,
                     recorded: RecordedSignature) -> list[tuple[Plan, list[Extents]]]:
    """(plan, the corners it serves) until every corner that can be planned has one."""
    function, program = built.buckets, built.program
    fusions = built.options.get("disable_fusions", ())
    found: list[tuple[Plan, list[Extents]]] = []
    refused: list[tuple[Extents, PlanRefused]] = []
    for extents in corners_of(function, bucket, recorded):
        sample = RecordedReader(program, recorded.signature, extents).sample
        home = next((corners for plan, corners in found if broken_fact(plan, sample) is None), None)
        if home is not None:
            home.append(extents)
            continue
        if len(found) == MAX_PLANS:
            fact = broken_fact(found[-1][0], sample)
            built.crowded.append(f"{function.qualname}, bucket {bucket.text()} (line {bucket.line}): {MAX_PLANS} plans do not "
                                 f"cover it; the last one relies on '{fact.text if fact else '?'}'\n"
                                 "  effect    the JIT serves the rest\n  fix       split the bucket there, or narrow it")
            break
        try:
            plan = plan_recorded(program, recorded.signature, sample, fusions, built.precision)  # type: ignore[arg-type]
        except PlanRefused as error:
            refused.append((extents, error))
            continue
        found.append((plan, [extents]))
    if not found:
        reason = str(refused[0][1]) if refused else "it has no extents"
        raise PlanError(f"{function.qualname}, bucket {bucket.text()} (line {bucket.line}): not planned: {reason}\n"
                        "  effect    no kernel can serve it; the interpreter would\n  fix       remove the bucket")
    for extents, refusal in refused:
        shape = bucket_text({s: (n, n) for s, n in extents.items() if ".shape[" in s})
        built.notes.append(f"{function.qualname} {bucket.text()}: nothing prebuilt at {shape}: {refusal}")
    return found


def broken_fact(plan: Plan, sample: Mapping[object, int]) -> Fact | None:
    """The first fact of a plan that is false at these extents, or that they do not decide; None where all hold."""
    for fact in plan.facts:
        try:
            if bool(fact.expr.evaluate(sample)) != fact.answer:
                return fact
        except KeyError:
            return fact
    return None


def corners_of(function: FunctionBuckets, bucket: Bucket, recorded: RecordedSignature) -> list[Extents]:
    """Extents inside a bucket: a recorded shape first, then its corners and the values next to them."""
    base = function.sample(bucket, recorded)
    names = list(bucket.extents)
    spans = {name: (lo, max(lo, _FAR) if hi >= UNBOUNDED else hi) for name, (lo, hi) in bucket.extents.items()}
    choices = [
        {name: lo for name, (lo, _) in spans.items()},
        {name: hi for name, (_, hi) in spans.items()},
        {name: min(lo + 1, hi) for name, (lo, hi) in spans.items()},
        {name: (lo + hi) // 2 for name, (lo, hi) in spans.items()},
    ]
    if len(names) > 1:
        for name in names:
            choices.append({other: spans[other][1 if other == name else 0] for other in names})
            choices.append({other: spans[other][0 if other == name else 1] for other in names})
    found = [base]
    for choice in choices:
        extents = base | {symbol: value for name, value in choice.items() for symbol in function.symbols[name]
                          if symbol in base}
        if extents not in found:
            found.append(extents)
    return found
