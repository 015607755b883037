"""Exports converted to SavedModels; TensorFlow runs the results in tests/interop."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from ckpttool import open_checkpoint, pb
from ckpttool.errors import (
    CkptError,
    CorruptError,
    MissingFileError,
    NotFoundError,
)
from ckpttool.surgery.session_bundle.saved_model import ExportReceipt, find_exports, prepare_export
from tests.support.exports import (
    ASSETS,
    SAMPLE,
    copied,
    edit,
    export_path,
    exports,
    is_whole,
    refused_with_nothing_written,
    tree,
    values,
    with_signatures,
)
from tests.support.refusals import refused

VERSIONS = "session_bundle/tf1.4/versions"
V2_EXPORTS = [row["name"] for row in exports() if row["checkpoint_format"] == "V2"]
ALL_EXPORTS = [row["name"] for row in exports()]


@pytest.mark.parametrize("name", ALL_EXPORTS)
def test_every_export(name: str, tmp_path: Path) -> None:
    source = copied(name, tmp_path / "source")
    before = tree(source)
    receipt = prepare_export(str(source), str(tmp_path / "out" / "model")).write()
    model = tmp_path / "out" / "model"
    assert tree(source) == before
    found, wanted = values(str(model)), values(f"{source}{os.sep}")
    assert found.keys() == wanted.keys() == {"b", "global_step", "rows", "w"}
    for key, value in wanted.items():
        assert np.array_equal(found[key], value)
        assert found[key].dtype == value.dtype
    files = tree(model)
    assert files.get("assets/vocabulary.txt") == before.get("assets/vocabulary.txt")
    assert {path.partition("/")[0] for path in files} == {
        "saved_model.pb",
        "variables",
        *(["assets"] if receipt.assets else []),
    }
    assert receipt.variables is not None
    assert receipt.variables.prefix == str(model / "variables" / "variables")
    assert receipt.variables.tensors == 4
    assert all(os.path.getsize(each.path) == each.bytes for each in receipt.variables.shards)
    assert os.listdir(tmp_path / "out") == ["model"]
    assert (receipt.source, receipt.destination) == (str(source), str(model))
    generic = "generic_default" in name
    assert [each.kind for each in receipt.unmapped] == (["generic"] if generic else [])
    assert len(receipt.notes) == generic
    with open_checkpoint(str(model)) as ckpt:
        assert ckpt.location.saved_model == str(model)
        assert ckpt.metagraph is not None
        keys = [each.key for each in ckpt.metagraph.signatures]
    assert keys == sorted(each.key for each in receipt.signatures)


def test_a_link_to_an_export(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(sample)
    prepare_export(str(tmp_path / "latest"), str(tmp_path / "model")).write()
    assert is_whole(tmp_path / "model", sample)


def test_signatures_without_a_form_are_named(sample: Path, tmp_path: Path) -> None:
    edit(
        sample,
        with_signatures(default={"kind": "unknown"}, odd={"kind": "generic", "x": "x:0"}),
    )
    receipt = prepare_export(str(sample), str(tmp_path / "model")).write()
    kept = "is not among the signatures, but kept in the collection 'serving_signatures'"
    assert receipt.notes == (
        f"unknown default signature {kept}: its kind is not known",
        f"generic signature 'odd' {kept}: it has no tensor to be its output",
        "the SavedModel has no signatures",
    )
    with open_checkpoint(str(tmp_path / "model")) as ckpt:
        assert ckpt.metagraph is not None
        keys = [each.key for each in ckpt.metagraph.collections]
    assert "serving_signatures" in keys


def test_a_placeholder_that_a_signature_lacks_is_named(sample: Path, tmp_path: Path) -> None:
    def change(message: pb.MetaGraphDef) -> None:
        with_signatures(default={"kind": "regression", "input": "MatMul:0", "output": "b:0"})(
            message
        )
        message.graph_def.node.add(name="rate", op="Placeholder")
        (b,) = (node for node in message.graph_def.node if node.name == "b")
        b.input.append("^rate")

    edit(sample, change)
    (note,) = prepare_export(str(sample), str(tmp_path / "model")).write().notes
    assert note.startswith("signature 'serving_default' needs the placeholder 'rate'")


def test_a_graph_that_restores_what_the_checkpoint_lacks(sample: Path, tmp_path: Path) -> None:
    def change(message: pb.MetaGraphDef) -> None:
        for node in message.graph_def.node:
            if node.name == "save/RestoreV2/tensor_names":
                node.attr["value"].tensor.string_val[:] = [b"bias"]

    edit(sample, change)
    refused_with_nothing_written(
        CorruptError, "the graph restores 'bias', which the checkpoint", sample, tmp_path
    )


def remove_checkpoint(folder: Path) -> None:
    for path in folder.glob("export.*"):
        if path.name != "export.meta":
            path.unlink()


def test_an_export_without_its_checkpoint(sample: Path, tmp_path: Path) -> None:
    remove_checkpoint(sample)
    refused_with_nothing_written(MissingFileError, "without a checkpoint", sample, tmp_path)


def test_an_export_without_a_data_shard(sample: Path, tmp_path: Path) -> None:
    (sample / "export.data-00000-of-00001").unlink()
    with pytest.raises(MissingFileError):
        prepare_export(str(sample), str(tmp_path / "made" / "model")).write()
    assert os.listdir(tmp_path) == ["00000123"]


def test_an_export_that_has_no_variables(sample: Path, tmp_path: Path) -> None:
    remove_checkpoint(sample)
    edit(sample, lambda message: message.ClearField("saver_def"))
    receipt = prepare_export(str(sample), str(tmp_path / "model")).write()
    assert receipt.variables is None
    assert sorted(tree(tmp_path / "model")) == ["assets", "assets/words.txt", "saved_model.pb"]


def test_no_export(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        prepare_export(str(tmp_path), str(tmp_path / "model")).write()
    assert os.listdir(tmp_path) == []


def test_what_would_be_done(sample: Path, tmp_path: Path) -> None:
    planned = prepare_export(str(sample), str(tmp_path / "model")).receipt()
    assert not (tmp_path / "model").exists()
    done = prepare_export(str(sample), str(tmp_path / "model")).write()
    assert done.variables is not None
    assert done.bytes_written > 0
    assert (planned.variables, planned.bytes_written) == (None, 0)
    shown = ("source", "destination", "signatures", "unmapped", "assets", "init_op", "notes")
    assert [getattr(planned, name) for name in shown] == [getattr(done, name) for name in shown]


@pytest.mark.parametrize("name", [SAMPLE, ASSETS])
def test_a_damaged_metagraph_is_refused_or_converted(name: str, tmp_path: Path) -> None:
    source = copied(name, tmp_path / "source")
    meta = source / "export.meta"
    data = meta.read_bytes()
    outcomes = {"converted": 0, "refused": 0}
    for at in range(3, len(data), 211):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        for damaged in (data[:at], bytes(flipped)):
            meta.write_bytes(damaged)
            try:
                prepare_export(str(source), str(tmp_path / "model")).write()
            except CkptError:
                outcomes["refused"] += 1
            else:
                outcomes["converted"] += 1
                shutil.rmtree(tmp_path / "model")
            assert os.listdir(tmp_path) == ["source"]
    assert min(outcomes.values()) > 5


class TestFinding:
    """Which exports a path means."""

    @pytest.mark.parametrize("path", ["", "export.meta"])
    def test_one(self, path: str) -> None:
        folder = export_path(SAMPLE)
        assert find_exports(os.path.join(folder, path) if path else folder) == (folder,)

    def test_all_versions(self, tmp_path: Path) -> None:
        parent = copied(VERSIONS, tmp_path / "parent")
        (parent / "00000013").mkdir()
        shutil.copytree(parent / "00000007", parent / "00000014-tmp")
        versions = [str(parent / name) for name in ("00000007", "00000012")]
        assert find_exports(str(parent)) == tuple(versions)

    def test_here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(export_path(SAMPLE))
        assert find_exports("export.meta") == (".",)

    def test_none(self, tmp_path: Path) -> None:
        with refused(NotFoundError, "no SessionBundle export"):
            find_exports(str(tmp_path))
        with pytest.raises(MissingFileError):
            find_exports(str(tmp_path / "gone"))


def test_each_version_of_a_folder(tmp_path: Path) -> None:
    parent = copied(VERSIONS, tmp_path / "parent")
    receipts: list[ExportReceipt] = []
    for folder in find_exports(str(parent)):
        destination = tmp_path / "out" / os.path.basename(folder)
        receipts.append(prepare_export(folder, str(destination)).write())
    assert [os.path.basename(each.destination or "") for each in receipts] == [
        "00000007",
        "00000012",
    ]
    assert sorted(os.listdir(tmp_path / "out")) == ["00000007", "00000012"]
