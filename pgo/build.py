"""The whole build: `buckets.yaml` + programs beside it -> kernels -> Cython -> one shared object a CPU level -> bundle.

No user code is imported. Compilers run in parallel and their objects are cached; each kernel is compared with the
interpreter before the bundle, written beside its place, is renamed into it. Equal inputs and tools give equal bytes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from ..templates import levels
from ..templates.render import render_file
from ..vm import flags
from ..vm.errors import ConfigError
from ..vm.lang.bytecode import SourceFunction
from ..vm.options import OPTIONS
from ..vm.plan.code_json import dispatch_spec
from ..vm.run.bundle import MANIFEST, file_digest, host_stamp, records_digest
from ..vm.run.log import log, warn
from ..vm.run.manifest import (
    BundleFunction,
    BundleKernel,
    BundlePlan,
    BundleSource,
    Manifest,
    TargetFile,
)
from . import object_cache, toolchain
from .buckets_text import read_buckets
from .codegen import PRODUCT_BODY, Module
from .freshness import digests_in, find_source, project_roots, source_state
from .kernels import BuiltFunction, plan_kernels
from .schema import FunctionBuckets, file_stem

MODULE = "kernels"  # the Cython module's name


def build(buckets: str | os.PathLike[str], output: str | os.PathLike[str], *, targets: Sequence[str] | None = None,
          allow_stale: bool = False, jobs: int | None = None, progress: bool = False, verify: bool = True,
          pure: bool = False, roots: Iterable[str | os.PathLike[str]] = (), package: str | None = None,
          quiet: bool = False) -> Path:
    """Build the bundle of a `buckets.yaml` into the folder `output` (replaced in one step) and return that folder.

    targets: CPU levels, all that the compiler knows for this machine when left out. jobs: compilers at the same time
    (default: PREBAKE_BUILD_JOBS, else the number of CPUs). pure: programs and plans, no kernels; needs no compiler.
    roots: folders in which sources are looked for first. verify: compare each kernel with the interpreter.
    package: only the functions of this top-level package or module. quiet: no warnings about sources that are not
    here and buckets that are never reached.
    Raises ConfigError (files, tools, stale sources without allow_stale), PlanError (a bucket that cannot be served),
    InternalError (generated code that does not compile or computes something else).
    """
    config = read_buckets(buckets)
    place = Path(output).absolute()
    _check_place(place)
    compiler = None if pure else toolchain.find_toolchain()
    wanted = () if pure else choose_levels(targets)
    chosen = [f for f in config.functions if package in (None, top_level(f.qualname))]
    with _progress(progress, len(chosen) + len(wanted) + 2) as step:
        functions = []
        for function in chosen:
            step(f"plan {function.qualname}")
            functions.append(plan_kernels(config, function))
        roots = [*roots, *project_roots(config.path.parent)]
        unchecked = _check_fresh(functions, roots, allow_stale)
        with scratch_beside(place) as folder:
            bundle = Path(folder) / "bundle"
            bundle.mkdir()
            manifest = _write_programs(bundle, functions, compiler, roots)
            files: dict[str, str] = {}
            if compiler is not None and any(f.plans for f in functions):
                work = Compilation(compiler, make_module(functions), records_digest(manifest.to_bytes()), Path(folder),
                                   bundle, step)
                files = work.run(wanted, _job_count(jobs))
            entries = {level: TargetFile(name, file_digest((bundle / name).read_bytes()))
                       for level, name in files.items()}
            (bundle / MANIFEST).write_bytes(replace(manifest, targets=entries).to_bytes())
            if verify and files:
                step("verify")
                from .verify import verify_bundle

                verify_bundle(bundle, functions, files, Path(folder))
            _replace(place, bundle)
    for built in functions:
        for note in built.notes:
            log(note)
    crowded = [line for built in functions for line in built.crowded]
    for line in crowded if quiet else (*crowded, *_hidden_buckets(config.path, chosen), *unchecked):
        warn(line)
    return Path(output)


def _hidden_buckets(path: Path, functions: Iterable[FunctionBuckets]) -> list[str]:
    """One line for each bucket that no call reaches."""
    return [f"{path}:{bucket.line}: bucket {bucket.text()} of {function.qualname} is never reached: that of line "
            f"{earlier.line}, {earlier.text()}, takes all of its calls; put the narrow one first, or remove it"
            for function in functions for bucket, earlier in function.unreachable()]


def top_level(qualname: str) -> str:
    """The top-level package or module of a qualified name: `models` of `models.risk:score`."""
    return qualname.partition(":")[0].partition(".")[0]


def choose_levels(targets: Sequence[str] | None) -> tuple[levels.Level, ...]:
    """The CPU levels to build for: those named ("x86-64-v3" or "v3"), or x86-64-v2, v3 and v4 (generic elsewhere).

    Raises ConfigError for a name that this machine's compiler does not make.
    """
    known = levels.built_levels()
    if targets is None:
        return tuple(level for level in known if level.name != "generic") or known
    found = []
    for name in targets:
        level = next((level for level in known if name in (level.name, level.target)), None)
        if level is None:
            raise ConfigError(f"unknown CPU level '{name}'", key="targets",
                              hint=f"known here: {', '.join(level.target for level in known)}")
        found.append(level)
    return tuple(dict.fromkeys(found))


def make_module(functions: Sequence[BuiltFunction]) -> Module:
    """The C module of all kernels."""
    module = Module()
    for function in functions:
        for plan in function.plans:
            for built in plan.kernels:
                module.add(built.kernel)
    return module


def cython_source(module: Module) -> str:
    """The text of the bundle's Cython module."""
    return render_file("kernels.pyx.in", {"c_source": module.text().replace("\\", "\\\\")})


