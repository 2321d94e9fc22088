"""What importing prebake loads: nothing heavy, nothing that only builds need, no way up from lower floors."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = {"templates": set(), "configs": set(), "vm": {"templates"}, "pgo": {"vm", "templates", "configs"},
          "prebake": {"vm", "pgo", "templates", "configs"}}
INNER = {"lang": {"lang"}, "plan": {"lang", "plan"}, "run": {"lang", "plan", "run"}}


def loaded_after(code):
    text = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, text=True, check=True,
                              env={"PYTHONPATH": ":".join(p for p in sys.path if p)}).stdout.split())


def test_import_alone_loads_nothing():
    found = {m for m in loaded_after("import prebake") if m.startswith("prebake")}
    assert found == {"prebake"}
    assert "numpy" not in loaded_after("import prebake")


def test_decorating_loads_neither_compiler_nor_build():
    before = loaded_after("import numpy")
    after = loaded_after("import numpy, prebake\n@prebake.jit\ndef f(x): return x")
    for name in ("json", "logging", "hashlib", "yaml", "setuptools", "Cython", "tempfile", "subprocess", "inspect",
                 "prebake.vm.lang.frontend", "prebake.vm.plan.planner", "prebake.vm.run.interpreter", "prebake.pgo",
                 "prebake.vm.lang.bytecode", "prebake.vm.run.recorder"):
        assert name in before or name not in after, name


def test_warmup_leaves_nothing_to_load_for_a_later_miss(tmp_path):
    path = tmp_path / "some_model.py"
    path.write_text("import numpy as np\nimport prebake\n\n\n@prebake.jit\n"
                    "def f(x, w):\n    return np.maximum(x @ w, 0).sum(axis=-1)\n")
    call = "some_model.f(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))"
    text = (f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport numpy as np, prebake, some_model\nprebake.warmup()\n"
            f"before = set(sys.modules)\n{call}\n"
            "print('new', *[m for m in sys.modules if m.startswith('prebake') and m not in before])\n"
            "assert some_model.f.stats()['jit'] == 1")
    done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": ":".join(p for p in sys.path if p), "PREBAKE_BUNDLES": "off"})
    assert done.stdout.split() == ["new"]


def test_public_names_are_there():
    import prebake

    for name in prebake.__all__:
        if name not in ("plan", "build", "check"):  # these need the build's libraries
            assert getattr(prebake, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = prebake.nothing
    assert set(prebake.__all__) <= set(dir(prebake))


def imports_of(path):
    """(package folder, subfolder of vm or '') of each relative import in a file."""
    parts = path.relative_to(ROOT).parts
    package = ["", *parts[:-1]] if parts[0] != "prebake" else [""]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[:len(package) - node.level + 1]
            target = [*base, *(node.module or "").split(".")] if node.module else base
            names = [[*target, alias.name] for alias in node.names] if len(target) == 1 else [target]
            for name in names:
                yield name[1] if len(name) > 1 else "prebake", name[2] if len(name) > 2 else ""


@pytest.mark.parametrize("folder", sorted(FLOORS))
def test_imports_point_down(folder):
    for path in (ROOT / folder).rglob("*.py"):
        inner = path.relative_to(ROOT).parts[1] if folder == "vm" else ""
        for target, below in imports_of(path):
            if target == folder or (folder == "prebake" and target not in FLOORS):
                if inner in INNER and below in INNER:
                    assert below in INNER[inner], f"{path} imports vm/{below}"
                continue
            assert target in FLOORS[folder], f"{path} imports {target}"
