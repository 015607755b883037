from __future__ import annotations

import re

import pytest

from ckpttool.render import humanize


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (999 * 1024, "999.0 KiB"),
        (1000 * 1024, "1.0 MiB"),
        (1 << 20, "1.0 MiB"),
        (300 << 30, "300.0 GiB"),
        (1 << 62, "4.0 EiB"),
        (1 << 75, "32768.0 EiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_size(count: int, text: str) -> None:
    assert humanize.size(count) == text


def test_numbers() -> None:
    assert humanize.number(1234567) == "1,234,567"
    assert humanize.counted(0, "tensor") == "0 tensors"
    assert humanize.counted(1, "tensor") == "1 tensor"
    assert humanize.counted(2000, "tensor") == "2,000 tensors"
    assert humanize.counted(2, "index", "indices") == "2 indices"


def test_shape() -> None:
    assert humanize.shape(()) == "[]"
    assert humanize.shape((3, 4)) == "[3, 4]"


def test_moment() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:05", humanize.moment(1_700_000_045.9))
    assert humanize.moment(1e30) == ""
    assert humanize.moment(float("nan")) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (0.3, "0.3 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3600, "1 h 00 min"),
        (7620, "2 h 07 min"),
        (float("inf"), "?"),
        (-1.0, "?"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert humanize.duration(seconds) == text