class Compilation:
    """Cython once, then the C compiler once a CPU level; the product, equal in all bundles, is an object of its own."""

    def __init__(self, compiler: toolchain.Toolchain, module: Module, records: str, folder: Path, bundle: Path,
                 step: Step) -> None:
        self.compiler, self.module, self.records = compiler, module, records
        self.folder, self.bundle, self.step = folder, bundle, step
        self.headers = [path.read_bytes() for path in sorted(toolchain.INCLUDE.glob("*.h"))]

    def run(self, wanted: Sequence[levels.Level], jobs: int) -> dict[str, str]:
        """Level -> file name of its shared object in the bundle."""
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            c_text = pool.submit(self.c_text)
            products = [pool.submit(self.product, level) for level in wanted] if self.module.has_products else []
            text = c_text.result()
            self.step("cython")
            objects = [[product.result()] for product in products] or [[] for _ in wanted]
            return dict(pool.map(lambda pair: self.library(text, *pair), zip(wanted, objects, strict=True)))

    def c_text(self) -> bytes:
        """The C text that Cython makes of the module; from the cache where the same was made before."""
        text = cython_source(self.module)
        if "cython" in flags.words("PREBAKE_DUMP"):
            print(text, file=sys.stderr)
        key = object_cache.key_of(["cython", toolchain.cython_version(), text])
        found = object_cache.read(key)
        if found is None:
            source = self.folder / f"{MODULE}.pyx"
            source.write_text(text, encoding="utf-8")
            found = toolchain.compile_cython(source).read_bytes()
            object_cache.write(key, found)
        return found

    def product(self, level: levels.Level) -> Path:
        """The object file of the matrix product."""
        output = self.folder / f"product_{level.name}.o"
        output.write_bytes(self.compiled(PRODUCT_BODY.encode(), level, [], None))
        return output

    def library(self, text: bytes, level: levels.Level, objects: Sequence[Path]) -> tuple[str, str]:
        """(level, file name) of a shared object, written into the bundle."""
        # one C text for all levels; the loader wants the module to be called as the file
        name = f"{MODULE}_{level.name}"
        options = [*self.compiler.kernel_flags, f"-DPyInit_{MODULE}=PyInit_{name}", f'-DPB_RECORDS="{self.records}"']
        data = self.compiled(text, level, options, objects)
        # its contents are in the name: a process that holds a library is given that again for a path that it knows
        output = self.bundle / f"{name}.{file_digest(data)[:12]}{toolchain.ABI3_SUFFIX}"
        output.write_bytes(data)
        self.step(f"compile {level.target}")
        return level.target, output.name

    def compiled(self, text: bytes, level: levels.Level, extra: Sequence[str], objects: Sequence[Path] | None) -> bytes:
        """What the compiler makes of a C text; from the cache where the same was compiled before."""
        compiler = self.compiler
        options = [*compiler.flags(level.flags, level.target), *extra]
        linked = ["object"] if objects is None else ["library", os.environ.get("LDFLAGS", "")]
        key = object_cache.key_of([" ".join(compiler.command), compiler.version, toolchain.machine(), *linked, *options,
                                   text, *self.headers])
        found = object_cache.read(key)
        if found is None:
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                source = Path(folder) / f"{MODULE}.c"
                source.write_bytes(text)
                compiler.compile(source, Path(folder) / "out", options, objects)
                found = (Path(folder) / "out").read_bytes()
            object_cache.write(key, found)
        return found


def _job_count(given: int | None) -> int:
    """Compilers at the same time: the argument, PREBAKE_BUILD_JOBS, the CPUs that this process may use."""
    if given is not None:
        return max(given, 1)
    text = flags.read("PREBAKE_BUILD_JOBS")
    if text:
        try:
            return max(int(text), 1)
        except ValueError:
            raise ConfigError(f"found {text!r}, expected a number of compilers", key="PREBAKE_BUILD_JOBS") from None
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_fresh(functions: Sequence[BuiltFunction], roots: Sequence[str | os.PathLike[str]],
                 allow_stale: bool) -> list[str]:
    """One line for each source that is not here, when every other says what was recorded, or may differ.

    Raises ConfigError with each that does not.
    """
    states = [source_state(function.program, roots) for function in functions]
    stale = dict.fromkeys(line for state in states for line in state.stale)
    if stale and not allow_stale:
        lines = "\n  ".join(stale)
        raise ConfigError(f"the source has changed since it was recorded\n  {lines}", key="functions",
                          hint="record and plan again; or build with --allow-stale, in pyproject.toml `allow-stale = true` "
                               "(the bundle is refused at run time)")
    return list(dict.fromkeys(line for state in states for line in state.missing))


