"""Summaries hold what the files say, and say what they could not read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ckpttool import open_checkpoint, pb
from ckpttool.errors import CorruptError
from ckpttool.query.summary import Summary, Writer, summarize
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.pruning import prune
from tests.support import handmade
from tests.support.fixtures import FIXTURES, BundleFixture, bundle
from tests.support.limits import memory_limit, time_limit
from tests.support.sweeps import each_bundle

GUIDE = "v2/tf2.21/guide_legacy_adam/tf_ckpts/"


def summary_of(path: str) -> Summary:
    with open_checkpoint(path) as ckpt:
        return summarize(ckpt)


def copied(name: str, folder: Path) -> str:
    """Copy a fixture's files into a folder; return its prefix there."""
    fixture = bundle(name)
    source, base = os.path.split(fixture.prefix)
    for file in os.listdir(source):
        if file.startswith(f"{base}.") or file == "checkpoint":
            shutil.copy(os.path.join(source, file), folder)
    return os.fspath(folder / base)


@each_bundle
def test_what_prune_would_save(fixture: BundleFixture) -> None:
    """The summary promises what `ckpt prune` does."""
    summary = summary_of(fixture.prefix)
    if summary.tensors == 0:
        assert (summary.slots.tensors, summary.optimizer.tensors) == (0, 0)
        return  # of nothing, prune leaves nothing, which it refuses
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        pruned = (prune(plan, slots=True), prune(plan, optimizer=True))
    for after, promised in zip(pruned, (summary.slots, summary.optimizer), strict=True):
        going = [change for change in after.changes if change.action == "drop"]
        assert promised.tensors == len(going)
        assert promised.bytes == sum(change.bytes or 0 for change in going)


def test_the_object_graph_is_no_tensor_and_slots_are_no_parameters() -> None:
    summary = summary_of(bundle(GUIDE + "ckpt-5").prefix)
    assert (summary.totals.tensors, summary.tensors) == (15, 14)
    assert sum(group.tensors for group in summary.dtypes) == 14
    assert summary.of_kind("weight").parameters == summary.totals.weights == 10
    assert sum(group.weights for group in summary.scopes) == 10
    assert summary.of_kind("no such").tensors == 0


def test_damage_that_file_sizes_tell(tmp_path: Path) -> None:
    prefix = copied(GUIDE + "ckpt-5", tmp_path)
    assert summary_of(prefix).damage == ()
    os.truncate(prefix + ".data-00000-of-00001", 100)
    (error,) = summary_of(prefix).damage
    assert "the data shard has 100" in error.message
    os.unlink(prefix + ".data-00000-of-00001")
    (error,) = summary_of(prefix).damage
    assert error.message == "the data shard is missing"


@each_bundle
def test_sums(fixture: BundleFixture) -> None:
    summary = summary_of(fixture.prefix)
    assert summary.problems == ()
    assert summary.totals.tensors == len(fixture.tensors)
    for groups in (summary.kinds, summary.scopes):
        assert len({group.name for group in groups}) == len(groups)
        for amount in ("tensors", "parameters", "bytes"):
            total = sum(getattr(group, amount) for group in groups)
            assert total == getattr(summary.totals, amount)
    assert sum(shard.bytes or 0 for shard in summary.shards) == summary.source.data_bytes
    assert (summary.graph is not None) == (summary.source.style == "object")
    assert all(step.value is not None for step in summary.steps)


def test_a_checkpoint_of_objects() -> None:
    summary = summary_of(bundle(GUIDE + "ckpt-5").prefix)
    assert summary.writer == Writer(None, "TensorFlow 2", "object graph")
    assert summary.latest is True
    assert [(step.object_path, step.value) for step in summary.steps] == [
        ("save_counter", 5),
        ("step", 50),
    ]
    assert summary.graph is not None
    assert (summary.graph.objects, summary.graph.slots) == (18, 4)
    (optimizer,) = summary.graph.optimizers
    assert (optimizer.path, optimizer.slots) == ("optimizer", (("m", 2), ("v", 2)))
    kinds = {group.name: group for group in summary.kinds}
    assert (kinds["weight"].tensors, kinds["weight"].parameters, kinds["weight"].bytes) == (
        2,
        10,
        40,
    )
    # A graph and an iterator have no parameters.
    assert kinds["graph"].parameters == kinds["iterator"].parameters == 0
    scopes = {group.name: group.tensors for group in summary.scopes}
    assert scopes["net"] == 6 and scopes["optimizer"] == 5


def test_not_the_latest() -> None:
    assert summary_of(bundle(GUIDE + "ckpt-3").prefix).latest is False
    assert summary_of(bundle("v2/tf2.21/dtypes/vector").prefix).latest is None


def test_the_latest_of_a_folder_that_was_moved(tmp_path: Path) -> None:
    prefix = copied(GUIDE + "ckpt-5", tmp_path)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/gone/tf_ckpts/ckpt-5"\n')
    assert summary_of(prefix).latest is True


@pytest.mark.parametrize(
    ("name", "writer"),
    [
        ("v2/tf2.21/saver_v2/model.ckpt-3", Writer("2.21.0", None, "model.ckpt-3.meta")),
        ("v2/tf1.15/saver/model.ckpt-3", Writer("1.15.5", None, "model.ckpt-3.meta")),
        ("v2/tf1.4/saver/model.ckpt-3", Writer("1.4.1", None, "model.ckpt-3.meta")),
        ("v2/tf0.12/saver/model.ckpt-3", Writer("0.12.1", None, "model.ckpt-3.meta")),
        (
            "v2/tf1.15/graph_mode_objects/ckpt-1",
            Writer(None, "TensorFlow 1 or an early TensorFlow 2", "object graph"),
        ),
        ("v2/tf2.21/dtypes/vector", Writer(None, None, None)),
    ],
)
def test_writers(name: str, writer: Writer) -> None:
    assert summary_of(bundle(name).prefix).writer == writer


