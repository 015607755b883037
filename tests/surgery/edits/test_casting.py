"""Casting tensors of a plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ckpttool import open_checkpoint, save_checkpoint
from ckpttool.errors import ChecksumError, SelectionError, SurgeryError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.surgery import Plan, cast, prune, rename, write
from ckpttool.surgery.edits.casting import parse_cast
from ckpttool.tensor.casting import sort_of
from ckpttool.tensor.dtypes import dtype_of_name
from tests.faults.checkpoints import NAMES, OBJECTS, SLICES, copy_of
from tests.support.conversions import everything
from tests.support.handmade import Bundle


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    """A checkpoint with tensors of several sorts."""
    made = str(tmp_path / "m")
    save_checkpoint(
        made,
        {
            "net/w": np.array([1.5, -2.25, 1e-3], np.float32),
            "net/big": np.array([1e30], np.float64),
            "net/n": np.array([[1, 300]], np.int64),
            "net/s": np.array(["text"], object),
            "net/flag": np.array(True),
        },
    )
    return made


def test_a_pattern_casts_the_sort_of_its_dtype(prefix: str, tmp_path: Path) -> None:
    with open_checkpoint(prefix) as source:
        plan = cast(Plan.of(source), {"net": "bfloat16"})
        changes = {each.key: each for each in plan.changes}
        assert sorted(changes) == ["net/big", "net/w"]
        assert {each.action for each in changes.values()} == {"cast"}
        assert any("left as they are: 'net/flag', 'net/n', 'net/s'" in note for note in plan.notes)
        write(rename(plan, {"net": "model"}), tmp_path / "out")
        write(cast(Plan.of(source), {"net/n": "float16", "net/flag": "int8"}), tmp_path / "ints")
        with pytest.raises(SurgeryError, match="300, out of the range of int8") as raised:
            write(cast(Plan.of(source), {"net/n": "int8"}), tmp_path / "no")
        assert raised.value.key == "net/n"
        write(cast(Plan.of(source), {"net/n": "int8"}, saturate=True), tmp_path / "yes")
    with open_checkpoint(tmp_path / "out") as read:
        assert read["model/w"].dtype.name == "bfloat16"
        assert read["model/w"].astype(float).tolist() == [1.5, -2.25, 0.00099945068359375]
        assert read["model/s"].tolist() == [b"text"]
    with open_checkpoint(tmp_path / "ints") as read:
        assert (read["net/n"].dtype.name, read["net/n"].tolist()) == ("float16", [[1, 300]])
        assert (read["net/flag"].dtype.name, int(read["net/flag"])) == ("int8", 1)
    with open_checkpoint(tmp_path / "yes") as read:
        assert read["net/n"].tolist() == [[1, 127]]
    assert not (tmp_path / "no.index").exists()


@pytest.mark.parametrize(
    ("dtypes", "message"),
    [
        ({"net/w": "float33"}, "nothing can be cast to that; dtypes: 'float32'"),
        ({"net/w": "string"}, "nothing can be cast to that"),
        ({"net/w": "float32"}, "already float32"),
        ({"none": "float32"}, "none"),
        ({"net/s": "float32"}, "string cannot be cast to float32"),
        ({"net/w": "float16", "net/*": "bfloat16"}, "makes it float16, and 'net/*' makes it"),
    ],
)
def test_what_is_refused(prefix: str, dtypes: dict[str, str], message: str) -> None:
    with open_checkpoint(prefix) as source, pytest.raises((SelectionError, SurgeryError)) as raised:
        cast(Plan.of(source), dtypes)
    assert message in str(raised.value)


def test_the_meta_file_describes_the_old_dtypes(tmp_path: Path) -> None:
    found = copy_of(NAMES, tmp_path / "src")
    with open_checkpoint(found) as source:
        receipt = write(cast(Plan.of(source), {"**": "half"}), tmp_path / "out")
    assert receipt.meta is None
    assert any("describes variables of other dtypes" in note for note in receipt.notes)


def test_object_graph_slots_and_partitioned_tensors(tmp_path: Path) -> None:
    for number, name in enumerate((OBJECTS, SLICES)):
        found = copy_of(name, tmp_path / str(number))
        before = everything(found)
        with open_checkpoint(found) as source:
            plan = cast(Plan.of(source), {"**": "float64"})
            if number == 0:
                plan = prune(plan, slots=True)
            write(plan, tmp_path / f"out{number}", compact=True)
        after = everything(tmp_path / f"out{number}")
        for key, (dtype, shape, data) in after.items():
            if key == GRAPH_KEY:
                continue
            if sort_of(dtype_of_name(before[key][0])) != "float":
                assert after[key] == before[key]
                continue
            old = np.frombuffer(before[key][2], dtype_of_name(before[key][0]).numpy_dtype)
            assert (dtype, shape) == ("float64", before[key][1])
            assert np.frombuffer(data, np.float64).tolist() == old.tolist()


def test_damaged_bytes_are_not_cast(tmp_path: Path) -> None:
    made = Bundle().add(b"a", 1, [1], b"AAAA", crc=7)
    with open_checkpoint(made.write(tmp_path / "m")) as source, pytest.raises(ChecksumError):
        write(cast(Plan.of(source), {"a": "float64"}), tmp_path / "out")
    assert parse_cast("a=b=c") == ("a=b", "c")
    for text in ("a", "=float32", "a="):
        with pytest.raises(SelectionError, match="is not PATTERN=DTYPE"):
            parse_cast(text)
