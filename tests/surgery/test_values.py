"""New values in plans, as every writer stores them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.errors import (
    ChecksumError,
    CkptError,
    CorruptError,
    DestinationError,
    SurgeryError,
    TruncatedError,
)
from ckpttool.surgery import Plan, rename, write
from ckpttool.surgery.plan import AddedTensor
from ckpttool.surgery.values import (
    BytesValue,
    NewValue,
    StoredValue,
    ValueAction,
    ValueSource,
    int64_value,
    value_of,
)
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.recoding.spread import Recoding
from ckpttool.surgery.writing.write import Writing
from ckpttool.tensor.dtypes import DType, dtype_of_name
from tests.faults.checkpoints import NAMES, OBJECTS, SLICES, copy_of, names, small_checkpoint
from tests.support import encoder
from tests.support.conversions import everything, write_v1
from tests.support.conversions import findings as all_findings
from tests.support.handmade import Bundle, shard_path

DEAD = ("gap-nonzero", "tail-nonzero")
FLOAT32 = dtype_of_name("float32")
FLOAT16 = dtype_of_name("float16")


def findings(target: str | Path) -> list[str]:
    """Return what is wrong with a checkpoint, except that dead bytes lie between tensors."""
    return [each.code for each in all_findings(target) if each.code not in DEAD]


def with_values(plan: Plan, values: dict[str, NewValue]) -> Plan:
    """Return a plan with new values for some of its tensors."""
    assert values.keys() <= {each.key for each in plan.tensors}
    return plan.with_values(values)


def test_a_value_takes_the_place_of_the_bytes(tmp_path: Path) -> None:
    """A shard of its own beside carried ones; compact, with less room; and in place."""
    prefix = copy_of(OBJECTS, tmp_path / "src")
    before = everything(prefix)
    key = "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
    data = np.arange(np.prod(before[key][1]), dtype=np.float16).tobytes()
    new = BytesValue(FLOAT16, before[key][1], data)
    expected = before | {key: ("float16", before[key][1], data)}
    ways: tuple[Writing, ...] = ({}, {"data": "copy"}, {"compact": True})
    for number, how in enumerate(ways):
        with open_checkpoint(prefix) as source:
            plan = with_values(Plan.of(source), {key: new})
            (change,) = plan.changes
            assert (change.action, change.new_key, change.bytes) == ("set", key, 2 * len(data))
            target = str(tmp_path / str(number))
            receipt = write(plan, target, **how)
        assert everything(target) == expected
        assert findings(target) == []
        assert bool(receipt.bytes_dead) == ("compact" not in how)
        if "compact" not in how:
            assert receipt.shards[-1].how == "new"
            assert receipt.shards[-1].bytes == len(data)
    for how in ways[::2]:
        with open_checkpoint(prefix) as source:
            write(
                with_values(Plan.of(source), {key: new}),
                in_place=True,
                compact=how.get("compact", False),
            )
        assert everything(prefix) == expected
        assert findings(prefix) == []
        assert sum(".data-" in name for name in names(tmp_path / "src")) == (1 if how else 2)


def test_it_composes_with_renaming(tmp_path: Path) -> None:
    with open_checkpoint(copy_of(NAMES, tmp_path / "src")) as source:
        plan = Plan.of(source)
        tensor = next(each for each in plan.tensors if each.entry.dtype == FLOAT32)
        value = BytesValue(FLOAT16, (3,), b"aabbcc")
        plan = rename(with_values(plan, {tensor.key: value}), {tensor.key: "other/name"})
        (change,) = plan.changes
        assert (change.action, change.key, change.new_key) == ("set", tensor.key, "other/name")
        write(plan, tmp_path / "out")
    assert everything(tmp_path / "out")["other/name"] == ("float16", (3,), b"aabbcc")


def test_a_partitioned_tensor_becomes_whole(tmp_path: Path) -> None:
    prefix = copy_of(SLICES, tmp_path / "src")
    before = everything(prefix)
    with open_checkpoint(prefix) as source:
        plan = Plan.of(source)
        tensor = next(each for each in plan.tensors if each.slices)
        stored = StoredValue(source, tensor)
        assert b"".join(map(bytes, stored.chunks())) == before[tensor.key][2]
        assert value_of(source, tensor).sources == (ValueSource(source, tensor.key),)
        plan = with_values(plan, {tensor.key: stored})
        assert plan.read == (source,)
        assert (plan.changes[0].action, plan.changes[0].bytes) == ("graft", tensor.bytes)
        write(plan, tmp_path / "out")
        write(plan, tmp_path / "compact", compact=True)
        prepare(plan, str(tmp_path / "recoded"), WriteOptions(recoding=Recoding(shards=2))).write()
    for target in ("out", "compact", "recoded"):
        assert everything(tmp_path / target) == before
        with open_checkpoint(tmp_path / target) as written:
            assert not written.entries[tensor.key].slices
        assert findings(tmp_path / target) == []


def test_v1_and_rewritten_values(tmp_path: Path) -> None:
    arrays = {"a": np.arange(4, dtype=np.float32), "s": np.array([b"x", b"yz"], object)}
    (tmp_path / "in").mkdir()
    write_v1(tmp_path / "in" / "m", arrays)
    text = encoder.string_data([b"hello", b""])[0]
    values: dict[str, NewValue] = {
        "a": BytesValue(dtype_of_name("int32"), (2,), bytes(8)),
        "s": BytesValue(dtype_of_name("string"), (2,), text),
    }
    with open_checkpoint(tmp_path / "in" / "m") as source:
        plan = with_values(Plan.of(source), values)
        plan = replace(plan, added=(AddedTensor("step", int64_value(-7)),))
        assert write(plan, tmp_path / "v1").tensors == 3
        how = WriteOptions(generation="V2")
        assert prepare(plan, str(tmp_path / "v2"), how).write().tensors == 3
        write(plan, in_place=True)
    for target in ("v1", "v2", "in/m"):
        found = everything(tmp_path / target)
        assert found["a"] == ("int32", (2,), bytes(8))
        assert found["step"][2] == (-7).to_bytes(8, "little", signed=True)
        with open_checkpoint(tmp_path / target) as read:
            assert read["s"].tolist() == [b"hello", b""]
        assert findings(tmp_path / target) == []


def test_a_big_endian_checkpoint_stays_one(tmp_path: Path) -> None:
    made = Bundle(header=encoder.header(1, endianness=1))
    made.add(b"a", 1, [2], bytes.fromhex("3f800000 40000000"))
    made.add(b"c", 8, [1], bytes.fromhex("3f800000 40000000"))
    made.add(b"u", 4, [2], b"\1\2")
    made.write(tmp_path / "m")
    values: dict[str, NewValue] = {
        "a": BytesValue(FLOAT32, (2,), np.array([3, 4], "<f4").tobytes()),
        "c": BytesValue(dtype_of_name("complex64"), (1,), np.array([5 + 6j], "<c8").tobytes()),
        "u": BytesValue(dtype_of_name("uint8"), (2,), b"\3\4"),
    }
    with open_checkpoint(tmp_path / "m") as source:
        plan = with_values(Plan.of(source), values)
        text = BytesValue(dtype_of_name("string"), (1,), encoder.string_data([b"hi"])[0])
        added = (AddedTensor("n", int64_value(9)), AddedTensor("s", text))
        write(replace(plan, added=added), tmp_path / "out")
    with open_checkpoint(tmp_path / "out") as read:
        assert read.bundle.big_endian
        assert read["a"].tolist() == [3, 4]
        assert read["c"].tolist() == [5 + 6j]
        assert read["u"].tolist() == [3, 4]
        assert (int(read["n"]), read["s"].tolist()) == (9, [b"hi"])
    assert findings(tmp_path / "out") == []


@dataclass(frozen=True)
class Chunks:
    """A value that yields these chunks, or raises."""

    given: tuple[bytes | CkptError, ...]
    dtype: DType = FLOAT32
    shape: tuple[int, ...] = (2,)
    sources: tuple[ValueSource, ...] = ()
    action: ValueAction = "set"

    def chunks(self) -> Iterator[memoryview | bytes]:
        for each in self.given:
            if isinstance(each, CkptError):
                raise each
            yield each


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((b"1234",), TruncatedError),
        ((b"1234", b"5678", b"9"), CorruptError),
        ((b"1234", SurgeryError("no such value")), SurgeryError),
    ],
)
def test_a_value_that_fails_leaves_nothing(
    given: tuple[bytes | CkptError, ...], error: type[CkptError], tmp_path: Path
) -> None:
    prefix = small_checkpoint(tmp_path / "src")
    before = names(tmp_path / "src")
    with open_checkpoint(prefix) as source:
        plan = with_values(Plan.of(source), {"a": Chunks(given)})
        ways: tuple[Writing, ...] = ({}, {"compact": True})
        for how in ways:
            with pytest.raises(error) as raised:
                write(plan, tmp_path / "out" / "m", **how)
            assert raised.value.key == "a"
            with pytest.raises(error):
                write(plan, in_place=True, compact=how.get("compact", False))
        with pytest.raises(error):
            prepare(plan, str(tmp_path / "out" / "m"), WriteOptions(recoding=Recoding())).write()
    assert not (tmp_path / "out").exists()
    assert names(tmp_path / "src") == before


def test_damaged_sources_are_not_given_a_fresh_checksum(tmp_path: Path) -> None:
    prefix = small_checkpoint(tmp_path / "src")
    shutil.copytree(tmp_path / "src", tmp_path / "other")
    path = shard_path(str(tmp_path / "other" / "m"), 0, 2)
    data = bytearray(Path(path).read_bytes())
    data[0] ^= 1
    status = os.stat(path)
    Path(path).write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with open_checkpoint(prefix) as source, open_checkpoint(tmp_path / "other" / "m") as other:
        tensors = {each.key: each for each in Plan.of(other).tensors}
        plan = with_values(Plan.of(source), {"a": StoredValue(other, tensors["a"])})
        assert plan.read == (source, other)
        with pytest.raises(ChecksumError):
            write(plan, tmp_path / "out")
        # What was read may not be replaced either.
        with pytest.raises(DestinationError, match="its values are read"):
            write(plan, tmp_path / "other" / "m", force=True)
        plan = with_values(Plan.of(source), {"b": StoredValue(other, tensors["b"])})
        prepared = prepare(plan, str(tmp_path / "late"))
        os.utime(path)
        with pytest.raises(SurgeryError, match="changed while it was read"):
            prepared.write()
    assert names(tmp_path) == ["other", "src"]
