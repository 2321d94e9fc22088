"""Commands: exit codes, messages without tracebacks, files written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import profile_helpers as made
import pytest

from prebake.pgo.cli import FINDING, FINE, USAGE, main

SERVICE = """
import json
import numpy as np
import prebake


@prebake.jit
def twice(x):
    return np.tanh(x * 2) + x


if __name__ == "__main__":
    for n in range(1, 41):
        twice(np.ones((n, 8), np.float32))
    stats = twice.stats()
    print(json.dumps({"calls": stats["calls"], "prebuilt": stats["prebuilt"]}))
"""


@pytest.fixture
def files(tmp_path):
    """Three profiles: a, b (other shapes of the same program) and c (another program of the same name)."""
    shapes = {"a": {(b, 64): 3 for b in range(1, 40)}, "b": {(b, 64): 5 for b in range(30, 90)}}
    for name, counts in shapes.items():
        data = made.profile(made.function_profile(made.branching(), counts)).to_bytes()
        (tmp_path / f"{name}.json").write_bytes(data)
    other = made.profile(made.function_profile(made.branching(threshold=7), {(3, 64): 1}))
    (tmp_path / "c.json").write_bytes(other.to_bytes())
    (tmp_path / "broken.json").write_bytes(data[:100])
    return tmp_path


@pytest.mark.parametrize("arguments", [
    [], ["nonsense"], ["plan"], ["plan", "p.json"], ["build", "b.yaml"], ["profile"], ["profile", "-o", "p.json"],
    ["profile", "-o", "p.json", "--"], ["profile", "merge", "a.json"], ["check"], ["explain"], ["cache", "burn"],
    ["plan", "p.json", "-o", "b.yaml", "--max-kernels", "0"], ["check", "x", "--max-miss", "200%"],
    ["profile", "-o", "p.json", "--", "no-such-command-here"],
])
def test_wrong_usage_is_2(arguments, capsys):
    assert main(arguments) == USAGE
    assert "Traceback" not in capsys.readouterr().err


def test_help_is_fine(capsys):
    for arguments in (["--help"], ["plan", "--help"], ["profile", "show", "--help"], ["--version"]):
        assert main(arguments) == FINE
    assert "prebake" in capsys.readouterr().out


def test_profile_show(files, capsys):
    assert main(["profile", "show", str(files / "a.json"), "--top", "2"]) == FINE
    assert "shop:branch" in capsys.readouterr().out


def test_profile_merge_in_any_order_gives_the_same_bytes(files):
    a, b, x, y = (str(files / n) for n in ("a.json", "b.json", "x.json", "y.json"))
    assert main(["profile", "merge", a, b, "-o", x]) == main(["profile", "merge", b, a, "-o", y]) == FINE
    assert (files / "x.json").read_bytes() == (files / "y.json").read_bytes()
    assert main(["profile", "merge", a, b, "--weights", "2,1", "-o", y]) == FINE
    assert json.loads((files / "y.json").read_bytes())["functions"]["shop:branch"]["calls"] == 2 * 39 * 3 + 60 * 5


@pytest.mark.parametrize("bad", ["broken.json", "c.json", "missing.json"])
def test_a_bad_profile_is_a_finding_that_names_the_file(files, bad, capsys):
    code = main(["profile", "merge", str(files / "a.json"), str(files / bad), "-o", str(files / "out.json")])
    error = capsys.readouterr().err
    assert code == FINDING and bad in error and error.startswith("PlanError: ")
    assert not (files / "out.json").exists()


def test_profile_diff_and_overlap(files, capsys):
    a, b = str(files / "a.json"), str(files / "b.json")
    assert main(["profile", "diff", a, a]) == FINE
    assert main(["profile", "diff", a, b]) == FINDING
    assert main(["profile", "overlap", a, b]) == FINE
    assert main(["profile", "overlap", a, b, "--min", "90%"]) == FINDING
    assert main(["profile", "overlap", a, a, "--min", "90%"]) == FINE
    assert "100.0%  all calls" in capsys.readouterr().out


def test_plan_writes_yaml_report_and_predictions(files, capsys):
    yaml, html = files / "b.yaml", files / "r.html"
    assert main(["plan", str(files / "a.json"), str(files / "b.json"), "-o", str(yaml), "--report", str(html),
                 "--max-kernels", "3", "--no-measure"]) == FINE
    out = capsys.readouterr().out
    assert "predicted hit rate 100.0%" in out and str(yaml) in out and str(html) in out
    assert "not measured" in out
    assert yaml.read_text().count("- {") <= 3 and "<svg" in html.read_text()
    assert sorted(p.name for p in (files / "b.msbc").iterdir()) == ["shop-branch.msbc", "shop-branch.signatures.json"]


def test_planning_over_a_broken_yaml_names_its_line(files, capsys):
    (files / "b.yaml").write_text("version: 1\nfuncs: {}\n")
    assert main(["plan", str(files / "a.json"), "-o", str(files / "b.yaml"), "--no-measure"]) == FINDING
    assert "b.yaml:2:1" in capsys.readouterr().err
    assert (files / "b.yaml").read_text() == "version: 1\nfuncs: {}\n"


def test_dis_of_a_file(files, capsys):
    (files / "f.msbc").write_bytes(made.branching().to_bytes())
    assert main(["dis", str(files / "f.msbc")]) == FINE
    assert "IF_TENSOR_GT" in capsys.readouterr().out
    (files / "f.msbc").write_bytes(made.branching().to_bytes()[:-5])
    assert main(["dis", str(files / "f.msbc")]) == FINDING
    assert main(["dis", str(files / "nowhere.msbc")]) == FINDING
    assert "Traceback" not in capsys.readouterr().err


def test_dis_of_files_inside_packages(tmp_path, capsys, monkeypatch):
    inner = tmp_path / "src" / "cli_pack" / "deep"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("")
    (inner / "__init__.py").write_text("def top(x):\n    return x * 2\n")
    (inner.parent / "base.py").write_text("def twice(x):\n    return x * 2\n")
    (inner / "leaf.py").write_text("from ..base import twice\n\n\ndef scale(x):\n    return twice(x) * 3\n")
    (inner / "broken.py").write_text("def f(x):\n    return x\n\n\n1 / 0\n")
    (inner / "syntax.py").write_text("def f(x:\n")
    (tmp_path / "alone.py").write_text("from .base import twice\n")
    monkeypatch.chdir(tmp_path)
    for what in ("src/cli_pack/deep/leaf.py:scale", "src/cli_pack/deep/__init__.py:top"):
        assert main(["dis", what]) == FINE
    assert "BINARY_MUL_TENSOR" in capsys.readouterr().out and sys.modules["cli_pack.deep.leaf"]
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.startswith(str(tmp_path))])
    for name in [n for n in sys.modules if n.partition(".")[0] == "cli_pack"]:
        del sys.modules[name]
    assert main(["dis", "cli_pack.deep.leaf:scale"]) == FINE  # `src/` of the project here is looked at too
    for what, said in (("src/cli_pack/deep/broken.py:f", f"ZeroDivisionError: division by zero, raised at {inner}/broken.py:5"),
                       ("src/cli_pack/deep/syntax.py:f", "SyntaxError"), ("alone.py:twice", "relative import"),
                       (":f", "names no function"), ("cli_pack.deep.broken:f", "ZeroDivisionError")):
        assert main(["dis", what]) == FINDING
        error = capsys.readouterr().err
        assert error.startswith("ConfigError: ") and said in error and "Traceback" not in error
    for name in [n for n in sys.modules if n.partition(".")[0] in ("cli_pack", "alone")]:
        del sys.modules[name]


def test_dis_of_source_functions(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cli_probe.py").write_text("def scale(x, n=2):\n    return x * n\n\n\nclass Box:\n    size = 3\n")
    assert main(["dis", "cli_probe.py:scale"]) == FINE
    assert main(["dis", "cli_probe:scale"]) == FINE
    assert capsys.readouterr().out.count("BINARY_MUL_TENSOR") == 2
    for what in ("cli_probe:scaled", "cli_probe:Box", "nowhere_to_be_found:f", "nowhere.py:f"):
        assert main(["dis", what]) == FINDING
    assert "did you mean 'scale'?" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "name", "said"), [
    ("x=float32[2,3]", "x", "(2, 3)"), ("x=int8[]", "x", "()"), ("n=3", "n", "3"), ("s=(1, 2)", "s", "(1, 2)")])
def test_arguments_by_description(text, name, said):
    from prebake.pgo.inspecting import parse_argument

    found, value = parse_argument(text)
    assert found == name and str(getattr(value, "shape", value)) == said


@pytest.mark.parametrize(("text", "said"), [("x", "NAME=VALUE"), ("x=float33[2]", "did you mean 'float32'"),
                                            ("x=os.system", "no array"), ("x=os:nothing", "has no"), ("2x=3", "NAME=VALUE")])
def test_arguments_that_are_none(text, said):
    from prebake.pgo.inspecting import parse_argument
    from prebake.vm.errors import ConfigError

    with pytest.raises(ConfigError, match=said):
        parse_argument(text)


def test_the_module_runs(files):
    done = subprocess.run([sys.executable, "-m", "prebake", "profile", "show", str(files / "a.json")], cwd=files,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == FINE and "shop:branch" in done.stdout, done.stderr


def test_cache_commands(tmp_path, monkeypatch, capsys):
    from prebake.pgo import object_cache

    monkeypatch.setenv("PREBAKE_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["cache", "ls"]) == FINE and "0 entries" in capsys.readouterr().out
    object_cache.write("a" * 64, b"1234")
    assert main(["cache", "ls"]) == FINE and "a" * 64 in capsys.readouterr().out
    assert main(["cache", "prune"]) == FINE and object_cache.read("a" * 64) == b"1234"
    assert main(["cache", "clear"]) == FINE and object_cache.read("a" * 64) is None
    assert list((tmp_path / "cache" / "objects").iterdir()) == []


def test_recording_a_command_planning_building_and_checking_it(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREBAKE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "recorded_service.py").write_text(SERVICE)
    command = [sys.executable, "recorded_service.py"]
    assert main(["profile", "-o", "p.json", "--", *command]) == FINE
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what planning builds to time it is nobody's file
        assert main(["plan", "p.json", "-o", "b.yaml", "--report", "r.html"]) == FINE
    out = capfd.readouterr().out
    assert "measured here" in out and "predicted hit rate 100.0%" in out
    assert "gain: {" in (tmp_path / "b.yaml").read_text()
    assert main(["build", "b.yaml", "-o", "__prebake__/recorded_service", "-q"]) == FINE
    assert main(["check", "__prebake__/recorded_service", "--profile", "p.json"]) == FINE
    capfd.readouterr()
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == {"calls": 40, "prebuilt": 40}
    (tmp_path / "__prebake__").rename(tmp_path / "kept")
    explain = [sys.executable, "-m", "prebake.pgo.cli", "explain", "recorded_service.py:twice", "--arg", "x=float32[3,8]"]
    for more, said in ((["--bundle", "kept/recorded_service"], "prebuilt"), ([], "NO_BUNDLE")):
        assert said in subprocess.run([*explain, *more], capture_output=True, text=True, check=True, timeout=60).stdout
    (tmp_path / "kept").rename(tmp_path / "__prebake__")
    assert main([*explain[3:], "--bundle", "nowhere"]) == FINDING and "no such folder" in capfd.readouterr().err
    assert main(["profile", "-o", "q.json", "--", sys.executable, "-c", "raise SystemExit(7)"]) == 7
    (tmp_path / "recorded_service.py").write_text(SERVICE.replace("x * 2", "x * 3"))
    assert main(["check", "__prebake__/recorded_service"]) == FINDING
    assert main(["plan", "p.json", "-o", "b.yaml"]) == FINDING
    assert main(["build", "b.yaml", "-o", "again", "-q"]) == FINDING
    assert main(["build", "b.yaml", "-o", "again", "-q", "--allow-stale"]) == FINE
    (tmp_path / "recorded_service.py").unlink()
    capfd.readouterr()
    assert main(["build", "b.yaml", "-o", "again", "-q"]) == FINE
    error = capfd.readouterr().err
    assert error.startswith("prebake: source of recorded_service:twice ") and error.count("\n") == 1


def test_explain_a_call(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "explained_service.py").write_text(SERVICE)
    assert main(["explain", "explained_service.py:twice", "--arg", "x=float32[3,4]"]) == FINE
    assert "NO_BUNDLE" in capsys.readouterr().out
    assert main(["explain", "explained_service.py:twice"]) == FINDING
    assert main(["explain", "explained_service.py:twice", "--arg", "y=float32[3,4]"]) == FINDING
    assert "nothing was given for x" in capsys.readouterr().err


CALLS = """
import numpy as np
import prebake

