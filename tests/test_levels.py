"""CPU levels, loading of stencil libraries, and strict rendering of templates."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from prebake.templates import levels
from prebake.templates.render import RenderError, render_file, render_text
from prebake.templates.stencils import ODD_INDEX, STENCIL_INDEX, cast_index, stencil_names, table_text


def test_levels_are_ordered_and_capped(monkeypatch):
    monkeypatch.delenv("PREBAKE_CPU", raising=False)
    names = [level.name for level in levels.runnable_levels()]
    assert names[-1] == "generic"
    assert names == [n for n in ("v4", "v3", "v2", "generic") if n in names]
    for name in names:
        for spelled in (name, levels.LEVELS[name].target):
            monkeypatch.setenv("PREBAKE_CPU", spelled)
            assert levels.host_level().name == name
    monkeypatch.setenv("PREBAKE_CPU", "v9")
    with pytest.raises(ValueError, match="generic, v2, v3, v4"):
        levels.host_level()


def test_features_decide(monkeypatch):
    """A host without AVX2 gets v2, one with nothing gets generic; other architectures build generic alone."""
    import numpy._core._multiarray_umath as umath

    monkeypatch.delenv("PREBAKE_CPU", raising=False)
    monkeypatch.setattr(levels, "is_x86", lambda: True)
    monkeypatch.setattr(umath, "__cpu_features__", dict.fromkeys(levels.LEVELS["v2"].features, True))
    assert [level.name for level in levels.runnable_levels()] == ["v2", "generic"]
    monkeypatch.setattr(umath, "__cpu_features__", {})
    assert levels.host_level().name == "generic"
    monkeypatch.setattr(levels, "is_x86", lambda: False)
    assert [level.name for level in levels.built_levels()] == ["generic"]


def test_every_instruction_set_of_a_level_is_asked_for(monkeypatch):
    """-march=x86-64-v3 is more than AVX2, and AVX-512 has parts; NumPy before 2.4 does not tell of all of them."""
    import numpy._core._multiarray_umath as umath

    monkeypatch.delenv("PREBAKE_CPU", raising=False)
    monkeypatch.setattr(levels, "is_x86", lambda: True)
    everything = dict.fromkeys(levels.LEVELS["v4"].features, True)
    best = {"": "v4", "AVX512VL": "v3", "AVX512DQ": "v3", "BMI2": "v2", "MOVBE": "v2", "F16C": "v2", "POPCNT": "generic"}
    for lacking, name in best.items():
        monkeypatch.setattr(umath, "__cpu_features__", {**everything, lacking: False})
        assert levels.host_level().name == name, lacking
    untold = {name: True for name in everything if name not in ("BMI", "BMI2", "LZCNT", "MOVBE")}
    monkeypatch.setattr(umath, "__cpu_features__", untold)
    assert levels.host_level().name == "v4"
    monkeypatch.setattr(umath, "__cpu_features__", {**untold, "AVX512F": False})
    assert levels.host_level().name == "v3"


def test_a_level_for_development_is_there_where_it_is_named(monkeypatch):
    monkeypatch.delenv("PREBAKE_CPU", raising=False)
    assert "v4_on_v3" not in [level.name for level in (*levels.built_levels(), *levels.runnable_levels())]
    if not levels.is_x86():
        return
    level = levels.LEVELS["v4_on_v3"]
    assert level.register_bits == levels.LEVELS["v4"].register_bits
    monkeypatch.setattr(levels, "can_run", lambda level: level.name != "v4")
    for spelled in (level.name, level.target):
        monkeypatch.setenv("PREBAKE_CPU", spelled)
        assert levels.host_level() is level and level in levels.built_levels()
    monkeypatch.setenv("PREBAKE_CPU", "v3")
    assert level not in (*levels.built_levels(), *levels.runnable_levels())


def test_no_flag_assumes_anything_about_values():
    for level in levels.LEVELS.values():
        assert "-O3" in level.flags and "-ffp-contract=off" in level.flags
        assert not {"-ffast-math", "-Ofast", "-ffinite-math-only", "-fno-signed-zeros"} & set(level.flags)


def test_every_runnable_library_loads_once():
    for level in levels.runnable_levels():
        library = levels.load_stencils(level.name)
        assert library is levels.load_stencils(level.name)
        assert library.level == level.target
        assert library.bind_address and library.run_address and library.table_address
        assert "prebake.stencils" in repr(library.table)


def test_library_of_other_tables_is_refused(monkeypatch):
    stale = SimpleNamespace(tables=table_text() + " more", level="generic")
    monkeypatch.setattr(levels, "_libraries", {})
    monkeypatch.setattr(levels, "import_module", lambda *_: stale)
    with pytest.raises(ImportError, match="built from other sources"):
        levels.load_stencils("generic")


def test_rows_do_not_collide_and_fit_the_table():
    names = stencil_names("generic")
    rows = [*STENCIL_INDEX.values(), *(cast_index(a, b) for a in names["native"] for b in names["native"]), ODD_INDEX]
    assert len(set(rows)) == len(rows)
    assert max(rows) == len(names["table"]) - 1 == len(names["scalars"]) - 1
    for (op, dtype), row in STENCIL_INDEX.items():
        assert names["table"][row].startswith(f"pb_block_{op}_{dtype},")
        assert names["scalars"][row] == f"pb_scalar_{op}_{dtype}"


def test_rendering_is_strict():
    assert render_text("{{for x in xs}}{{x}},{{endfor}}", {"xs": [1, 2]}) == "1,2,"
    with pytest.raises(RenderError, match="ys"):
        render_text("{{ys}}", {})
    with pytest.raises(RenderError, match="never used: zs"):
        render_text("{{xs}}", {"xs": 1, "zs": 2})
    assert render_text("{{if a}}{{b}}{{endif}}", {"a": False, "b": 1}) == ""  # mentioned is enough
    with pytest.raises(RenderError, match=r"stencils\.pyx\.in: given but never used: extra"):
        render_file("stencils.pyx.in", {**stencil_names("generic"), "extra": 1})


def test_run_time_does_not_import_the_build_tools():
    code = ("import sys, prebake.templates.levels as l; l.load_stencils(); import prebake.vm.run.tape; "
            "bad = {'Cython', 'setuptools', 'ctypes', 'json', 'yaml', 'prebake.vm.plan.planner'} & set(sys.modules); "
            "sys.exit(f'imported {sorted(bad)}' if bad - ALLOWED else 0)")
    # whatever NumPy itself imports does not count
    probe = "import sys, numpy, numpy._core; print(sorted({'ctypes', 'json'} & set(sys.modules)))"
    allowed = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.strip()
    done = subprocess.run([sys.executable, "-c", f"ALLOWED = set({allowed})\n{code}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
