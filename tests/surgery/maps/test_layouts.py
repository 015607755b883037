"""Values in another layout, written by every writer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ckpttool import open_checkpoint, save_checkpoint
from ckpttool.errors import ChecksumError, CkptError, KeyCollisionError, SurgeryError
from ckpttool.surgery import Plan, apply_map, write
from ckpttool.surgery.maps.layouts import LaidOutValue
from ckpttool.surgery.maps.reading import inverted
from ckpttool.surgery.rules import MoveRule, TensorRule
from ckpttool.surgery.values import StoredValue
from ckpttool.tensor import layout as layouts
from ckpttool.tensor.layout import TensorLayout
from ckpttool.tensor.values import Array, joined_array
from tests.support import fixtures
from tests.support.conversions import write_v1

CONV = np.arange(5 * 4 * 3 * 2, dtype=np.float32).reshape(5, 4, 3, 2)
TURNED = TensorLayout.of(CONV.shape, (3, 2, 0, 1))
RULES: list[MoveRule] = [
    TensorRule("net/conv", "net.conv", TURNED),
    TensorRule("net/flat", "net.flat", TensorLayout.of((6,), None, (2, 3))),
    MoveRule("net", "other"),
]
ARRAYS: dict[str, Array] = {
    "net/conv": CONV,
    "net/flat": np.arange(6),
    "net/bias": np.ones(2),
    "x": np.zeros(()),
}
EXPECTED = {
    "net.conv": CONV.transpose(3, 2, 0, 1),
    "net.flat": np.arange(6).reshape(2, 3),
    "other/bias": np.ones(2),
    "x": np.zeros(()),
}


@pytest.fixture(params=[16, 100, 1 << 25])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(layouts, "_SMALL", request.param)
    return int(request.param)


@pytest.mark.parametrize("compact", [False, True])
def test_names_and_layouts_there_and_back(tmp_path: Path, compact: bool, small: int) -> None:
    save_checkpoint(str(tmp_path / "a"), ARRAYS)
    with open_checkpoint(str(tmp_path / "a")) as source:
        plan = apply_map(Plan.of(source), RULES)
        assert {(each.action, each.new_key) for each in plan.changes} == {
            ("layout", "net.conv"),
            ("layout", "net.flat"),
            ("rename", "other/bias"),
        }
        write(plan, str(tmp_path / "b"), compact=compact)
    with open_checkpoint(str(tmp_path / "b")) as found:
        assert {key: value.tolist() for key, value in found.items()} == {
            key: value.tolist() for key, value in EXPECTED.items()
        }
        write(apply_map(Plan.of(found), inverted(RULES)), str(tmp_path / "c"), compact=compact)
    with open_checkpoint(str(tmp_path / "c")) as back:
        assert {key: value.tolist() for key, value in back.items()} == {
            key: value.tolist() for key, value in ARRAYS.items()
        }


def test_partitioned_tensors_and_the_old_format(tmp_path: Path, small: int) -> None:
    """Slices are joined before they are permuted."""
    prefix = fixtures.bundle("v2/tf2.21/partitioned_sharded/model").prefix
    arrays = {"w": CONV.reshape(20, 6)}
    v1 = write_v1(tmp_path / "v1", arrays, slices={"w": ["0,4:-", "4,16:-"]})
    for path in (prefix, v1):
        with open_checkpoint(path) as source:
            for tensor in Plan.of(source).tensors:
                shape = tensor.entry.shape
                if tensor.entry.dtype.size is None or len(shape) != 2:
                    continue
                layout = TensorLayout.of(shape, (1, 0))
                value = LaidOutValue(StoredValue(source, tensor), layout)
                assert (value.dtype, value.shape) == (tensor.entry.dtype, shape[::-1])
                found = joined_array(value.dtype, value.shape, value.chunks())
                assert found.tolist() == source[tensor.key].T.tolist()


def test_a_value_of_a_plan_is_laid_out(tmp_path: Path) -> None:
    save_checkpoint(str(tmp_path / "a"), ARRAYS)
    with open_checkpoint(str(tmp_path / "a")) as source:
        stored = StoredValue(source, Plan.of(source).tensors[1])
        turned = LaidOutValue(stored, TURNED)
        assert turned.shape == (2, 3, 5, 4)
        back = LaidOutValue(turned, turned.layout.inverse())
        assert back.sources == stored.sources
        assert b"".join(back.chunks()) == CONV.tobytes()


def test_damage_is_found(tmp_path: Path, small: int) -> None:
    save_checkpoint(str(tmp_path / "a"), {"w": CONV})
    shard = tmp_path / "a.data-00000-of-00001"
    data = bytearray(shard.read_bytes())
    data[7] ^= 4
    shard.write_bytes(data)
    with open_checkpoint(str(tmp_path / "a")) as source:
        plan = apply_map(Plan.of(source), [replace(RULES[0], old="w")])
        with pytest.raises(ChecksumError) as caught:
            for chunk in plan.tensors[0].value.chunks():  # type: ignore[union-attr]
                del chunk
        assert caught.value.key == "w"
        with pytest.raises(CkptError):
            write(plan, str(tmp_path / "b"))
    assert {path.name for path in tmp_path.iterdir()} == {"a.index", shard.name}


def test_what_cannot_be_mapped(tmp_path: Path) -> None:
    save_checkpoint(str(tmp_path / "a"), ARRAYS)
    source = open_checkpoint(str(tmp_path / "a"))
    with source, pytest.raises(KeyCollisionError, match="would both be called 'x'"):
        apply_map(Plan.of(source), [TensorRule("net/conv", "x")])
    objects = fixtures.bundle("v2/tf2.21/keras3_adam/ckpt-1").prefix
    source = open_checkpoint(objects)
    with source, pytest.raises(SurgeryError, match="has an object graph"):
        apply_map(Plan.of(source), RULES)