@prebake.jit
def product(x, w):
    return np.maximum(x @ w, 0)

@prebake.jit(shapes={"x": "b d", "w": "d k"})
def declared(x, w):
    return x * 2

@prebake.jit
def generator(x, w):
    yield x

def item(x, w):
    return x[9]
"""


@pytest.mark.parametrize(("name", "w", "code", "said"), [
    ("product", "float32[4,5]", FINE, "engine    jit"), ("product", "float32[3,5]", FINDING, "raises    matmul of extents"),
    ("declared", "float32[4,5]", FINE, "engine    jit"),
    ("declared", "float32[3,5]", FINDING, "but x.shape[1] is 4; both are 'd'"),
    ("item", "float32[1]", FINDING, "raises    index out of bounds"), ("generator", "float32[1]", FINDING, "are not supported")])
def test_explaining_a_call_that_raises_is_a_finding(tmp_path, monkeypatch, capsys, name, w, code, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "explained_calls.py").write_text(CALLS)
    assert main(["explain", f"explained_calls.py:{name}", "--arg", "x=float32[2,4]", "--arg", f"w={w}"]) == code
    told = capsys.readouterr()
    assert said in told.out + told.err
    if code == FINDING:
        assert "fix       -" not in told.out, "no bucket helps a call that raises"


@pytest.mark.parametrize(("name", "value", "said"), [
    ("PREBAKE_ENGINE", "pythn", "did you mean 'python'?"), ("PREBAKE_BUNDLE", "off", "did you mean 'PREBAKE_BUNDLES'?"),
    ("PREBAKE_BUNDLES", "banana", "allowed are 1, on"), ("PREBAKE_ENGINE", "prebuilt", "no prebuilt kernel takes")])
def test_doctor_names_wrong_settings_and_their_cure(name, value, said):
    done = subprocess.run([sys.executable, "-m", "prebake.pgo.cli", "doctor"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, name: value})
    assert done.returncode == FINDING and said in done.stdout
    assert "install prebake again" not in done.stdout and "Error:" not in done.stdout


@pytest.mark.parametrize("place", ["file/bundle", "/proc/bundle"])
def test_an_output_that_cannot_be_written_is_named_with_a_cure(tmp_path, monkeypatch, capsys, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "unwritable_model.py").write_text("import numpy as np\nMODEL = {'w': np.ones((8, 8), np.float32)}\n")
    assert main(["pack", "unwritable_model:MODEL", "-o", place]) == FINDING
    told = capsys.readouterr().err
    assert told.startswith(f"ConfigError: output: {place} cannot be written: ") and "\n  fix " in told
