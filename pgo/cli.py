"""The commands: `prebake profile | plan | build | check | pack | dis | explain | demo | doctor | cache`.

Exit codes: 0 fine, 1 a finding (a stale bundle, drift, a refused profile), 2 usage.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
import warnings
from collections.abc import Sequence

from ..vm.errors import PrebakeError

FINE, FINDING, USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Errors of prebake's own are printed without a traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command, rest = _split_command(arguments)
    parser = make_parser()
    try:
        given = parser.parse_args(command)
    except SystemExit as stop:  # argparse's own: 2 for usage, 0 for --help
        return int(stop.code or 0)
    given.command_line = rest
    try:
        return given.run(given)
    except PrebakeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return FINDING
    except BrokenPipeError:  # `prebake profile show | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except OSError as error:
        print(f"prebake: {error}", file=sys.stderr)
        return FINDING


def _split_command(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and what stands behind `--` (the command that is profiled)."""
    if "--" in arguments:
        at = arguments.index("--")
        return arguments[:at], arguments[at + 1:]
    return arguments, []


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; each sets `run`."""
    parser = argparse.ArgumentParser(prog="prebake", description="Prebuilt kernels for the shapes that really occur.")
    from ..vm.version import VERSION

    parser.add_argument("--version", action="version", version=f"prebake {VERSION}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_profile(commands)
    _add_plan(commands)
    _add_build(commands)
    _add_check(commands)
    _add_pack(commands)
    _add_tools(commands)
    return parser


def _add_profile(commands: argparse._SubParsersAction) -> None:
    profile = commands.add_parser(
        "profile", help="record a command's shapes; show, merge, diff, overlap profiles",
        description="Record: prebake profile -o profile.json -- python warmup.py",
        epilog="prebake profile show|merge|diff|overlap --help")
    profile.add_argument("-o", "--output", help="profile file to write")
    profile.set_defaults(run=run_record)
    actions = profile.add_subparsers(metavar="ACTION")
    show = actions.add_parser("show", help="functions, signatures, commonest shapes")
    show.add_argument("profile", nargs="+")
    show.add_argument("--top", type=_positive, default=10, help="shapes shown of each signature (10)")
    show.set_defaults(run=run_show)
    merge = actions.add_parser("merge", help="add profiles up (files, folders, fsspec URLs)")
    merge.add_argument("profile", nargs="+")
    merge.add_argument("-o", "--output", dest="merged", required=True)
    merge.add_argument("--weights", type=_weights, help="whole numbers, one a profile: 3,1")
    merge.set_defaults(run=run_merge)
    diff = actions.add_parser("diff", help="what changed between two profiles; exit code 1 when something did")
    diff.add_argument("first")
    diff.add_argument("second")
    diff.add_argument("--top", type=_positive, default=10, help="shapes shown of each function (10)")
    diff.set_defaults(run=run_diff)
    overlap = actions.add_parser("overlap", help="how alike two profiles are, 0 to 100%%")
    overlap.add_argument("first")
    overlap.add_argument("second")
    overlap.add_argument("--min", type=_share, dest="least", help="exit code 1 below this: 90%%")
    overlap.set_defaults(run=run_overlap)


def _add_plan(commands: argparse._SubParsersAction) -> None:
    plan = commands.add_parser("plan", help="choose buckets for a profile and write buckets.yaml")
    plan.add_argument("profile", nargs="+")
    plan.add_argument("-o", "--output", required=True, help="buckets.yaml to write; its hand edits are kept")
    plan.add_argument("--max-kernels", type=_positive, help="kernels at most (four a function, at least 32)")
    plan.add_argument("--max-bytes", type=_positive, help="bytes of kernels at most, one CPU level (4 MiB)")
    plan.add_argument("--max-build-time", type=float, metavar="SECONDS", help="seconds of compiling at most (120)")
    plan.add_argument("--min-gain", type=_share, help="a kernel must save this much of its calls' time (5%%)")
    plan.add_argument("--report", metavar="HTML", help="also write histograms and buckets as one HTML file")
    plan.add_argument("--no-measure", action="store_true", help="decide by the cost model; build and time nothing")
    plan.add_argument("--allow-stale", action="store_true", help="plan although the source has changed")
    plan.set_defaults(run=run_plan)


def _add_build(commands: argparse._SubParsersAction) -> None:
    build = commands.add_parser("build", help="compile the bundle of a buckets.yaml")
    build.add_argument("buckets")
    build.add_argument("-o", "--output", required=True, help="folder of the bundle")
    build.add_argument("--targets", type=_names, help="CPU levels: v2,v3,v4 (or x86-64-v3, ...), or generic")
    build.add_argument("--allow-stale", action="store_true", help="build although the source has changed")
    build.add_argument("-j", "--jobs", type=_positive, help="compilers at the same time")
    build.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    build.set_defaults(run=run_build)


def _add_check(commands: argparse._SubParsersAction) -> None:
    check = commands.add_parser("check", help="integrity, freshness and drift of a bundle; exit code 1 on a finding")
    check.add_argument("bundle", help="folder of a bundle, or of packs")
    check.add_argument("--profile", help="recent traffic to hold the buckets against")
    check.add_argument("--max-miss", type=_share, help="share of its calls that may miss (1%%)")
    check.set_defaults(run=run_check)


def _add_pack(commands: argparse._SubParsersAction) -> None:
    pack = commands.add_parser(
        "pack", help="write a model's constant operands in the kernels' layout, shared by all processes",
        description="Run it where the weights are; serve with prebake.freeze(model, packs=FOLDER).")
    pack.add_argument("what", metavar="MODULE:OBJECT",
                      help="a model object, dictionary, list or array; OBJECT() for a function that makes one; or a "
                           "decorated function, whose captured arrays are meant")
    pack.add_argument("-o", "--output", required=True, help="folder of the packs")
    pack.add_argument("--targets", type=_names, help="CPU levels (this host's): v2,v3,v4 (or x86-64-v3, ...), or generic")
    pack.add_argument("--bundle", action="append", default=[],
                      help="pack what this bundle's kernels read (else: every matrix as the right operand of a product)")
    pack.add_argument("--transposed", action="store_true", help="without a bundle: pack for x @ w.T as well")
    pack.set_defaults(run=run_pack)


def _add_tools(commands: argparse._SubParsersAction) -> None:
    dis = commands.add_parser("dis", help="bytecode as text")
    dis.add_argument("what", help="FILE.msbc, FILE.py:FUNCTION or MODULE:FUNCTION")
    dis.set_defaults(run=run_dis)
    explain = commands.add_parser("explain", help="which kernel would serve a call, and why")
    explain.add_argument("function", help="MODULE:FUNCTION or FILE.py:FUNCTION")
    explain.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE",
                         help="x=float32[32,784] for an array, n=3 for a scalar, self=MODULE:NAME for an object that a module "
                              "holds; once for each argument")
    explain.add_argument("--bundle", help="folder of a bundle to load first, such as build/bundle "
                                          "(else: __prebake__ beside the function's package)")
    explain.set_defaults(run=run_explain)
    demo = commands.add_parser("demo", help="profile, plan, build and race a digit classifier, on this machine")
    demo.add_argument("-o", "--output", default=".", help="folder for prebake-demo.html (here)")
    demo.set_defaults(run=run_demo)
    doctor = commands.add_parser("doctor", help="what this machine has of what prebake can use")
    doctor.set_defaults(run=run_doctor)
    cache = commands.add_parser("cache", help="the cache of build objects and tier-up kernels")
    cache.add_argument("action", choices=("ls", "prune", "clear"))
    cache.set_defaults(run=run_cache)


# --- argument types -------------------------------------------------------------------------------------------------

def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def _share(text: str) -> float:
    from .check import parse_share

    try:
        return parse_share(text)
    except PrebakeError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _weights(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


# --- profile --------------------------------------------------------------------------------------------------------

def run_record(given: argparse.Namespace) -> int:
    """Run a command with PREBAKE_PROFILE set; its exit code is ours when it fails."""
    if not given.output or not given.command_line:
        print("usage: prebake profile -o PROFILE -- COMMAND ...   (or show, merge, diff, overlap)", file=sys.stderr)
        return USAGE
    environment = {**os.environ, "PREBAKE_PROFILE": os.path.abspath(given.output)}
    if shutil.which(given.command_line[0]) is None:
        print(f"prebake: there is no command '{given.command_line[0]}'", file=sys.stderr)
        return USAGE
    code = os.spawnvpe(os.P_WAIT, given.command_line[0], given.command_line, environment)
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        print(f"prebake: the command ended with {how}", file=sys.stderr)
        return code if code > 0 else 128 - code
    if not os.path.exists(given.output):
        print(f"prebake: {given.output} was not written: no decorated function was called "
              "(calls sent to engine 'python' or 'interpreter' by name are not recorded)", file=sys.stderr)
        return FINDING
    return FINE


def run_show(given: argparse.Namespace) -> int:
    """Print a profile, or the sum of several."""
    from .profile import merge_paths, show_profile

    print(show_profile(merge_paths(given.profile), given.top))
    return FINE


def run_merge(given: argparse.Namespace) -> int:
    """Write the sum of profiles."""
    from .profile import merge_paths, write_atomically

    total = merge_paths(given.profile, given.weights)
    write_atomically(given.merged, total.to_bytes())
    return FINE


def run_diff(given: argparse.Namespace) -> int:
    """Print what differs; a difference is a finding."""
    from .profile import compare_profiles, merge_paths

    differences = compare_profiles(merge_paths([given.first]), merge_paths([given.second]))
    for item in differences:
        print(f"{item.qualname}  calls {item.calls[0]:,} -> {item.calls[1]:,}, overlap {100 * item.overlap:.1f}%"
              + (f"  ({item.note})" if item.note else ""))
        for shape, before, after in item.changed[:given.top]:
            print(f"    {100 * before:6.2f}% -> {100 * after:6.2f}%  {shape}")
    return FINDING if any(d.note or d.changed or d.calls[0] != d.calls[1] for d in differences) else FINE


def run_overlap(given: argparse.Namespace) -> int:
    """Print the overlap; below `--min` it is a finding."""
    from .profile import compare_profiles, merge_paths, overlap_of

    differences = compare_profiles(merge_paths([given.first]), merge_paths([given.second]))
    for item in differences:
        print(f"{100 * item.overlap:6.1f}%  {item.qualname}" + (f"  ({item.note})" if item.note else ""))
    total = overlap_of(differences)
    print(f"{100 * total:6.1f}%  all calls")
    return FINDING if given.least is not None and total < given.least else FINE


# --- plan, build, check ---------------------------------------------------------------------------------------------

def run_plan(given: argparse.Namespace) -> int:
    """Write buckets.yaml, print the predictions."""
    from dataclasses import replace

    from .buckets import Limits
    from .measure import measure_candidates
    from .planning import plan

    wanted = {"max_kernels": given.max_kernels, "max_bytes": given.max_bytes, "max_build_s": given.max_build_time,
              "min_gain": given.min_gain}
    limits = replace(Limits(), **{name: value for name, value in wanted.items() if value is not None})
    made = plan(given.profile, given.output, limits=limits, allow_stale=given.allow_stale,
                measure=None if given.no_measure else measure_candidates)
    print(made.summary())
    print(f"wrote {given.output}")
    if given.report:
        from .report import render_report

        with open(given.report, "w", encoding="utf-8") as file:
            file.write(render_report(made))
        print(f"wrote {given.report}")
    return FINE


def run_build(given: argparse.Namespace) -> int:
    """Build the bundle."""
    from .api import build

    options = {"targets": given.targets, "jobs": given.jobs, "allow_stale": given.allow_stale or None,
               "progress": not given.quiet}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        build(given.buckets, given.output, **{name: value for name, value in options.items() if value is not None})
    for warning in found:
        print(f"prebake: {warning.message}", file=sys.stderr)
    print(f"wrote {given.output}")
    return FINE


def run_check(given: argparse.Namespace) -> int:
    """Print the report; exit code 1 on a finding."""
    from .check import check_bundle

    report = check_bundle(given.bundle, given.profile, given.max_miss)
    print(report)
    return FINE if report else FINDING


def run_pack(given: argparse.Namespace) -> int:
    """Write packs."""
    from .pack import pack

    print(pack(given.what, given.output, targets=given.targets, bundles=given.bundle, transposed=given.transposed))
    return FINE


# --- looking at things ----------------------------------------------------------------------------------------------

def run_dis(given: argparse.Namespace) -> int:
    """Print a program."""
    from .inspecting import disassemble

    print(disassemble(given.what))
    return FINE


def run_explain(given: argparse.Namespace) -> int:
    """Print which engine would serve a call; that it would end in an error is a finding."""
    from .inspecting import explain

    found = explain(given.function, given.arg, given.bundle)
    print(found)
    return FINDING if found.raises or found.engine == "none" else FINE


def run_demo(given: argparse.Namespace) -> int:
    """Run the demonstration and write its page."""
    from .demo import run

    return run(given.output)


def run_doctor(given: argparse.Namespace) -> int:
    """Print what is there and what is missing; something missing that prebake needs is a finding."""
    from .doctor import examine

    findings = examine()
    for finding in findings:
        print(finding)
    return FINE if all(f.ok or f.optional for f in findings) else FINDING


def run_cache(given: argparse.Namespace) -> int:
    """List the cache's entries, drop the least recently used ones past the limit, or drop all of them."""
    from ..vm.run.cache import clear_checks
    from . import object_cache

    folder = object_cache.cache_folder()
    if given.action == "prune":
        object_cache.trim(folder)
    elif given.action == "clear":
        clear_checks()
        for path in folder.glob("*") if folder.is_dir() else ():
            path.unlink(missing_ok=True)
    entries = sorted(folder.glob("*"), key=lambda p: p.name) if folder.is_dir() else []
    total = 0
    for path in entries:
        try:
            status = path.stat()
        except FileNotFoundError:  # another process is pruning
            continue
        total += status.st_size
        if given.action == "ls":
            used = time.strftime("%Y-%m-%d %H:%M", time.localtime(status.st_mtime))
            print(f"{status.st_size:>12,}  {used}  {path.name}")
    print(f"{folder}: {len(entries)} entries, {total:,} bytes of at most {object_cache.LIMIT_BYTES:,}")
    return FINE


if __name__ == "__main__":
    sys.exit(main())