def _write_programs(bundle: Path, functions: Sequence[BuiltFunction], compiler: toolchain.Toolchain | None,
                    roots: Sequence[str | os.PathLike[str]]) -> Manifest:
    """Write the programs. Returns the manifest, shared objects still missing."""
    records = {}
    for function in functions:
        name = file_stem(function.buckets.qualname).replace("%", "_") + ".msbc"
        (bundle / name).write_bytes(function.msbc)
        records[function.buckets.qualname] = _record(function, name, roots)
    stamp = host_stamp() | {"compiler": compiler.version if compiler is not None else ""}
    return Manifest({}, records, stamp)


def _record(function: BuiltFunction, msbc: str, roots: Sequence[str | os.PathLike[str]]) -> BundleFunction:
    program = function.program
    sources = []
    for source in program.functions:
        sources.append(BundleSource(source.module, source.qualname, source.digest, source.file,
                                    _digest_of_file(source, roots)))
    plans = tuple(
        BundlePlan(plan.signature.to_json(), dispatch_spec(plan.code), tuple(
            BundleKernel(k.kernel.name, {s: lo if lo == hi else (lo, hi) for s, (lo, hi) in k.kernel.bounds.items()},
                         k.bucket.gain.tape if k.bucket.gain else 0.0)
            for k in plan.kernels))
        for plan in function.plans)
    options = {name: value for name, value in _plain(function.recordings.options).items()
               if name in OPTIONS and OPTIONS[name].in_key}
    return BundleFunction(
        msbc, file_digest(function.msbc), program.digest,
        tuple((p.name, p.default, p.kind) for p in program.params),
        tuple((c.scope, c.module, c.name) for c in program.captures), tuple(sources), plans, options,
        dict(function.recordings.shapes),
        {short: list(symbols) if len(symbols) > 1 else symbols[0]
         for short, symbols in sorted(function.buckets.symbols.items()) if symbols},
        _plain(function.buckets.options), tuple((b.scope, b.module, b.path, b.meaning) for b in program.bindings))


def _digest_of_file(source: SourceFunction, roots: Sequence[str | os.PathLike[str]]) -> str:
    """The digest of the file that a function was recorded from, '' where it is not here or says something else now.

    An equal file counts as fresh at run time without another look, so that only one that is fresh may be written down.
    """
    path = find_source(source, roots)
    try:
        return file_digest(path.read_bytes()) if path is not None and source.digest in digests_in(path, source) else ""
    except (OSError, SyntaxError, ValueError):
        return ""


def _plain(options: Mapping[str, object]) -> dict[str, object]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in sorted(options.items())}


# --- the place ------------------------------------------------------------------------------------------------------

def _check_place(place: Path) -> None:
    """Raises ConfigError when the output folder holds something that is no bundle."""
    if place.exists() and (not place.is_dir() or (any(place.iterdir()) and not (place / MANIFEST).is_file())):
        raise ConfigError(f"{place} is there and is no bundle", key="output",
                          hint="name another folder, or remove this one")


def scratch_beside(place: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder on the disk of an output, from which it is renamed into its place. Raises ConfigError where none can be."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent)
    except OSError as error:
        raise ConfigError(f"{place} cannot be written: {error.strerror or error} at {place.parent}", key="output",
                          hint="name a folder inside one that can be written") from None


def _replace(place: Path, bundle: Path) -> None:
    """Move the finished folder into its place; the old one goes. Readers see the old or the new, never a mixture."""
    bundle.chmod(0o755)
    old = bundle.parent / "old"
    for _ in range(100):  # builds of the same bundle at the same time: the last one stays
        try:
            os.rename(bundle, place)
            return
        except OSError:
            if _exchange(bundle, place):
                return
            with contextlib.suppress(OSError):
                os.rename(place, old)
                shutil.rmtree(old, ignore_errors=True)
    raise ConfigError(f"{place} cannot be replaced", key="output")


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step, so that there is always a bundle in its place; False where the system cannot."""
    import ctypes

    at_cwd, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    return rename is not None and rename(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0


# --- progress ---------------------------------------------------------------------------------------------------------

class Step:
    """Tells the progress bar what is being done now."""

    def __init__(self, bar: object) -> None:
        self.bar = bar

    def __call__(self, text: str) -> None:
        bar = self.bar
        if bar is not None:
            bar.set_postfix_str(text, refresh=False)  # type: ignore[attr-defined]
            bar.update(1)  # type: ignore[attr-defined]


@contextlib.contextmanager
def _progress(wanted: bool, total: int) -> Iterator[Step]:
    """A bar on stderr, where it is wanted and tqdm is there."""
    if not wanted:
        yield Step(None)
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield Step(None)
        return
    with tqdm(total=total, desc="prebake build", leave=False, disable=None) as bar:  # None: only on a terminal
        yield Step(bar)
