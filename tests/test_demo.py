"""The demonstration: its data, its model, its traffic; and, slow, all of it."""

from __future__ import annotations

import numpy as np
import pytest

from prebake.pgo import demo


def test_the_digits_are_those_of_the_uci_repository():
    images, labels = demo.load_digits()
    assert images.shape == (1797, 64) and images.dtype == np.float32 and 0 <= images.min() < images.max() == 1.0
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert "CC BY 4.0" in demo.ATTRIBUTION and "10.24432/C50P49" in demo.ATTRIBUTION


def test_training_is_seeded_and_learns(tmp_path):
    assert demo.prepare(tmp_path) > 0.94
    images, labels = demo.load_digits()
    first, second = (demo.train(images[:200], labels[:200], epochs=2) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(w.dtype == np.float32 for w in first)


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(3)
    weights = [rng.standard_normal(s) for s in ((5, 7), (7,), (7, 6), (6,), (6, 4), (4,))]
    x, labels = rng.standard_normal((9, 5)), rng.integers(0, 4, 9)

    def loss():
        return -np.log(demo._forward(weights, x)[-1][np.arange(9), labels]).mean()

    for weight, gradient in zip(weights, demo._gradients(weights, x, labels), strict=True):
        at = tuple(0 for _ in weight.shape)
        before = weight[at]
        weight[at] = before + 1e-6
        high = loss()
        weight[at] = before - 1e-6
        low = loss()
        weight[at] = before
        assert gradient[at] == pytest.approx((high - low) / 2e-6, abs=1e-6)


def test_traffic_has_many_sizes():
    sizes = demo.traffic(np.random.default_rng(1), 2000)
    assert sizes.min() == 1 and 200 < sizes.max() <= 256 and len(set(sizes.tolist())) > 60


def test_a_contestant_with_other_answers_is_refused():
    right = demo.Figures("NumPy", "0", [{"answer": [[0.5, 0.5]]}])
    wrong = demo.Figures("prebake", "1", [{"answer": [[0.5, 0.6]]}])
    demo._check_answers([right, right])
    with pytest.raises(demo.InternalError, match="other probabilities"):
        demo._check_answers([right, wrong])


@pytest.mark.slow
def test_the_whole_demonstration(tmp_path, monkeypatch, capsys):
    from test_report import _parse

    monkeypatch.setenv("PREBAKE_CACHE_DIR", str(tmp_path / "cache"))
    assert demo.run(tmp_path) == 0
    out = capsys.readouterr().out
    rows = {line.split("  ")[0]: line.split() for line in out.splitlines() if line.startswith(("NumPy", "prebake,"))}
    assert rows["prebake, with bundle"][-3:-1] == ["1000", "0"]  # prebuilt, jit
    assert rows["prebake, no bundle"][-3:-1] == ["0", "1000"]
    assert len({row[-1] for row in rows.values()}) == 1  # the same accuracy
    page = (tmp_path / demo.PAGE).read_text(encoding="utf-8")
    parsed = _parse(page)
    assert parsed.addresses == [] and parsed.counts["svg"] == 6 and "CC BY 4.0" in page