def test_a_saved_model() -> None:
    summary = summary_of(os.path.join(FIXTURES, "saved_model/tf2.21/tf_keras/model"))
    assert summary.writer == Writer("2.21.0", None, "saved_model.pb")
    (metagraph,) = summary.metagraphs
    assert metagraph.tags == ("serve",)
    assert "serving_default" in {signature.key for signature in metagraph.signatures}


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("v2/tf2.21/keras3_adam/ckpt-1", ["optimizer"]),
        ("v2/tf2.21/tf_keras_new_adam_ema/ckpt-1", ["optimizer"]),
        ("v2/tf2.21/legacy_sgd/ckpt-1", ["optimizer"]),
        ("v2/tf2.21/legacy_rmsprop/ckpt-1", ["optimizer"]),
        ("v2/tf2.21/legacy_adam_module/model-1", ["opt"]),
        ("v2/tf1.15/v1_optimizer_objects/model-1", ["optimizer"]),
        ("v2/tf2.21/python_state/ckpt-1", []),
        ("v2/tf2.21/tables/ckpt-1", []),
    ],
)
def test_optimizers(name: str, paths: list[str]) -> None:
    graph = summary_of(bundle(name).prefix).graph
    assert graph is not None
    assert [optimizer.path for optimizer in graph.optimizers] == paths


def test_without_data_shards(tmp_path: Path) -> None:
    prefix = copied(GUIDE + "ckpt-5", tmp_path)
    whole = summary_of(prefix)
    os.unlink(prefix + ".data-00000-of-00001")
    summary = summary_of(prefix)
    assert (summary.kinds, summary.scopes, summary.totals) == (
        whole.kinds,
        whole.scopes,
        whole.totals,
    )
    assert [(shard.name, shard.bytes) for shard in summary.shards] == [
        ("ckpt-5.data-00000-of-00001", None)
    ]
    assert summary.graph is None and summary.writer == Writer(None, None, None)
    assert [step.value for step in summary.steps] == [None, None]
    assert summary.latest is True
    assert len(summary.problems) == 3
    for problem in summary.problems:
        assert "ckpt-5.data-00000-of-00001" in problem and "missing" in problem


def test_damaged_companions(tmp_path: Path) -> None:
    prefix = copied("v2/tf2.21/saver_v2/model.ckpt-3", tmp_path)
    Path(prefix + ".meta").write_bytes(b"\xff\xff\xff")
    (tmp_path / "checkpoint").write_bytes(b"\xff")
    summary = summary_of(prefix)
    assert summary.metagraphs == () and summary.latest is None
    assert len(summary.problems) == 2
    assert summary.writer == Writer(None, None, None)
    assert summary.totals == summary_of(bundle("v2/tf2.21/saver_v2/model.ckpt-3").prefix).totals


def test_a_damaged_graph(tmp_path: Path) -> None:
    key = b"_CHECKPOINTABLE_OBJECT_GRAPH"
    made = handmade.Bundle().add_strings(key, [], [b"\xff"])
    summary = summary_of(made.write(tmp_path / "bad"))
    assert summary.graph is None
    (problem,) = summary.problems
    assert "_CHECKPOINTABLE_OBJECT_GRAPH" in problem


def test_a_damaged_index_is_an_error(tmp_path: Path) -> None:
    prefix = copied(GUIDE + "ckpt-5", tmp_path)
    data = bytearray(Path(prefix + ".index").read_bytes())
    data[40] ^= 1
    Path(prefix + ".index").write_bytes(data)
    with pytest.raises(CorruptError):
        summary_of(prefix)


@pytest.mark.parametrize("size", [(64 << 20) + 1, 3 << 30])
def test_a_graph_of_any_size_beside_a_checkpoint(size: int, tmp_path: Path) -> None:
    """Whoever asks for a sound checkpoint gets it, whatever lies beside it."""
    prefix = copied("v2/tf1.15/saver/model.ckpt-3", tmp_path)
    sound = summary_of(prefix)
    os.truncate(f"{prefix}.meta", size)
    with memory_limit(128 << 20), time_limit(20):
        summary = summary_of(prefix)
    assert summary.totals == sound.totals
    assert summary.metagraphs == ()
    (problem,) = summary.problems
    assert problem == (
        f"{prefix}.meta: not looked at: {size} bytes, larger than 64 MiB; --graph looks"
    )


def test_a_damaged_item_in_the_graph(tmp_path: Path) -> None:
    prefix = copied("v2/tf1.15/saver/model.ckpt-3", tmp_path)
    message = pb.MetaGraphDef.FromString(Path(f"{prefix}.meta").read_bytes())
    message.collection_def["trainable_variables"].bytes_list.value.insert(0, b"\xff")
    Path(f"{prefix}.meta").write_bytes(message.SerializeToString())
    summary = summary_of(prefix)
    assert [graph.nodes for graph in summary.metagraphs] == [len(message.graph_def.node)]
    (problem,) = summary.problems
    assert "item 0 of the collection 'trainable_variables': 1 bytes" in problem
