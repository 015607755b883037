"""What the manual says of V1 files is what is written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ckpttool.legacy.writer import _MOST_BYTES, LegacyWriter
from ckpttool.tensor.dtypes import dtype_of_name
from ckpttool.tensor.proto_values import FIELDS
from tests.test_man_pages import PAGES, dump, section, shown_blocks


def test_dump_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with LegacyWriter(str(path)) as writer:
        writer.add("w", dtype_of_name("int32"), (2,), lambda: np.array([1, -2], np.int32))
    assert dump("legacy") == path.read_bytes()


def test_fields_of_dtypes() -> None:
    fields = shown_blocks(section(PAGES["ckpt-bundle.5"], "FORMAT V1"))[1]
    told: dict[str, int] = {}
    number = 0
    for line in fields.splitlines()[1:]:
        head = re.match(r"\w+ += (\d+) ", line)
        number = int(head[1]) if head else number
        names = re.findall(r"[a-z]+\d*", line[head.end() :] if head else line)
        told.update((name, number) for name in names if name in FIELDS)
    assert told == {name: FIELDS[name].number for name in _MOST_BYTES}
