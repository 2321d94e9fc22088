"""Compare the engines on many random programs: `python tests/fuzz.py --count 20000 --seed 1`.

Prints each failure with its seed and source, then the counts. One seed again: `--seed S --count 1 --show`.
`--engines interpreter,jit,prebuilt` builds bundles of the programs too (fuzz_prebuilt.py): 1,000 programs on all three
take some minutes. `--table` runs every operation on every kind of operand instead (generator_table.py).
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from generator_table import table_programs
from generators import Program, generate
from oracles import Report, check_engines, memory_limit


def fuzz(seed: int, count: int, engines: tuple[str, ...] = ("interpreter", "jit"), variants: int = 3,
         show: bool = False, limit: int = 20) -> Report:
    """Check `count` programs from `seed` on, each with several argument lists; stops after `limit` failing programs."""
    import prebake

    assert prebake.jit  # an installation that is not whole shows here, once
    report, failing = Report(), 0

    def failed(program: Program, failures: list[str]) -> bool:
        """Show a program; whether that is enough."""
        nonlocal failing
        print(f"--- seed {program.seed}, extents {program.arguments.dims}\n{program.source}")
        for name, recipe in program.arguments.recipes.items():
            print(f"  {name}: {recipe}")
        print("\n".join(f"  {line}" for line in failures[:6]) or "  fine", flush=True)
        failing += bool(failures)
        if failing >= limit:
            print(f"stopped after {failing} failing programs")
        return failing >= limit

    if "prebuilt" in engines:
        from fuzz_prebuilt import fuzz_prebuilt

        fuzz_prebuilt(seed, count, [e for e in engines if e != "prebuilt"], variants, report, failed)
        return report
    for one in range(seed, seed + count):
        program = generate(one)
        arguments = [program.build(variant) for variant in range(variants)]
        try:
            failures = check_engines(program.source, arguments, engines, program.grade, report)
        except Exception:
            failures = [f"the check itself failed:\n{traceback.format_exc()}"]
            report.failures += failures
        if (failures or show) and failed(program, failures):
            break
    return report


def fuzz_table(engines: tuple[str, ...] = ("interpreter", "jit"), first: int = 0, step: int = 1) -> Report:
    """Check every `step`-th program of one operation, from number `first` on."""
    report = Report()
    for number, (source, grade, arguments) in enumerate(table_programs()):
        if number % step == first:
            failures = check_engines(source, arguments, engines, grade, report)
            if failures:
                print(f"--- operation {number}\n{source}" + "\n".join(f"  {line}" for line in failures[:6]), flush=True)
    return report


def main(argv: list[str] | None = None) -> int:
    """The command; 1 when an engine differs from the reference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", type=int, default=3, help="argument lists a program is called with")
    parser.add_argument("--engines", default="interpreter,jit")
    parser.add_argument("--limit", type=int, default=20, help="failing programs after which to stop")
    parser.add_argument("--show", action="store_true", help="print every program")
    parser.add_argument("--table", action="store_true", help="programs of one operation, all of them")
    options = parser.parse_args(argv)
    start = time.perf_counter()
    engines = tuple(options.engines.split(","))
    with memory_limit(1 << 30):
        if options.table:
            report = fuzz_table(engines)
        else:
            report = fuzz(options.seed, options.count, engines, options.variants, options.show, options.limit)
    print(f"seed         {options.seed}\n{report.text()}\nseconds      {time.perf_counter() - start:.1f}")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
