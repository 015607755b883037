"""Statistics and histograms of many tensors, in one pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ckpttool
from ckpttool.checkpoint.open import opened
from ckpttool.query.listing import list_tensors
from ckpttool.query.report import values
from ckpttool.query.report.values import bin_heights, measure_tensors
from ckpttool.query.values.statistics import Histogram


@pytest.mark.parametrize("jobs", [1, 3])
def test_numbers_are_those_of_numpy(tmp_path: Path, jobs: int) -> None:
    rng = np.random.default_rng(3)
    arrays = {f"t{at}": rng.normal(at, 1, 60_000).astype(np.float32) for at in range(9)}
    ckpttool.save_checkpoint(str(tmp_path / "m"), arrays)
    seen: list[tuple[int, int]] = []
    with opened(str(tmp_path / "m")) as ckpt:
        rows = list_tensors(ckpt).rows
        found = list(
            measure_tensors(ckpt, rows, jobs=jobs, on_progress=lambda *each: seen.append(each))
        )
    assert seen[-1] == (9 * 240_000, 9 * 240_000)
    for row, each in zip(rows, found, strict=True):
        assert each.statistics is not None and each.histogram is not None
        assert each.verified and not each.sampled
        assert each.statistics.mean == pytest.approx(arrays[row.key].mean(), rel=1e-5)
        assert each.statistics.std == pytest.approx(arrays[row.key].std(), rel=1e-5)
        assert sum(each.histogram.counts) == 60_000


def test_histogram_of_a_large_tensor_counts_runs_all_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "_SAMPLE", 1000)
    monkeypatch.setattr(values, "_RUN", 10)
    ckpttool.save_checkpoint(str(tmp_path / "m"), {"t": np.arange(10_050)})
    with opened(str(tmp_path / "m")) as ckpt:
        (found,) = measure_tensors(ckpt, list_tensors(ckpt).rows)
    assert found.sampled and found.statistics is not None and found.histogram is not None
    assert (found.statistics.count, found.statistics.max) == (10_050, 10_049)
    assert (found.histogram.low, found.histogram.high) == (0, 10_049)
    assert 1000 <= sum(found.histogram.counts) <= 1010
    assert min(found.histogram.counts) >= 20


def test_a_sample_does_not_depend_on_how_elements_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_SAMPLE", 100)
    monkeypatch.setattr(values, "_RUN", 1)
    samples = []
    for size in (7, 30, 1000):
        sample = values._Sample(1000)
        for start in range(0, 1000, size):
            sample.add(np.arange(1000)[start : start + size])
        samples.append(np.concatenate(sample.pieces).tolist())
    assert samples[0] == samples[1] == samples[2] == list(range(0, 1000, 10))


def test_only_an_empty_bin_has_no_height() -> None:
    assert bin_heights(Histogram(0, 1, (0, 1, 500, 1000))) == (0, 1, 18, 35)
