"""What changed between two checkpoints, of every form that there is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ckpttool
from ckpttool import open_checkpoint
from ckpttool.api.diff import diff
from ckpttool.bundle.writer import BundleWriter
from ckpttool.checkpoint.selection.select import SelectionRule, Selector
from ckpttool.errors import ChecksumError, MissingFileError, SelectionError, TruncatedError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.query.diff.results import Diff, TensorDiff
from tests.query.verify.victims import Victim
from tests.support import encoder
from tests.support.fixtures import FIXTURES, bundle
from tests.support.handmade import Bundle, shard_path
from tests.support.limits import memory_limit
from tests.support.slices import parse_slice

GUIDE = os.path.join(FIXTURES, "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts")
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
F32 = 1


def save(folder: Path, name: str, tensors: dict[str, Any]) -> str:
    prefix = str(folder / name)
    ckpttool.save_checkpoint(prefix, tensors)
    return prefix


def told(found: Diff) -> dict[str, str]:
    """Return the change of each tensor by the name it has in the end."""
    return {each.row.key: each.change for each in found.tensors}


def only(found: Diff) -> TensorDiff:
    (each,) = found.tensors
    return each


BASE: dict[str, Any] = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.int64(7),
    "c": np.array([b"x", b"y"], object),
    "d": np.ones(3, np.float32),
    "e": np.zeros(0, np.float32),
}


def test_every_sort_of_difference(tmp_path: Path) -> None:
    other = dict(BASE) | {
        "a": BASE["a"] + np.array([[0, 0, 0], [0, 0.5, -1]], np.float32),
        "b": np.int32(7),
        "c": np.array([b"x", b"z"], object),
        "d": np.ones((3, 1), np.float32),
        "new": np.ones(4, np.float32),
    }
    one = save(tmp_path, "one", BASE | {"old": np.zeros(9, np.int8)})
    found = diff(one, save(tmp_path, "other", other))
    assert told(found) == {
        "a": "value",
        "b": "dtype",
        "c": "value",
        "d": "shape",
        "new": "added",
        "old": "removed",
    }
    assert found.verdict == "different" and not found.problems
    assert found.counts["equal"] == 1
    values = found.tensors[0].values
    assert values is not None and values.worst is not None
    assert (values.differing, values.elements, values.max_abs) == (2, 6, 1.0)
    assert (values.worst.index, values.worst.a, values.worst.b) == ((1, 2), 5.0, 4.0)
    text = found.tensors[2].values
    assert text is not None and text.worst is not None
    assert (text.worst.index, text.worst.a, text.worst.b) == ((1,), b"y", b"z")
    everything = diff(one, str(tmp_path / "other"), everything=True)
    assert told(everything) == told(found) | {"e": "equal"}


def test_indexes_are_enough_where_they_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (save(tmp_path, name, BASE) for name in ("one", "other"))
    monkeypatch.setattr(
        "ckpttool.bundle.reader.BundleReader.read", lambda *_: pytest.fail("data are read")
    )
    monkeypatch.setattr(
        "ckpttool.bundle.reader.BundleReader.chunks", lambda *_: pytest.fail("data are read")
    )
    assert diff(one, other).verdict == "equal"


def test_exact_reads_what_equal_checksums_hide(tmp_path: Path) -> None:
    one, other = (save(tmp_path, name, BASE) for name in ("one", "other"))
    path = shard_path(other)
    data = bytearray(Path(path).read_bytes())
    data[1] ^= 1
    Path(path).write_bytes(data)
    assert diff(one, other).verdict == "equal"
    found = diff(one, other, exact=True)
    assert found.verdict == "unknown"
    assert [type(each) for each in found.problems] == [ChecksumError]
    assert only(found).change == "unreadable" and only(found).row.key == "a"
    assert path in str(found.problems[0])


def test_exact_compares_bytes(tmp_path: Path) -> None:
    one = save(tmp_path, "one", {"x": np.array([0.0, np.nan], np.float32), "y": np.float32(np.nan)})
    other = save(
        tmp_path, "other", {"x": np.array([-0.0, np.nan], np.float32), "y": np.float32(np.nan)}
    )
    assert told(diff(one, other)) == {"x": "value"}
    assert only(diff(one, other)).values.differing == 1  # type: ignore[union-attr]
    assert diff(one, other, equal_nan=True).verdict == "equal"
    found = only(diff(one, other, exact=True))
    assert found.values is not None and found.values.worst is not None
    assert found.values.differing == 1 and found.values.worst.index == (0,)


def test_a_tensor_of_equal_bytes_is_equal_in_spite_of_nan(tmp_path: Path) -> None:
    one, other = (
        save(tmp_path, name, {"x": np.array([np.nan], np.float32)}) for name in ("one", "other")
    )
    assert diff(one, other).verdict == "equal"


@pytest.mark.parametrize("tolerance", [{"atol": 0.1}, {"rtol": 0.2}])
def test_tolerances(tmp_path: Path, tolerance: dict[str, float]) -> None:
    one = save(tmp_path, "one", {"x": np.array([1.0], np.float64)})
    other = save(tmp_path, "other", {"x": np.array([1.09], np.float64)})
    assert diff(one, other).verdict == "different"
    assert diff(one, other, **tolerance).verdict == "equal"  # type: ignore[arg-type]


def partitioned(folder: Path, name: str, value: Any, specs: list[str]) -> str:
    prefix = str(folder / name)
    writer = BundleWriter(prefix)
    for spec in specs:
        part = parse_slice(spec)
        box = tuple(slice(low, high) for low, high in part.bounds(value.shape))
        writer.add_slice("w", value.shape, part, value[box])
    writer.finish()
    return prefix


def test_partitions_are_compared_joined(tmp_path: Path) -> None:
    value = np.arange(24, dtype=np.float32).reshape(4, 6)
    rows = partitioned(tmp_path, "rows", value, ["0,2:-", "2,2:-"])
    columns = partitioned(tmp_path, "columns", value, ["-:0,1", "-:1,5"])
    whole = save(tmp_path, "whole", {"w": value})
    changed = value.copy()
    changed[3, 4] += 2
    other = partitioned(tmp_path, "other", changed, ["0,2:-", "2,2:-"])
    for a in (rows, columns, whole):
        for b in (rows, columns, whole):
            assert diff(a, b).verdict == "equal"
            assert diff(a, b, exact=True).verdict == "equal"
        found = only(diff(a, other)).values
        assert found is not None and found.worst is not None
        assert (found.differing, found.worst.index, found.worst.b) == (1, (3, 4), 24.0)


def test_large_partitions_in_blocks(tmp_path: Path) -> None:
    value = np.arange(10 << 20, dtype=np.float32).reshape(-1, 1024)
    a = partitioned(tmp_path, "a", value, ["0,1000:-", "1000,9240:-"])
    value[9000, 3] = -1
    b = save(tmp_path, "b", {"w": value})
    for jobs in (1, 3):
        found = only(diff(a, b, jobs=jobs)).values
        assert found is not None and found.worst is not None
        assert (found.differing, found.worst.index) == (1, (9000, 3))


def test_byte_order_does_not_matter(tmp_path: Path) -> None:
    value = np.array([1.5, -2.0], np.float32)
    big = Bundle(header=encoder.header(1, endianness=1))
    big.add(b"w", F32, (2,), value.astype(">f4").tobytes())
    a, b = big.write(tmp_path / "big"), save(tmp_path, "little", {"w": value})
    assert diff(a, b).verdict == "equal"
    c = save(tmp_path, "other", {"v": value})
    assert told(diff(a, c)) == {"v": "renamed"}


@pytest.mark.parametrize("name", ["saver/model.ckpt-3", "partitioned/model.ckpt-7"])
def test_v1_against_v2(name: str, tmp_path: Path) -> None:
    a, b = (os.path.join(FIXTURES, f"{form}/tf1.15/{name}") for form in ("v1", "v2"))
    assert diff(a, b).verdict == "equal"
    assert diff(b, a, exact=True).verdict == "equal"
    with open_checkpoint(b) as ckpt:
        values = dict(ckpt.items())
    key = min(values)
    values["moved/" + key] = values.pop(key)
    other = max(values, key=lambda each: values[each].size)
    values[other] = values[other] + 1
    found = diff(a, save(tmp_path, "other", values))
    assert told(found) == {"moved/" + key: "renamed", other: "value"}


def test_a_missing_file_of_v1_is_a_problem(tmp_path: Path) -> None:
    name = "partitioned_sharded/model.ckpt-7"
    folder = os.path.join(FIXTURES, "v1/tf1.15/partitioned_sharded")
    shutil.copytree(folder, tmp_path / "v1")
    os.unlink(tmp_path / "v1" / "model.ckpt-7-00001-of-00002")
    found = diff(tmp_path / "v1" / "model.ckpt-7", os.path.join(FIXTURES, "v2/tf1.15", name))
    assert found.verdict == "unknown"
    assert any("00001-of-00002" in str(each) for each in found.problems)


def test_name_based_against_object_based_by_full_name(tmp_path: Path) -> None:
    objects = f"{GUIDE}/ckpt-10"
    with open_checkpoint(objects) as ckpt:
        graph = ckpt.object_graph
        assert graph is not None
        owners = graph.claims(set(ckpt.entries)).owners
        named = {
            attribute.full_name: ckpt[key]
            for key, (_, attribute) in owners.items()
            if attribute.full_name
        }
    assert len(named) == 13
    names = save(tmp_path, "names", named)
    found = diff(names, objects, everything=True)
    equal = [each for each in found.tensors if each.change == "equal"]
    assert len(equal) == len(named)
    assert {each.matched for each in equal if "/" in each.row.key} == {"full_name"}
    assert told(found)["iterator/.ATTRIBUTES/ITERATOR_STATE"] == "added"
    # The graph that one side alone has is a difference, unless it is ignored.
    assert found.graph is not None and found.graph.objects == (None, 18)
    ignored = [GRAPH_KEY, "iterator"]
    assert diff(names, objects, ignore=ignored).verdict == "equal"
    assert diff(objects, names, ignore=ignored).verdict == "equal"
    named["net_1/dense_1/bias"] = named["net_1/dense_1/bias"] + 1
    changed = save(tmp_path, "changed", named)
    each = only(diff(changed, objects, ignore=ignored))
    assert (each.change, each.matched) == ("value", "full_name")
    # From keys to keys there is a map, the other way there is none.
    assert diff(names, objects).rename_map is not None
    assert diff(objects, names).rename_map is None


def test_selection_by_either_side(tmp_path: Path) -> None:
    one = save(tmp_path, "one", {"net/a": np.float32(1), "net/b": np.float32(2), "x": np.int8(1)})
    other = save(tmp_path, "other", {"model/a": np.float32(1), "net/b": np.float32(3)})

    def chosen(*patterns: str, **more: Any) -> dict[str, str]:
        return told(diff(one, other, patterns, **more))

    everything = {"model/a": "renamed", "net/b": "value", "x": "removed"}
    assert chosen() == everything
    assert chosen("net") == {"model/a": "renamed", "net/b": "value"}
    assert chosen("model") == {"model/a": "renamed"}
    assert chosen("x") == {"x": "removed"}
    with pytest.raises(SelectionError, match="'nothing' selects nothing"):
        chosen("nothing")
    with pytest.raises(SelectionError, match="'nothing' selects nothing"):
        diff(one, other, ignore=["nothing"])
    assert told(diff(one, other, ignore=["net/a"])) == everything | {"model/a": "added"}
    assert told(diff(one, other, ignore=["re:/b$", "x"])) == {"model/a": "renamed"}


def test_damage_is_named_and_the_rest_compared(tmp_path: Path) -> None:
    one = save(tmp_path, "one", {"a": np.ones(8), "b": np.ones(8), "s": np.array([b"12"], object)})
    changed = {"a": np.full(8, 2.0), "b": np.full(8, 3.0), "s": np.array([b"13"], object)}
    other = save(tmp_path, "other", changed)
    path = Path(shard_path(other))
    data = bytearray(path.read_bytes())
    data[3] ^= 4
    path.write_bytes(data)
    found = diff(one, other)
    assert told(found) == {"a": "unreadable", "b": "value", "s": "value"}
    assert found.verdict == "unknown"
    (problem,) = found.problems
    assert isinstance(problem, ChecksumError) and problem.key == "a" and problem.path == str(path)


@pytest.mark.parametrize("size", [None, 5])
def test_data_that_are_not_there_are_never_equal(tmp_path: Path, size: int | None) -> None:
    one, other = (save(tmp_path, name, BASE) for name in ("one", "other"))
    if size is None:
        os.unlink(shard_path(other))
    else:
        os.truncate(shard_path(other), size)
    for pair in ((one, other), (other, one)):
        found = diff(*pair)
        assert found.verdict == "unknown"
        (problem,) = found.problems
        assert isinstance(problem, MissingFileError if size is None else TruncatedError)
        assert problem.path == shard_path(other)
    # What was not asked for does not matter.
    selected = diff(one, other, Selector([SelectionRule("e")]))
    assert selected.verdict == "equal"


def test_what_cannot_be_compared_is_no_equal(tmp_path: Path) -> None:
    def made(name: str, data: bytes, crc: int | None = None) -> str:
        return Bundle().add(b"w", 99, (2,), data, crc=crc).write(tmp_path / name)

    a, same, b = made("a", b"12"), made("same", b"12"), made("b", b"13")
    assert diff(a, same).verdict == "equal"
    for found in (diff(a, b), diff(a, same, exact=True)):
        assert found.verdict == "different"
        assert only(found).change == "incomparable"
        assert "unknown(99)" in (only(found).reason or "")


def test_variants(tmp_path: Path) -> None:
    found = diff(f"{GUIDE}/ckpt-8", f"{GUIDE}/ckpt-10", Selector([SelectionRule("iterator")]))
    assert only(found).change == "incomparable"
    assert only(found).reason == "2 of 5 variants are not the same"
    victim = Victim("v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts/ckpt-8", tmp_path)
    again = diff(f"{GUIDE}/ckpt-8", victim.prefix, exact=True)
    assert again.verdict == "equal"


def test_a_damaged_graph_is_a_problem(tmp_path: Path) -> None:
    victim = Victim("v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts/ckpt-8", tmp_path)
    victim.replace_graph(b"\xff\xff")
    found = diff(f"{GUIDE}/ckpt-8", victim.prefix)
    assert found.verdict == "unknown" and len(found.problems) == 1
    assert found.counts["equal"] == 14
    kinds = Selector(kinds=["weight"])
    assert diff(f"{GUIDE}/ckpt-8", victim.prefix, kinds).verdict == "equal"


def test_jobs_and_blocks_find_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    tensors = {
        f"t{at}": rng.standard_normal(size).astype(dtype)
        for at, (size, dtype) in enumerate(
            [(9 << 20, np.float32), (3 << 20, np.float64), (70_000, ml_dtypes.bfloat16), (5, "f2")]
        )
    }
    one = save(tmp_path, "one", tensors)
    changed = {
        name: value + np.asarray(rng.integers(0, 2, value.shape)).astype(value.dtype)
        for name, value in tensors.items()
    }
    other = save(tmp_path, "other", changed)
    seen: list[tuple[int, int]] = []
    answers = [
        diff(one, other, jobs=jobs, on_progress=lambda *at: seen.append(at)).tensors
        for jobs in (1, 2, 5)
    ]

    def summed(tensors: tuple[TensorDiff, ...]) -> list[Any]:
        return [
            (each.row.key, v.differing, v.max_abs, v.max_rel, v.worst, pytest.approx(v.mean_abs))
            for each in tensors
            if (v := each.values) is not None
        ]

    assert summed(answers[0]) == summed(answers[1]) == summed(answers[2])
    assert len(answers[0]) == 4
    for each in answers[0]:
        a, b = (x[each.row.key].astype(np.float64) for x in (tensors, changed))
        assert each.values is not None and each.values.max_abs == np.abs(a - b).max()
        assert each.values.differing == np.count_nonzero(a != b)
    assert seen == sorted(seen, key=lambda at: 0) and seen[-1][0] <= seen[-1][1]


@pytest.mark.large
def test_memory_stays_bounded(tmp_path: Path) -> None:
    size = 1 << 30
    for name, crc in (("one", 0), ("other", 1)):
        made = Bundle()
        made.records[b"w"] = encoder.entry(4, (size,), size=size, crc=crc)
        made.write(tmp_path / name)
        os.truncate(shard_path(str(tmp_path / name)), size)
    diff(f"{GUIDE}/ckpt-8", f"{GUIDE}/ckpt-9")
    with memory_limit(200 << 20):
        found = diff(tmp_path / "one", tmp_path / "other", jobs=1)
    assert found.verdict == "unknown"  # these checksums are not those of zeros


def test_the_guide_as_a_person_would_tell_it() -> None:
    found = diff(f"{GUIDE}/ckpt-8", f"{GUIDE}/ckpt-10")
    by_path = {each.row.object_path: each for each in found.tensors}
    assert found.counts == {"value": 9, "incomparable": 1, "equal": 4}
    assert found.graph is None and not found.moves

    def scalar(path: str) -> tuple[object, object]:
        values = by_path[path].values
        assert values is not None and values.worst is not None and values.worst.index == ()
        return values.worst.a, values.worst.b

    assert scalar("save_counter") == (8, 10)
    assert scalar("step") == (80, 100)
    assert bundle("v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts/ckpt-8").prefix == found.a.prefix


def test_object_based_against_a_file_by_object_path(tmp_path: Path) -> None:
    """A file of another library has the names that `ckpt export` gives: object paths."""
    objects = f"{GUIDE}/ckpt-10"
    kernel = ckpttool.load_variable(objects, "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE")
    path = tmp_path / "weights.npz"
    np.savez(path, **{"net/l1/kernel": kernel})
    for a, b in ((objects, path), (path, objects)):
        found = diff(a, b, "net/l1/kernel", everything=True)
        assert [(each.change, each.matched) for each in found.tensors] == [("equal", "object_path")]
