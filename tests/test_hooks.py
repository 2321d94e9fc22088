"""The setuptools plugin: options of pyproject.toml, wheels, sdists, editable installs, refusals."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_project import floats, plain_name, write_project

from prebake.pgo.hooks import finalize_distribution_options, parse_options, read_options
from prebake.vm.errors import ConfigError

TREE = Path(__file__).resolve().parents[1]
MODEL = '''
import numpy as np

from .layers import hidden


def score(x, w):
    return np.tanh(hidden(x, w))
'''
PYPROJECT = '''
[build-system]
requires = ["setuptools>=77", "prebake[build]"]
build-backend = "setuptools.build_meta"

[project]
name = "shop-scores"
version = "1.2.0"

[tool.setuptools.packages.find]
where = ["src"]

[tool.prebake]
buckets = "buckets.yaml"
targets = ["generic"]
'''
USE = '''
import sys
from importlib import import_module
from pathlib import Path
from prebake.vm.run.bundle import Bundle, bundles_beside
model = import_module("shop_scores.model")
(found,) = bundles_beside(model.__file__)
bundle = Bundle(found)
assert bundle.error is None, bundle.error
bundle.check_fresh("shop_scores.model:score", model.__file__)
print(Path(found).name, bundle.level, bundle.functions)
'''


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a process in which prebake and its entry point are installed."""
    env = {**os.environ, "PREBAKE_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}
    found = [e for e in entry_points(group="setuptools.finalize_distribution_options") if e.name == "prebake"]
    if not found:  # run from a source tree: what an install would leave behind
        place = tmp_path_factory.mktemp("site")
        info = place / "prebake-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prebake\nVersion: 0.1.0\n")
        import tomllib

        project = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
        rows = project["entry-points"]["setuptools.finalize_distribution_options"]
        (info / "entry_points.txt").write_text(
            "[setuptools.finalize_distribution_options]\n" + "".join(f"{k} = {v}\n" for k, v in rows.items()))
        env["PYTHONPATH"] = os.pathsep.join([*sys.path, str(place)])
    return env


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A project with a package in src/, its buckets and pyproject.toml."""
    root = tmp_path / "project"
    package = root / "src" / "shop_scores"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "model.py").write_text(MODEL)
    (package / "layers.py").write_text("import numpy as np\n\n\ndef hidden(x, w):\n    return np.maximum(x * w, 0)\n")
    (root / "pyproject.toml").write_text(PYPROJECT)
    monkeypatch.syspath_prepend(str(root / "src"))
    from importlib import import_module

    model = import_module("shop_scores.model")
    write_project(root, [(model.score, (floats(3, 4), floats(4)), {"b": "x.shape[0]"}, [{"b": (1, 9)}])])
    yield root
    for name in [n for n in sys.modules if n.partition(".")[0] == "shop_scores"]:
        del sys.modules[name]


def run(args: list[str], folder: Path, env: dict[str, str], ok: bool = True) -> str:
    done = subprocess.run([sys.executable, *args], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert (done.returncode == 0) is ok, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def use(place: Path, env: dict[str, str]) -> str:
    """What a process sees that has `place` on its path."""
    return run(["-c", USE], place, {**env, "PYTHONPATH": os.pathsep.join([str(place), env.get("PYTHONPATH", "")])})


def names_in(sdist: Path) -> list[str]:
    """Names inside a source archive, without its top folder."""
    with tarfile.open(sdist) as archive:
        return [name.partition("/")[2] for name in archive.getnames()]


BUNDLE = ["kernels_generic.abi3.so", "manifest.json", "shop_scores.model-score.msbc"]


def test_sdist_and_the_wheel_made_from_it_carry_the_bundle(project: Path, environment: dict[str, str]) -> None:
    run(["-m", "build", "--no-isolation", "-o", "dist", "."], project, environment)
    (sdist,) = (project / "dist").glob("*.tar.gz")
    names = names_in(sdist)
    assert {"buckets.yaml", "buckets.msbc/shop_scores.model-score.msbc",
            "buckets.msbc/shop_scores.model-score.signatures.json"} <= set(names)
    (wheel,) = (project / "dist").glob("*.whl")
    python, abi, platform = wheel.stem.split("-")[-3:]
    assert (python, abi) == ("py3", "none") and platform != "any"
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
        assert "Root-Is-Purelib: false" in archive.read("shop_scores-1.2.0.dist-info/WHEEL").decode()
        archive.extractall(project / "site")
    assert [plain_name(n.rpartition("/")[2]) for n in sorted(inside) if "__prebake__" in n] == BUNDLE
    assert use(project / "site", environment).startswith("buckets generic ('shop_scores.model:score',)")


def test_pip_install_and_editable_install(project: Path, environment: dict[str, str]) -> None:
    pip = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    run([*pip, "--target", "plain", "."], project, environment)
    assert "generic" in use(project / "plain", environment)
    run([*pip, "--target", "edit", "-e", "."], project, environment)
    source = project / "src" / "shop_scores" / "__prebake__" / "buckets"
    assert sorted(plain_name(p.name) for p in source.iterdir()) == BUNDLE
    assert "generic" in use(project / "src", environment)
    assert (source.parent / ".gitignore").read_text() == "*\n"  # `git add -A` does not commit shared objects
    # the bundle in the source tree does not slip into an sdist
    run(["-m", "build", "--no-isolation", "-s", "-o", "dist", "."], project, environment)
    (sdist,) = (project / "dist").glob("*.tar.gz")
    assert not [n for n in names_in(sdist) if "__prebake__" in n]


def test_without_a_compiler_an_error_or_a_wheel_of_programs(project: Path, environment: dict[str, str]) -> None:
    env = {**environment, "CC": "no-such-compiler"}
    text = run(["-m", "build", "--no-isolation", "-w", "-o", "dist", "."], project, env, ok=False)
    assert "error: prebake: CC: no C compiler: 'no-such-compiler' cannot be run" in text
    (project / "pyproject.toml").write_text(PYPROJECT + "pure = true\n")
    run(["-m", "build", "--no-isolation", "-w", "-o", "dist", "."], project, env)
    (wheel,) = (project / "dist").glob("*.whl")
    assert wheel.stem.endswith("py3-none-any")
    with zipfile.ZipFile(wheel) as archive:
        assert [n.rpartition("/")[2] for n in sorted(archive.namelist()) if "__prebake__" in n] == BUNDLE[1:]


def test_stale_sources_and_wrong_keys_stop_the_build(project: Path, environment: dict[str, str]) -> None:
    (project / "src" / "shop_scores" / "layers.py").write_text(
        "import numpy as np\n\n\ndef hidden(x, w):\n    return np.maximum(x * w, 1)\n")
    text = run(["-m", "build", "--no-isolation", "-w", "-o", "dist", "."], project, environment, ok=False)
    assert f"shop_scores.layers:hidden in {project / 'src' / 'shop_scores' / 'layers.py'}" in text
    (project / "pyproject.toml").write_text(PYPROJECT + "job = 2\n")
    text = run(["-m", "build", "--no-isolation", "-w", "-o", "dist", "."], project, environment, ok=False)
    assert "tool.prebake.job: unknown key 'job'" in text and "did you mean 'jobs'?" in text


def test_setuptools_that_make_no_wheels_are_refused_by_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from setuptools import Distribution
    from setuptools.errors import ModuleError, SetupError

    get = Distribution.get_command_class

    def before_70(self: Any, command: str) -> Any:
        if command == "bdist_wheel":
            raise ModuleError("invalid command 'bdist_wheel'")
        return get(self, command)

    monkeypatch.chdir(project)
    monkeypatch.setattr(Distribution, "get_command_class", before_70)
    with pytest.raises(SetupError, match=r"makes no wheels by itself[\s\S]*setuptools 77"):
        finalize_distribution_options(Distribution({"name": "shop-scores"}))


def test_a_project_without_the_table_is_left_alone(project: Path, environment: dict[str, str]) -> None:
    (project / "pyproject.toml").write_text(PYPROJECT.partition("[tool.prebake]")[0])
    run(["-m", "build", "--no-isolation", "-w", "-o", "dist", "."], project, environment)
    (wheel,) = (project / "dist").glob("*.whl")
    assert wheel.stem.endswith("py3-none-any")


@pytest.mark.parametrize(("table", "message"), [
    ({}, r"tool.prebake.buckets: is missing"),
    ({"buckets": 3}, r"tool.prebake.buckets: found 3, expected str or list"),
    ({"buckets": "b.yaml", "jobs": True}, r"tool.prebake.jobs: found True, expected int"),
    ({"buckets": "b.yaml", "jobs": 0}, r"tool.prebake.jobs: found 0"),
    ({"buckets": "../b.yaml"}, r"expected a path inside the project"),
    ({"buckets": "none.yaml"}, r"there is no file 'none.yaml'"),
    ({"buckets": ["b.yaml", "sub/b.yaml"]}, r"two files are called 'b'"),
    ({"buckets": "b.yaml", "targets": [1]}, r"tool.prebake.targets"),
    ({"buckets": "b.yaml", "allow_stale": True}, r"unknown key 'allow_stale'(.|\n)*allow-stale"),
])
def test_options_are_checked(tmp_path: Path, table: dict[str, Any], message: str) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.yaml", "sub/b.yaml"):
        (tmp_path / name).write_text("version: 1\n")
    with pytest.raises(ConfigError, match=message):
        parse_options(table, tmp_path)


def test_options_are_read(tmp_path: Path) -> None:
    assert read_options(tmp_path) is None
    (tmp_path / "pyproject.toml").write_text("[tool.other]\n")
    assert read_options(tmp_path) is None
    (tmp_path / "a.yaml").write_text("version: 1\n")
    (tmp_path / "pyproject.toml").write_text('[tool.prebake]\nbuckets = ["a.yaml"]\njobs = 2\nallow-stale = true\n')
    options = read_options(tmp_path)
    assert options is not None and options.buckets == (Path("a.yaml"),)
    assert (options.jobs, options.allow_stale, options.pure, options.targets) == (2, True, False, None)


def test_samples_are_what_the_signature_says() -> None:
    from prebake.pgo.samples import Samples
    from prebake.vm.lang.bytecode import Param, Program
    from prebake.vm.plan.signature import Row, Signature, matches

    rows = (
        Row("arg", -1, 0, "object", "self", type_name="m:Net"),
        Row("attr", 0, "layers", "sequence", "self.layers", type_name="builtins:list", length=2),
        Row("item", 1, 1, "mapping", "self.layers[1]", type_name="builtins:dict", keys=("w", "b")),
        Row("item", 2, "w", "array", "self.layers[1]['w']", dtype="f32", ndim=2, layout="C", constant=True,
            shape=(3, 2)),
        Row("arg", -1, 1, "array", "x", dtype="f64", ndim=2, layout="S"),
        Row("arg", -1, 2, "scalar", "n", dtype="i64", python="int"),
        Row("attr", 0, "mode", "static", "self.mode", value="train"),
    )
    program = Program("m:f", (Param("self"), Param("x"), Param("n"), Param("k", 0)), 1, ("?",), (7,), (), (), (), ())
    extents = {"x.shape[0]": 5, "x.shape[1]": 4, "x.strides[0]": 8, "x.strides[1]": -80}
    made = Samples(program, Signature(rows), extents, seed=3)
    again = Samples(program, Signature(rows), extents, seed=3)
    net, x, n, k = made.args
    assert net.layers[1]["w"] is made.values[3] and net.mode == "train" and k == 7  # type: ignore[attr-defined]
    assert x.shape == (5, 4) and x.strides[0] == 8 and x.strides[1] < 0  # type: ignore[attr-defined]
    assert isinstance(n, int) and all(matches(row, value) for row, value in zip(rows[3:], made.values[3:], strict=True))
    np.testing.assert_array_equal(made.values[4], again.values[4])
