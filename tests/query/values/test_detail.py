"""Details say what is stored, and only after it has been checked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.writer import BundleWriter
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.cli.main import main
from ckpttool.errors import ChecksumError, CorruptError, MissingFileError, MissingKeyError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.query.values import detail as module
from ckpttool.query.values.detail import (
    GraphDetail,
    TensorDetail,
    Values,
    Variants,
    describe_tensors,
)
from ckpttool.query.values.parts import Part
from ckpttool.query.values.targets import Target, find_targets
from ckpttool.query.values.texts import nested
from ckpttool.tensor.slices import TensorSlice
from tests.support import encoder, handmade
from tests.support.fixtures import BundleFixture, bundle
from tests.support.limits import memory_limit
from tests.support.sweeps import each_bundle

BIG = np.arange(3000, dtype=np.int32).reshape(30, 100)
GUIDE = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"


@pytest.fixture
def ckpt(tmp_path: Path) -> Iterator[Checkpoint]:
    prefix = os.fspath(tmp_path / "model")
    with BundleWriter(prefix) as writer:
        writer.add("big", BIG)
        for at in (0, 50):
            part = TensorSlice(((0, -1), (at, 50)))
            writer.add_slice("sliced", BIG.shape, part, BIG[:, at : at + 50])
        writer.add("deep", np.zeros((7,) * 5, np.int8))
        writer.add("deeper", np.zeros((2,) * 12, np.int8))
        writer.add("small", np.array([[1.5, -2.0]]))
        writer.add("last", np.array(7))
    with open_checkpoint(prefix) as opened:
        yield opened


@pytest.fixture(params=[True, False], ids=["streamed", "at once"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        monkeypatch.setattr("ckpttool.query.values.parts._SMALL", 0)
        monkeypatch.setattr("ckpttool.query.values.parts._BLOCK", 40)
    return bool(request.param)


def describe_tensor(ckpt: Checkpoint, name: str, **options: Any) -> TensorDetail:
    return next(describe_tensors(ckpt, [Target(ckpt.resolve(name))], **options))


def values(detail: TensorDetail) -> Values:
    assert isinstance(detail.content, Values)
    return detail.content


def test_facts(ckpt: Checkpoint) -> None:
    detail = describe_tensor(ckpt, "sliced")
    assert (detail.key, detail.object_path, detail.dtype) == ("sliced", None, "int32")
    assert (detail.shape, detail.part, detail.index) == ((30, 100), (30, 100), None)
    assert (detail.kind, detail.bytes, detail.verified) == (ckpt.kinds["sliced"], 12000, True)
    assert detail.statistics is not None and detail.statistics.max == 2999
    assert detail.histogram is None
    with pytest.raises(MissingKeyError, match="sliced"):
        describe_tensor(ckpt, "slized")


@pytest.mark.usefixtures("how")
@pytest.mark.parametrize("key", ["big", "sliced"])
def test_large_tensors_show_their_corners(ckpt: Checkpoint, key: str) -> None:
    detail = describe_tensor(ckpt, key)
    shown = values(detail)
    assert (shown.shape, shown.gaps, shown.complete) == ((6, 6), (3, 3), False)
    places = [0, 1, 2, -3, -2, -1]
    assert shown.nested() == BIG[np.ix_(places, places)].tolist()
    assert [int(text) for text in shown.texts()] == BIG[np.ix_(places, places)].ravel().tolist()


@pytest.mark.usefixtures("how")
@pytest.mark.parametrize("key", ["big", "sliced"])
def test_everything_on_demand(ckpt: Checkpoint, key: str) -> None:
    shown = values(describe_tensor(ckpt, key, limit=None))
    assert shown.complete and shown.shape == (30, 100)
    assert shown.nested() == BIG.tolist()
    assert [int(text) for text in shown.texts()] == BIG.ravel().tolist()


@pytest.mark.usefixtures("how")
@pytest.mark.parametrize("key", ["big", "sliced"])
def test_parts(ckpt: Checkpoint, key: str) -> None:
    targets = find_targets(ckpt, [f"{key}[::-1, 3:90]", f"{key}[2,:3]"])
    first, second = describe_tensors(ckpt, targets)
    part = BIG[::-1, 3:90]
    assert (first.index, first.part, first.shape) == ("::-1, 3:90", (30, 87), (30, 100))
    assert not first.verified and not second.verified
    places = [0, 1, 2, -3, -2, -1]
    assert values(first).nested() == part[np.ix_(places, places)].tolist()
    assert first.statistics is not None
    assert (first.statistics.count, first.statistics.max) == (part.size, part.max())
    assert values(second).nested() == BIG[2, :3].tolist()


def test_many_axes_show_fewer_elements_of_each(ckpt: Checkpoint) -> None:
    deep = values(describe_tensor(ckpt, "deep"))
    assert (deep.shape, deep.gaps) == ((2,) * 5, (1,) * 5)
    deeper = values(describe_tensor(ckpt, "deeper"))
    assert (deeper.shape, deeper.gaps) == ((1,) * 12, (1,) * 12)


def test_histograms_on_demand(ckpt: Checkpoint) -> None:
    detail = describe_tensor(ckpt, "big", bins=10)
    assert detail.histogram is not None and detail.histogram.counts == (300,) * 10


@each_bundle
def test_every_value_of_the_fixtures(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as opened:
        details = list(describe_tensors(opened, find_targets(opened), limit=None, nodes=None))
        assert [detail.key for detail in details] == list(opened.entries)
        for detail in details:
            assert detail.verified and detail.content is not None and detail.content.complete
            value = opened.bundle.read(detail.key)
            assert (detail.dtype, detail.shape) == (
                fixture.tensors[detail.key].dtype,
                fixture.tensors[detail.key].shape,
            )
            if isinstance(detail.content, Values):
                assert repr(detail.content.nested()) == repr(nested(value))
                assert len(list(detail.content.texts())) == value.size
            elif isinstance(detail.content, Variants):
                assert detail.dtype == "variant" and detail.statistics is None
                assert len(detail.content.elements) == value.size
            else:
                assert detail.key == GRAPH_KEY and opened.object_graph is not None
                assert detail.content.nodes == opened.object_graph.nodes[:100]


def test_the_object_graph() -> None:
    with open_checkpoint(bundle(GUIDE).prefix) as opened:
        graph = describe_tensor(opened, GRAPH_KEY).content
        assert isinstance(graph, GraphDetail)
        few = describe_tensor(opened, GRAPH_KEY, nodes=4).content
    assert isinstance(few, GraphDetail)
    assert (few.nodes, len(few.graph.nodes), few.complete) == (graph.nodes[:4], 18, False)
    assert (len(graph.nodes), len(graph.graph.slots), graph.complete) == (18, 4, True)
    root, paths = graph.nodes[0], graph.graph.paths
    assert (root.id, paths[0]) == (0, "")
    assert [edge.name for edge in root.children] == [
        "iterator",
        "net",
        "optimizer",
        "step",
        "save_counter",
    ]
    optimizer = graph.nodes[3]
    assert [(slot.slot_name, paths[slot.variable_id]) for slot in optimizer.slots] == [
        ("m", "net/l1/kernel"),
        ("m", "net/l1/bias"),
        ("v", "net/l1/kernel"),
        ("v", "net/l1/bias"),
    ]
    slot = graph.nodes[optimizer.slots[0].slot_id]
    assert paths[slot.id] == "net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m"
    assert slot.attributes[0].full_name == "Adam/net/dense/kernel/m"


def test_a_registered_saver_is_named() -> None:
    with open_checkpoint(bundle("v2/tf2.21/registered_saver/ckpt-1").prefix) as opened:
        graph = describe_tensor(opened, GRAPH_KEY).content
    assert isinstance(graph, GraphDetail)
    assert [node.saver for node in graph.nodes if node.saver] != []


def test_a_damaged_graph_is_an_error(tmp_path: Path) -> None:
    made = handmade.Bundle().add_strings(GRAPH_KEY.encode(), [], [b"\xff\xff"])
    with open_checkpoint(made.write(tmp_path / "bad")) as opened, pytest.raises(CorruptError):
        describe_tensor(opened, GRAPH_KEY)


def test_a_damaged_variant_is_an_error(tmp_path: Path) -> None:
    data, crc = encoder.variant_data([b"\xff\xff"])
    made = handmade.Bundle().add(b"v", 21, [], data, crc=crc)
    with (
        open_checkpoint(made.write(tmp_path / "bad")) as opened,
        pytest.raises(CorruptError) as caught,
    ):
        describe_tensor(opened, "v")
    assert caught.value.key == "v" and caught.value.path is not None


def test_variants_can_be_cut() -> None:
    with open_checkpoint(bundle("v2/tf2.21/iterators/ckpt-1").prefix) as opened:
        detail = describe_tensor(opened, "buffered/.ITERATOR_STATE", limit=3)
    assert isinstance(detail.content, Variants)
    assert (len(detail.content.elements), detail.content.complete) == (3, False)


def test_statistics_alone(ckpt: Checkpoint) -> None:
    for detail in describe_tensors(ckpt, find_targets(ckpt), values=False):
        assert detail.content is None and detail.statistics is not None
        assert detail.statistics.count == np.prod(detail.shape)


@pytest.mark.usefixtures("how")
@pytest.mark.parametrize("key", ["big", "sliced", "small"])
def test_damage_to_one_is_known_before_another_is_shown(
    ckpt: Checkpoint, tmp_path: Path, key: str
) -> None:
    entry = ckpt.bundle.entries[key]
    if entry.slices:
        entry = ckpt.bundle.index.slice_entries(key)[1][1]
    with open(tmp_path / "model.data-00000-of-00001", "r+b") as file:
        file.seek(entry.offset)
        file.write(b"\x99")
    targets = [Target("last"), Target(key)]
    with pytest.raises(ChecksumError) as caught:
        describe_tensors(ckpt, targets)
    assert (caught.value.key, caught.value.offset) == (key, entry.offset)
    with pytest.raises(ChecksumError):
        describe_tensors(ckpt, targets, values=False)


def test_what_is_too_much_to_keep_is_read_twice(
    ckpt: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 100)
    targets = [Target("big"), Target("small")]
    details = describe_tensors(ckpt, targets, limit=None)
    assert not isinstance(details, list) and [each.key for each in details] == ["big", "small"]
    with open(tmp_path / "model.data-00000-of-00001", "r+b") as file:
        file.seek(ckpt.bundle.entries["small"].offset)
        file.write(b"\x99")
    with pytest.raises(ChecksumError):
        describe_tensors(ckpt, targets, limit=None)


@pytest.mark.parametrize("format", ["json", "jsonl", "plain", "table"])
@pytest.mark.parametrize("words", [[], ["--full"]])
def test_nothing_is_written_where_something_is_damaged(
    ckpt: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    format: str,
) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 0)
    monkeypatch.setattr("ckpttool.query.values.parts._SMALL", 0)
    with open(tmp_path / "model.data-00000-of-00001", "r+b") as file:
        file.seek(ckpt.bundle.entries["small"].offset)
        file.write(b"\x99")
    prefix = os.fspath(tmp_path / "model")
    for keys in (["big", "small"], ["small"]):
        assert main(["show", prefix, *keys, "--format", format, *words]) == 2
        out, err = capsys.readouterr()
        assert not out and err.count("\n") == 1


def test_a_missing_shard(ckpt: Checkpoint, tmp_path: Path) -> None:
    os.unlink(tmp_path / "model.data-00000-of-00001")
    with pytest.raises(MissingFileError) as caught:
        describe_tensor(ckpt, "last")
    assert caught.value.key == "last" and caught.value.path is not None


def test_texts_are_as_wide_as_the_widest(ckpt: Checkpoint) -> None:
    found: Any = list(values(describe_tensor(ckpt, "small")).texts(precision=1))
    assert found == [" 1.5", "-2. "]


@pytest.mark.large
def test_many_strings_take_little_more_than_their_bytes(tmp_path: Path) -> None:
    count = 1_000_000
    data, crc = encoder.string_data([b"ab"] * count)
    prefix = handmade.Bundle().add(b"text", 7, [count], data, crc=crc).write(tmp_path / "many")
    with open_checkpoint(prefix) as ckpt:
        found = Part(ckpt, "text")
        assert not found.small
        for words, values in ((["text[0:3]"], True), (["text"], False), (["text[::-1]"], True)):
            targets = find_targets(ckpt, words)
            # An object for each would take 70 MB.
            with memory_limit(32 << 20):
                (row,) = describe_tensors(ckpt, targets, values=values)
                assert row.verified and row.statistics is not None
                assert (row.statistics.count, row.statistics.max) == (row.part[0], 2)
            if values:
                assert isinstance(row.content, Values)
                assert set(row.content.texts()) == {"'ab'"}


def test_progress_counts_tensors() -> None:
    told: list[tuple[int, int]] = []
    with open_checkpoint(bundle("v2/tf2.21/saver_v2/model.ckpt-2").prefix) as ckpt:
        targets = find_targets(ckpt, (), Selector())

        def tell(done: int, total: int) -> None:
            told.append((done, total))

        list(describe_tensors(ckpt, targets, values=False, on_progress=tell))
    assert told == [(number, len(targets)) for number in range(len(targets))]
