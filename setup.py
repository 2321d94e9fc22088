"""prebake's own build: one stencil library for each CPU level, and the dispatcher; the rest is in pyproject.toml.

The C comes from templates that are rendered into the build folder, never into the source tree. Flags of a level stand
last on the compiler's command line, so that CFLAGS of the environment add to them and never replace them.
PREBAKE_BUILD_JOBS: compilers to run at the same time (default: one for each processor, at most 4).
PREBAKE_BUILD_PLANNER=1: the planner is compiled too, by mypyc, which must be installed (templates/native.py); it plans in less
than half the time. In a source tree the library then stands before the modules: edits of vm/plan show after another build.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)  # setuptools reads pyproject.toml and its relative paths from the current folder


def load_templates():
    """The `templates` package, imported from the source tree under a name of its own."""
    name = "_prebake_templates"
    spec = importlib.util.spec_from_file_location(name, ROOT / "templates" / "__init__.py",
                                                  submodule_search_locations=[str(ROOT / "templates")])
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return [importlib.import_module(f"{name}.{part}") for part in ("levels", "native", "render", "stencils")]


levels, native, render, stencils = load_templates()
# same bytes wherever the tree lies; no debug information, which names paths
PLANNER_GROUP = "_native"  # the library of the planner's modules
REPRODUCIBLE = ["-g0", f"-ffile-prefix-map={ROOT}=."]


def made_from(folder: str, pattern: str) -> list[str]:
    """Paths of the files in a folder, relative to the root."""
    return [str(p.relative_to(ROOT)) for p in sorted((ROOT / folder).glob(pattern))]


def stencil_extension(level) -> Extension:
    """The stencil library of one level; its source is made when it is built."""
    depends = made_from("templates", "*.py") + made_from("templates", "*.pyx.in")
    depends += made_from("templates/include", "*.h")
    extension = Extension(
        f"prebake.templates._stencils_{level.name}", [],
        depends=[*depends, "setup.py"], include_dirs=["templates/include"],
        extra_compile_args=[*REPRODUCIBLE, *level.flags, "-Wno-unused-function"],
        define_macros=[("Py_LIMITED_API", "0x030B0000"), ("CYTHON_LIMITED_API", "1")],
        libraries=["m"], py_limited_api=True, language="c",
    )
    extension.prebake_render = lambda: render.render_file("stencils.pyx.in", stencils.stencil_names(level.target))
    return extension


def dispatch_extension() -> Extension:
    """The dispatcher, made for one Python version (it uses vectorcall)."""
    import numpy

    depends = [p for pattern in ("*.pyx", "*.pxd", "*.pxi", "*.h") for p in made_from("vm/run", pattern)]
    extension = Extension(
        "prebake.vm.run._dispatch", [], depends=[*depends, "templates/include/pb_abi.h", "setup.py"],
        include_dirs=["vm/run", "templates/include", numpy.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=[*REPRODUCIBLE, "-O3", "-fwrapv", "-fno-strict-aliasing", "-Wno-unused-function"],
        language="c",
    )
    extension.prebake_render = lambda: (ROOT / "vm" / "run" / "_dispatch.pyx").read_text(encoding="utf-8")
    return extension


def planner_modules() -> list[str]:
    """Names of the planner's modules that are compiled."""
    return native.compiled_modules(path.stem for path in (ROOT / "vm" / "plan").glob("*.py"))


def planner_extensions() -> list[Extension]:
    """The planner's modules, compiled by mypyc: one library, and for each module a small one that finds its part there."""
    depends = [*made_from("vm", "*.py"), *made_from("vm/lang", "*.py"), *made_from("vm/plan", "*.py"),
               "templates/native.py", "templates/records.py", "setup.py"]
    names = [*planner_modules(), f"{PLANNER_GROUP}__mypyc"]
    return [Extension(f"prebake.vm.plan.{name}", [], depends=depends) for name in names]


def is_planner(ext: Extension) -> bool:
    """Whether an extension is one of `planner_extensions`."""
    return ext.name.startswith("prebake.vm.plan.")


