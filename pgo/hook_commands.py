"""Commands of the setuptools plugin: `build_prebake` inside `build`, and a wheel that is tagged for what it holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import setuptools
from setuptools import Command
from setuptools.errors import BaseError as DistutilsError

from ..vm.errors import ConfigError
from .hooks import FOLDER, ProjectOptions, build_bundles, setup_error, source_files

if TYPE_CHECKING:
    from setuptools import Distribution


class build_prebake(Command):
    """Builds the bundles of `[tool.prebake]` into the build folder; in editable mode into the source tree."""

    description = "build prebake's kernel bundles"
    user_options: ClassVar[list[tuple[str, str, str]]] = []

    build_lib: str | None
    editable_mode: bool = False
    made: list[Path]

    def initialize_options(self) -> None:
        """No options of its own."""
        self.build_lib, self.made = None, []

    def finalize_options(self) -> None:
        """Takes the build folder from `build`."""
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    @property
    def options(self) -> ProjectOptions:
        """The project's options."""
        return self.distribution._prebake_options  # type: ignore[attr-defined]

    def source_folder(self, package: str) -> Path:
        """The source folder of a top-level package, or the folder that holds a top-level module."""
        build_py = self.get_finalized_command("build_py")
        if package in (getattr(build_py, "py_modules", None) or ()):
            return Path(build_py.get_package_dir(""))
        return Path(build_py.get_package_dir(package))

    def run(self) -> None:
        """Build; setuptools' errors carry the reason."""
        build_py = self.get_finalized_command("build_py")
        modules = getattr(build_py, "py_modules", None) or ()

        def place_of(package: str) -> Path:
            if self.editable_mode:
                return self.source_folder(package)
            assert self.build_lib is not None
            return Path(self.build_lib) if package in modules else Path(self.build_lib) / package

        roots = {str(Path(build_py.get_package_dir("") or ".").resolve())}
        for package in self.distribution.packages or ():
            folder = self.source_folder(package.partition(".")[0])
            if folder.name == package.partition(".")[0]:
                roots.add(str(folder.resolve().parent))
        self.made = build_bundles(self.options, place_of, sorted(roots), progress=self.verbose > 1)
        if self.editable_mode:  # in the source tree, but nothing to commit
            for folder in {made.parent for made in self.made}:
                ignore = folder / ".gitignore"
                if not ignore.exists():
                    ignore.write_text("*\n", encoding="ascii")

    def get_source_files(self) -> list[str]:
        """What an sdist must hold."""
        return source_files(self.options)

    def get_outputs(self) -> list[str]:
        """Files of the bundles that were built."""
        return sorted(str(p) for folder in self.made for p in folder.iterdir())

    def get_output_mapping(self) -> dict[str, str]:
        """In editable mode: build folder -> source tree."""
        if not self.editable_mode or self.build_lib is None:
            return {}
        found = {}
        for folder in self.made:
            package = folder.parent.parent.name
            for path in folder.iterdir():
                target = os.path.join(self.build_lib, package, FOLDER, folder.name, path.name)
                found[target] = str(path)
        return found


def install(dist: Distribution) -> None:
    """Give a distribution the command, `build` that runs it, and `bdist_wheel` that tags its wheel."""
    options: ProjectOptions = dist._prebake_options  # type: ignore[attr-defined]
    base_build = dist.get_command_class("build")
    try:
        base_wheel = dist.get_command_class("bdist_wheel")
    except DistutilsError as error:  # before setuptools 70.1, without the package `wheel`
        old = ConfigError(f"setuptools {setuptools.__version__} makes no wheels by itself", file="pyproject.toml",
                          key="build-system.requires", hint='"prebake[build]" among them brings setuptools 77')
        raise setup_error(old) from error

    class build(base_build):  # type: ignore[misc, valid-type]
        """`build` with the bundles."""

    class bdist_wheel(base_wheel):  # type: ignore[misc, valid-type]
        """`bdist_wheel` with a tag for this platform and every Python."""

        def get_tag(self) -> tuple[str, str, str]:
            python, abi, platform = super().get_tag()
            if options.pure or self.distribution.ext_modules:
                return python, abi, platform
            return "py3", "none", platform  # the shared objects use the stable ABI

    if not options.pure:
        dist.has_ext_modules = lambda: True  # type: ignore[method-assign]  # files go to platlib, the wheel is not pure
    build.sub_commands = [*base_build.sub_commands, ("build_prebake", None)]
    dist.cmdclass["build_prebake"] = build_prebake
    dist.cmdclass["build"] = build
    dist.cmdclass["bdist_wheel"] = bdist_wheel
