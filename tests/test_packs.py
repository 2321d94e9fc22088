"""`prebake pack`: packs on the disk are used where the bytes are those that were packed, and refused where anything differs."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import prebake
from prebake.pgo.cli import main
from prebake.pgo.pack import NARROW, layout_of, pack, pack_by_registers, pack_halves_by_registers, pack_operand
from prebake.templates.levels import LEVELS, built_levels, host_level, runnable_levels
from prebake.vm.plan.code import PRODUCT_DTYPES
from prebake.vm.run import _dispatch, bundle, cache, packs
from prebake.vm.run.bundle import usable_levels

MODEL = """
import numpy as np
import prebake

def make(seed=0):
    rng = np.random.default_rng(seed)
    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)
    return {"w": normal(40, 70), "b": normal(70), "deep": [normal(70, 3), np.asfortranarray(rng.standard_normal((3, 9)))],
            "stack": normal(2, 9, 16)}

MODEL = make()
W = prebake.freeze(np.arange(12, dtype=np.float32).reshape(3, 4))

@prebake.jit
def scaled(x):
    return x @ W

@prebake.jit
def plain(x):
    return x + 1

NOTHING = {"a": 3}
"""


@prebake.jit
def forward(m, x):
    y = x @ m["w"] + m["b"]
    y = (y @ m["deep"][0]).astype(np.float64) @ m["deep"][1]
    return y.astype(np.float32) @ m["stack"][1]


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A module `weights_to_pack` with a model; its `make`."""
    (tmp_path / "weights_to_pack.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "weights_to_pack", raising=False)
    monkeypatch.setattr(packs, "_opened", {})
    import weights_to_pack

    yield weights_to_pack.make
    sys.modules.pop("weights_to_pack", None)


def write(folder: str = "packed", **options) -> Path:
    pack("weights_to_pack:MODEL", folder, **options)
    return Path(folder).resolve()


def mapped_bytes(run) -> int:
    """Bytes of mapped packs that a call comes to use."""
    gc.collect()
    before = _dispatch.mapped_pack_bytes()
    run()
    return _dispatch.mapped_pack_bytes() - before


def check_refused(make, folder, field, effect="packed in each process"):
    """The folder is refused with a warning that names the field, and calls are right without it."""
    x = np.ones((5, 40), np.float32)
    want = forward.fn(make(), x)
    packs._opened.clear()
    bundle._reported.clear()
    with pytest.warns(RuntimeWarning, match="were not used") as caught:
        model = prebake.freeze(make(), packs=folder)
        assert mapped_bytes(lambda: np.testing.assert_allclose(forward(model, x), want, rtol=1e-3)) == 0
    text = str(caught[0].message)
    assert field in text and effect in text and "fix" in text and "this host" in text
    return text


@pytest.mark.parametrize("level", [level.name for level in runnable_levels()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_layout_is_written_down_once_more_and_equal(level, dtype):
    """Levels that cannot run here are packed by NumPy: byte for byte what their library would write."""
    rng = np.random.default_rng(0)
    assert layout_of(LEVELS[level]) == f"f32p{LEVELS[level].register_bits // 16}-f64p{LEVELS[level].register_bits // 32}" \
                                       f"-narrow{NARROW}"
    for k, n in [(1, 1), (7, 4), (8, 5), (3, 16), (33, 31), (20, 64), (5, 65)]:
        base = rng.standard_normal((k, n)).astype(dtype)
        for matrix, strides in ((base, base.strides), (np.asfortranarray(base), np.asfortranarray(base).strides)):
            memory = matrix.reshape(-1, order="A").view(np.uint8)
            found = pack_operand(LEVELS[level], memory, 0 if dtype == np.float32 else 1, k, n, 0, *strides)
            want = pack_by_registers(LEVELS[level].register_bits, matrix)
            np.testing.assert_array_equal(np.frombuffer(found, np.uint8), want.reshape(-1).view(np.uint8))


@pytest.mark.parametrize("level", [level.name for level in runnable_levels()])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_halves_are_written_down_once_more_and_equal(level, dtype):
    precision = {"bf16": "bfloat16", "f16": "float16"}[dtype]
    for k, n in [(1, 1), (7, 4), (8, 5), (3, 16), (33, 31), (20, 64), (5, 65)]:
        matrix = np.random.default_rng(0).standard_normal((k, n)).astype(np.float32)
        found = pack_operand(LEVELS[level], matrix.reshape(-1).view(np.uint8), PRODUCT_DTYPES[dtype], k, n, 0, *matrix.strides)
        want = pack_halves_by_registers(LEVELS[level].register_bits, matrix, precision)
        np.testing.assert_array_equal(np.frombuffer(found, np.uint8), want.reshape(-1).view(np.uint8))


def test_operands_outside_their_array_are_refused():
    memory = np.zeros(40, np.uint8)
    for numbers in [(0, 3, 4, 0, 16, 4), (0, 2, 4, -4, 16, 4), (1, 2, 4, 0, 16, 8), (4, 1, 1, 0, 4, 4), (0, 0, 1, 0, 4, 4)]:
        with pytest.raises(ValueError, match="operand"):
            pack_operand(host_level(), memory, *numbers)


def test_served_from_the_file(weights):
    folder = write()
    x = np.ones((5, 40), np.float32)
    want = forward.fn(weights(), x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = prebake.freeze(weights(), packs=folder)
    assert mapped_bytes(lambda: np.testing.assert_allclose(forward(model, x), want, rtol=1e-3)) > 40 * 70 * 4
    assert all(type(a.base) is _dispatch.Frozen and a.base.stored is not None for a in (model["w"], model["b"]))
    for name, array in (("w", model["w"]), ("stack", model["stack"]), ("b", model["b"])):
        np.testing.assert_array_equal(array, weights()[name])
        assert array.flags.writeable is False
        with pytest.raises(ValueError):
            array.flags.writeable = True
    assert model["deep"][1].flags.f_contiguous
    assert prebake.ready()[-1] == {"path": str(folder), "accepted": True, "level": usable_levels()[0], "functions": [],
                                   "reason": "", "message": "", "refused": {}}
    assert "prebake_mapped_pack_bytes" in prebake.metrics()


def test_two_models_share_the_memory(weights):
    folder = write()
    one, two = (prebake.freeze(weights(), packs=folder) for _ in range(2))
    assert one["w"].ctypes.data == two["w"].ctypes.data


def test_arrays_by_name_without_loading_the_weights(weights):
    found = prebake.load_packs(write())
    assert isinstance(found, prebake.Packs) and found.accepted and len(found) == 5
    assert list(found) == ["['w']", "['b']", "['deep'][0]", "['deep'][1]", "['stack']"]
    np.testing.assert_array_equal(found["['deep'][1]"], weights()["deep"][1])
    m = {"w": found["['w']"], "b": found["['b']"], "deep": [found["['deep'][0]"], found["['deep'][1]"]],
         "stack": found["['stack']"]}
    x = np.ones((2, 40), np.float32)
    assert mapped_bytes(lambda: np.testing.assert_allclose(forward(m, x), forward.fn(weights(), x), rtol=1e-3)) > 0
    assert prebake.load_packs(found.path) is found


def test_other_weights_are_never_served_from_packs(weights):
    """One number differs: that array is packed anew and told about, the others come from the file."""
    folder = write()
    changed = weights()
    changed["w"][39, 69] += 1
    x = np.ones((3, 40), np.float32)
    want = forward.fn(changed, x)
    with pytest.warns(RuntimeWarning, match=r"1 of 5 hold others: \"\['w'\]\" float32\[40, 70\]"):
        model = prebake.freeze(changed, packs=folder)
    np.testing.assert_allclose(forward(model, x), want, rtol=1e-3)
    assert model["w"].base.stored is None and model["b"].base.stored is not None
    with pytest.raises(prebake.BundleError) as caught:
        prebake.configure(strict=True)
        try:
            prebake.freeze(weights(1), packs=folder)
        finally:
            prebake.configure(strict=None)
    assert caught.value.field == "arrays" and caught.value.reason == "STALE_SOURCE"


def test_what_is_frozen_already_moves_to_the_file(weights):
    folder = write()
    model = prebake.freeze(weights())
    view = {"all": model["w"], "row": model["w"][3]}
    prebake.freeze([model, view], packs=folder)
    assert model["w"].base.stored is not None and view["all"] is model["w"]
    assert np.shares_memory(view["row"], model["w"])
    np.testing.assert_array_equal(view["row"], weights()["w"][3])


def test_the_environment_names_the_folder_and_switches_off(weights, monkeypatch):
    folder = write()
    monkeypatch.setenv("PREBAKE_PACKS", str(folder))
    assert prebake.freeze(weights())["w"].base.stored is not None
    monkeypatch.setenv("PREBAKE_PACKS", "off")
    assert prebake.freeze(weights(), packs=folder)["w"].base.stored is None


def test_a_decorated_function_and_a_function_that_makes_the_model(weights):
    pack("weights_to_pack:scaled", "one")
    assert list(prebake.load_packs("one")) == ["W"]
    prebake.pack("weights_to_pack:make()", "two")
    assert len(prebake.load_packs("two")) == 5
    pack("weights_to_pack.py:MODEL", "three")
    for what, text in (("weights_to_pack:plain", "captures no arrays"), ("weights_to_pack:NOTHING", "holds no arrays"),
                       ("weights_to_pack:make", r"make\(\) calls it"), ("weights_to_pack:nothing", "has no")):
        with pytest.raises(prebake.ConfigError, match=text):
            pack(what, "four")
    assert not os.path.exists("four")


USES_PACKS = """
import numpy as np, prebake, weights_to_pack as w
from prebake.vm.run import _dispatch
x = np.ones((3, 70), np.float32)
model = prebake.freeze(w.make(), packs="packed")
@prebake.jit
def product(m, x):
    return x @ m["deep"][0]
np.testing.assert_allclose(product(model, x), x @ w.make()["deep"][0], rtol=1e-4)
assert _dispatch.mapped_pack_bytes() > 0
print(prebake.ready()[0]["level"])
"""


def test_a_bundle_says_which_operands_are_packed(weights, monkeypatch):
    """Exactly those that its kernels read: an embedding of the same kind takes no space."""
    x = np.ones((5, 40), np.float32)
    forward(prebake.freeze(weights()), x)
    entry = forward._entries()[1][0]
    plans = [{"rows": [dict(zip(_dispatch.ROW_FIELDS, row, strict=True)) for row in entry.row_tuples], "code": entry.spec}]
    opened = SimpleNamespace(error=None, records={"module:forward": {"plans": plans}})
    monkeypatch.setattr(bundle, "load_bundle", lambda folder: opened)
    report = pack("weights_to_pack:MODEL", "exact", bundles=["build/bundle"])
    assert report.is_exact and report.matrices == len(entry.spec["packs"]) < 5
    model = prebake.freeze(weights(), packs="exact")
    made, mapped = _dispatch.pack_stats()[1], _dispatch.mapped_pack_bytes()
    np.testing.assert_allclose(forward(model, x), forward.fn(weights(), x), rtol=1e-3)
    assert _dispatch.pack_stats()[1] - made == _dispatch.mapped_pack_bytes() - mapped > 0, "none is made in the process"


def test_levels_are_named_as_for_a_build(weights):
    level = runnable_levels()[0]
    for name in (level.name, level.target):
        assert [*pack("weights_to_pack:MODEL", f"packs-{name}", targets=[name]).packs_bytes] == [level.target]


def test_damage_names_the_arrays(weights):
    folder = write()
    path = folder / "arrays.bin"
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    with pytest.warns(RuntimeWarning, match=r"arrays\.items\[0\] digest \(of .*\['\w+'\]"):
        prebake.freeze(weights(), packs=folder)


def test_all_levels_in_one_folder(weights, tmp_path):
    levels = [level.target for level in built_levels()]
    folder = write(targets=levels)
    found = prebake.load_packs(folder)
    assert sorted(level for names in found.layouts().values() for level in names) == sorted(levels)
    assert main(["check", str(folder)]) == 0
    (tmp_path / "serve.py").write_text(USES_PACKS)
    for level in runnable_levels():
        environment = {**os.environ, "PREBAKE_CPU": level.target,
                       "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
        done = subprocess.run([sys.executable, "-W", "error", "serve.py"], cwd=tmp_path, env=environment,
                              capture_output=True, text=True, timeout=60)
        assert (done.stdout.strip(), done.stderr) == (level.target, "")


def test_another_cpu_level(weights):
    other = next(level.target for level in built_levels() if level.register_bits != host_level().register_bits)
    folder = write(targets=[other])
    if other in usable_levels():  # a lower level of this host: its kernels could use them, ours ask for their own
        x = np.ones((5, 40), np.float32)
        with pytest.warns(RuntimeWarning, match="cpu_level"):
            model = prebake.freeze(weights(), packs=folder)
            assert mapped_bytes(lambda: forward(model, x)) == 0
        np.testing.assert_allclose(forward(model, x), forward.fn(weights(), x), rtol=1e-3)
        (row,) = [row for row in prebake.ready() if row["path"] == str(folder)]
        assert not row["accepted"] and row["reason"] == "CPU_LEVEL"
    else:
        text = check_refused(weights, folder, "cpu_level")
        assert f"--targets {other},{usable_levels()[0]}" in text
    with pytest.raises(prebake.ConfigError, match="unknown CPU level"):
        write(targets=["x86-64-v9"])


# --- damage ---------------------------------------------------------------------------------------------------------------

def edit(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_truncated_at_many_lengths(weights):
    folder = write()
    for name in sorted(os.listdir(folder)):
        whole = (folder / name).read_bytes()
        for length in (0, 1, 63, len(whole) // 2, len(whole) - 4096, len(whole) - 1):
            (folder / name).write_bytes(whole[:max(length, 0)])
            check_refused(weights, folder, "field")
            assert main(["check", str(folder)]) == 1
        (folder / name).write_bytes(whole)
    packs._opened.clear()
    assert prebake.load_packs(folder).accepted


def test_tampered_bytes_are_found_and_named(weights):
    folder = write()
    prebake.freeze(weights(), packs=folder)  # records the check of the whole files
    for name in sorted(os.listdir(folder)):
        whole = (folder / name).read_bytes()
        for at in (0, 200, len(whole) // 3):
            edit(folder / name, at)
            field = {"packs.json": "", "arrays.bin": "arrays.items["}.get(name, "packs.")
            check_refused(weights, folder, field)
            (folder / name).write_bytes(whole)
    packs._opened.clear()
    assert prebake.load_packs(folder).accepted


def test_another_version(weights, monkeypatch):
    for field in ("packs_format", "prebake_version", "platform"):
        with monkeypatch.context() as patch:
            patch.setattr(packs, "host_stamp", lambda field=field: {"packs_format": 1, "prebake_version": "0.1.0",
                                                                    "platform": "x", field: "of another"})
            folder = write(f"p-{field}")
        check_refused(weights, folder, field if field != "prebake_version" else "p")


def test_manifests_that_lie_stay_inside_their_files(weights):
    """Places, sizes and strides out of the file, with a digest that fits: refused, never read."""
    import json

    from prebake.vm.run.bundle import file_digest

    folder = write()
    whole = json.loads((folder / "packs.json").read_bytes())
    layout = next(iter(whole["packs"]))

    def lie(change):
        manifest = json.loads(json.dumps(whole))
        del manifest["digest"]
        change(manifest)
        body = json.dumps(manifest)[1:].encode()
        (folder / "packs.json").write_bytes(b'{"digest": "' + file_digest(body).encode() + b'",\n' + body)

    def set_item(where, column, value):
        def change(manifest):
            record = manifest["arrays"] if where == "arrays" else manifest["packs"][layout]
            record["items"][0][column] = value
        return change

    changes = [set_item("arrays", 0, 1 << 40), set_item("arrays", 1, -1), set_item("arrays", 0, "x"),
               set_item("packs", 0, -64), set_item("packs", 1, 1 << 62), set_item("packs", 3, 99),
               lambda m: m["arrays"].update(file="../arrays.bin"), lambda m: m["arrays"].pop("items"),
               lambda m: m["names"].update(x=[0, 0, "<f4", [1 << 40], [4]]), lambda m: m["names"].update(x=[99]),
               lambda m: m.update(packs=3), lambda m: m.update(names=None)]
    for change in changes:
        lie(change)
        check_refused(weights, folder, "field")
    lie(set_item("packs", 6, 1))  # a key that no kernel asks for: the operand is packed here
    packs._opened.clear()
    model = prebake.freeze(weights(), packs=folder)
    x = np.ones((5, 40), np.float32)
    np.testing.assert_allclose(forward(model, x), forward.fn(weights(), x), rtol=1e-3)


def test_folders_that_are_none(weights, tmp_path):
    with pytest.raises(prebake.BundleError, match="no such folder"):
        prebake.load_packs("nowhere")
    with pytest.warns(RuntimeWarning, match="no such folder"):
        assert prebake.freeze(np.ones(3, np.float32), packs="nowhere")[0] == 1
    (tmp_path / "empty").mkdir()
    check_refused(weights, tmp_path / "empty", "packs.json")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("precious")
    with pytest.raises(prebake.ConfigError, match="holds no packs"):
        write("full")
    folder = write()
    for name in os.listdir(folder):
        whole = (folder / name).read_bytes()
        (folder / name).unlink()
        os.mkfifo(folder / name)
        check_refused(weights, folder, "regular file")
        (folder / name).unlink()
        (folder / name).write_bytes(whole)


# --- checks are remembered ------------------------------------------------------------------------------------------------

@pytest.fixture
def hashed(monkeypatch):
    """Fields whose items were read in full."""
    fields: list[str] = []
    real = packs.Packs._check_items

    def counted(self, field, mapped, items):
        fields.append(field)
        real(self, field, mapped, items)

    monkeypatch.setattr(packs.Packs, "_check_items", counted)
    monkeypatch.setattr(cache, "_here", set())
    return fields


def again(folder):
    """Open the folder as a new process would."""
    packs._opened.clear()
    cache._here.clear()
    return prebake.load_packs(folder)


def test_files_are_read_in_full_once_for_their_identity(weights, hashed, tmp_path):
    folder = write()
    assert again(folder).accepted and len(hashed) == 2
    assert again(folder).accepted and len(hashed) == 2, "found in the cache folder"
    os.utime(folder / "arrays.bin")
    assert again(folder).accepted and hashed[2:] == ["arrays"], "touched: another identity"
    shutil.copytree(folder, tmp_path / "copy")
    assert again(tmp_path / "copy").accepted and len(hashed) == 5
    assert cache.clear_checks() > 0
    assert again(folder).accepted and len(hashed) == 7


def test_an_old_time_set_back_does_not_hide_a_change(weights, hashed):
    folder = write()
    assert again(folder).accepted
    status = os.stat(folder / "arrays.bin")
    edit(folder / "arrays.bin", 100)
    os.utime(folder / "arrays.bin", ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.warns(RuntimeWarning, match="digest"):
        assert not again(folder).accepted


@pytest.mark.parametrize("kind", ["a file", "a folder that cannot be written", "damaged"])
def test_without_a_cache_folder_every_process_checks(weights, hashed, monkeypatch, tmp_path, kind):
    place = tmp_path / "cache"
    folder = write()
    if kind == "a file":
        place.write_text("")
    else:
        (place / "checked").mkdir(parents=True)
    monkeypatch.setenv("PREBAKE_CACHE_DIR", str(place))
    if kind == "a folder that cannot be written":
        def refuse(*args, **kwargs):
            raise OSError(30, "Read-only file system")

        monkeypatch.setattr(cache.os, "replace", refuse)
    for expected in (2, 4):
        assert again(folder).accepted
        assert len(hashed) == expected
        if kind == "damaged":
            for path in (place / "checked").iterdir():
                path.write_bytes(b"\xff\xfe rubbish")
    if kind == "a folder that cannot be written":
        assert not list((place / "checked").iterdir()), "nothing half written stays"


def test_records_are_bounded(hashed, monkeypatch, tmp_path):
    monkeypatch.setenv("PREBAKE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "MOST_RECORDS", 3)
    for i in range(6):
        cache.record_check((1, i, 2, 3, 4), "d")
    assert len(os.listdir(cache.checks_folder())) == 3
    cache._here.clear()
    assert cache.is_checked((1, 5, 2, 3, 4), "d") and not cache.is_checked((1, 5, 2, 3, 5), "d")
    assert not cache.is_checked((1, 5, 2, 3, 4), "e")


# --- writing --------------------------------------------------------------------------------------------------------------

def test_read_only_folders(weights, tmp_path):
    """Packs are read from a folder that cannot be written; writing there is an error of one line."""
    folder = write()
    for name in os.listdir(folder):
        os.chmod(folder / name, 0o444)
    os.chmod(folder, 0o555)
    try:
        assert again(folder).accepted
    finally:
        os.chmod(folder, 0o755)
    (tmp_path / "file").write_text("")
    assert main(["pack", "weights_to_pack:MODEL", "-o", str(tmp_path / "file" / "inner")]) == 1


def test_readers_see_whole_folders_while_two_write(weights, tmp_path):
    """Two writers and a reader at once: every look finds packs of one object, never a mixture."""
    folder = write()
    failures: list[BaseException] = []
    done = threading.Event()

    def writer(what):
        try:
            for _ in range(15):
                pack(what, folder)
        except BaseException as error:
            failures.append(error)

    def reader():
        try:
            while not done.is_set():
                packs._opened.clear()
                found = prebake.load_packs(folder)
                assert found.accepted and not found.refused, found.error or found.refused
                assert len(found) in (1, 5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=writer, args=(what,)) for what in ("weights_to_pack:MODEL", "weights_to_pack:W")]
    look = threading.Thread(target=reader)
    for thread in (*threads, look):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    look.join()
    assert not failures
    assert [name for name in os.listdir(tmp_path) if name.startswith(".packs-")] == []


def test_mapped_packs_outlive_their_folder(weights):
    folder = write()
    model = prebake.freeze(weights(), packs=folder)
    shutil.rmtree(folder)
    x = np.ones((5, 40), np.float32)
    np.testing.assert_allclose(forward(model, x), forward.fn(weights(), x), rtol=1e-3)


def test_the_command(weights, capsys, tmp_path):
    assert main(["pack", "weights_to_pack:MODEL", "-o", "out", "--transposed"]) == 0
    said = capsys.readouterr().out
    assert "5 arrays" in said and "10 packs" in said and host_level().target in said
    assert main(["check", "out"]) == 0
    assert "packs of 5 arrays" in capsys.readouterr().out
    edit(Path("out/arrays.bin"), 10)
    assert main(["check", "out"]) == 1
    assert "digest" in capsys.readouterr().out
    assert main(["pack", "weights_to_pack:NOTHING", "-o", "other"]) == 1


def test_packing_a_module_that_freezes_with_these_packs(tmp_path):
    """The folder is not there yet when its own module is imported to pack it: no warning, and packs afterwards."""
    (tmp_path / "service.py").write_text(
        "import numpy as np, prebake\n"
        "W = prebake.freeze(np.arange(600, dtype=np.float32).reshape(20, 30), packs='packed')\n"
        "@prebake.jit\ndef f(x):\n    return x @ W\n")
    run = [sys.executable, "-W", "error"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    for _ in range(2):
        subprocess.run([*run, "-m", "prebake", "pack", "service:f", "-o", "packed"], cwd=tmp_path, check=True,
                       env=environment, capture_output=True, timeout=60)
    code = ("import numpy as np, service\nfrom prebake.vm.run import _dispatch\n"
            "x = np.ones((2, 20), np.float32)\nassert (service.f(x) == x @ np.asarray(service.W)).all()\n"
            "assert _dispatch.mapped_pack_bytes() > 0")
    subprocess.run([*run, "-c", code], cwd=tmp_path, check=True, env=environment, timeout=60)
