"""Who may read what a writer wrote."""

from __future__ import annotations

import pytest

from ckpttool.coding.version import Version, decode_version
from ckpttool.errors import CkptError, CorruptError, UnsupportedError

DECODED = [
    ("nothing", "", Version()),
    ("producer", "0801", Version(1)),
    ("both", "08021001", Version(2, 1)),
    ("bad ones", "080118051807", Version(1, 0, (5, 7))),
    ("bad ones, packed", "08011a020507", Version(1, 0, (5, 7))),
    ("negative", "08ffffffffffffffffff01", Version(-1)),
    ("the last one counts", "08010803", Version(3)),
    ("others are passed over", "08012001", Version(1)),
]


@pytest.mark.parametrize(("data", "expected"), [row[1:] for row in DECODED], ids=lambda row: "")
def test_decode(data: str, expected: Version) -> None:
    assert decode_version(bytes.fromhex(data)) == expected


@pytest.mark.parametrize("data", ["08", "1a0280", "1a05", "0b"])
def test_damage(data: str) -> None:
    with pytest.raises(CkptError):
        decode_version(bytes.fromhex(data))


def test_who_may_read() -> None:
    Version(7, 1, (2, 3)).check(1, "file")
    with pytest.raises(UnsupportedError, match="the file needs readers of format version 2"):
        Version(2, 2).check(1, "file")
    with pytest.raises(UnsupportedError, match="the file bars readers of format version 1"):
        Version(2, 0, (1,)).check(1, "file")
    with pytest.raises(CorruptError, match="the file names format version -1"):
        Version(-1).check(1, "file")