def compile_planner(folder: Path) -> dict[str, Extension]:
    """What mypyc makes of the planner's modules, by name: C in the folder. The modules are copies that lie where the installed
    ones do, with their records written out, so that texts of the library name no path of this machine."""
    from mypyc.build import mypycify

    tree, names = folder / "tree", planner_modules()
    shutil.rmtree(tree, ignore_errors=True)
    for package, source in (("prebake", "prebake"), ("prebake/vm", "vm"), ("prebake/vm/lang", "vm/lang"),
                            ("prebake/vm/plan", "vm/plan"), ("prebake/templates", "templates")):
        (tree / package).mkdir(parents=True)
        for path in sorted((ROOT / source).glob("*.py")):
            text = path.read_text(encoding="utf-8")
            if package == "prebake/vm/plan" and path.stem in names:
                text = native.write_out_records(text)
            (tree / package / path.name).write_text(text, encoding="utf-8")
    os.chdir(tree)
    try:
        made = mypycify(["--config-file=", "--cache-dir=../cache", "--follow-imports=silent", "--ignore-missing-imports",
                         *[f"prebake/vm/plan/{name}.py" for name in names]],
                        opt_level="1", debug_level="0", multi_file=True, target_dir=str(folder / "c"),
                        group_name=f"prebake.vm.plan.{PLANNER_GROUP}")
    finally:
        os.chdir(ROOT)
    for ext in made:
        ext.include_dirs.append(str(folder / "c" / "prebake" / "vm" / "plan"))
    return {ext.name: ext for ext in made}


def source_digest(ext: Extension) -> str:
    """Of the contents of all files that an extension is made from, and of how it is compiled."""
    found = hashlib.blake2b(repr((sys.version, ext.extra_compile_args, ext.define_macros)).encode(), digest_size=32)
    for path in sorted(ext.depends):
        found.update(f"{path} {hashlib.blake2b(Path(path).read_bytes(), digest_size=32).hexdigest()}\n".encode())
    return found.hexdigest()


class BuildExt(build_ext):
    """Renders and cythonizes each extension into the build folder, then compiles it; skips what is up to date."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if not self.parallel:
            self.parallel = int(os.environ.get("PREBAKE_BUILD_JOBS") or min(4, os.cpu_count() or 1))

    def build_extensions(self) -> None:
        self.digests = {ext.name: source_digest(ext) for ext in self.extensions}  # before anything is read
        self.extensions = [ext for ext in self.extensions if self.force or not self.is_current(ext)]
        planner = [ext for ext in self.extensions if is_planner(ext)]
        made = compile_planner(Path(self.build_temp).resolve() / "planner") if planner else {}
        for ext in planner:
            for name in ("sources", "include_dirs", "extra_compile_args"):
                setattr(ext, name, getattr(made[ext.name], name))
            ext.extra_compile_args += REPRODUCIBLE
        for ext in self.extensions:  # one after the other: Cython is not made for threads, compilers are
            if ext not in planner:
                ext.sources = [self.write_c(ext)]
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        super().build_extension(ext)
        stamp = self.stamp_path(ext)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(self.digests[ext.name], encoding="ascii")

    def is_current(self, ext: Extension) -> bool:
        """Whether the shared object is there and made from files with today's contents; without a stamp, by their times."""
        target = Path(self.get_ext_fullpath(ext.name))
        if self.inplace:
            target = ROOT / Path(self.get_ext_fullpath(ext.name))
        if not target.exists():
            return False
        stamp = self.stamp_path(ext)
        if stamp.exists():
            return stamp.read_text(encoding="ascii") == self.digests[ext.name]
        made = target.stat().st_mtime_ns
        return all(Path(p).stat().st_mtime_ns <= made for p in ext.depends)

    def stamp_path(self, ext: Extension) -> Path:
        """The file that says what an extension was made from: not when, so that an edit during a build is seen by the next."""
        return Path(self.build_temp) / f"{ext.name}{'.inplace' if self.inplace else ''}.made-from"

    def write_c(self, ext: Extension) -> str:
        """The path of the C file that Cython makes of an extension's text."""
        from Cython.Compiler.Main import CompilationOptions, compile
        from Cython.Compiler.Options import default_options

        folder = Path(self.build_temp).resolve() / "cython"
        folder.mkdir(parents=True, exist_ok=True)
        pyx = folder / (ext.name.rpartition(".")[2] + ".pyx")
        pyx.write_text(ext.prebake_render(), encoding="utf-8")
        ext.extra_compile_args.append(f"-ffile-prefix-map={folder}=cython")
        for path in ext.depends:  # beside it: then no path of the source tree comes into the C file
            if path.endswith((".pxi", ".pxd")):
                shutil.copy(path, folder)
        options = CompilationOptions({**default_options, "language_level": 3})
        os.chdir(folder)  # Cython writes the path as it sees it into the C file
        try:
            result = compile(pyx.name, options, full_module_name=ext.name)
        finally:
            os.chdir(ROOT)
        if result.num_errors:
            raise SystemExit(f"cython: {pyx} has {result.num_errors} error(s)")
        return str(pyx.with_suffix(".c"))


extensions = [stencil_extension(level) for level in levels.built_levels()]
if os.environ.get("PREBAKE_BUILD_PLANNER") == "1":
    extensions += planner_extensions()
if (ROOT / "vm" / "run" / "_dispatch.pyx").exists():
    extensions.append(dispatch_extension())

setup(ext_modules=extensions, cmdclass={"build_ext": BuildExt})
