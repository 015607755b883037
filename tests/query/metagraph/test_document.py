"""From what a user types to a graph, and from a graph to a file."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from ckpttool import pb
from ckpttool.errors import (
    CkptError,
    CorruptError,
    DestinationError,
    FileAccessError,
    MissingFileError,
    NotFoundError,
    UnsupportedError,
)
from ckpttool.metagraph.document import JsonForm, read_graph, read_graph_json
from ckpttool.query.metagraph import document as metajson
from ckpttool.query.metagraph.document import (
    GRAPH_FORMS,
    GraphForm,
    choose_graph,
    find_graph,
    save_graph,
    write_graph,
)
from tests.support.fixtures import FIXTURES

META = os.path.join(FIXTURES, "meta/tf2.21/collections/graph.meta")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with graphs of every sort in it."""
    for source, name in (
        ("saved_model/tf2.21/module/model", "model"),
        ("saved_model/tf1.15/builder/text", "text"),
        ("session_bundle/tf0.12/versions", "exports"),
        ("v2/tf2.21/guide_legacy_adam/tf_ckpts", "objects"),
    ):
        shutil.copytree(os.path.join(FIXTURES, source), tmp_path / name)
    source = os.path.join(FIXTURES, "v2/tf2.21/saver_v2")
    shutil.copytree(source, tmp_path / "saver")
    shutil.copy(META, tmp_path / "alone.meta")
    (tmp_path / "split").mkdir()
    (tmp_path / "split/saved_model.cpb").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("alone.meta", "alone.meta"),
        ("alone", "alone.meta"),
        ("model", "model/saved_model.pb"),
        ("model/saved_model.pb", "model/saved_model.pb"),
        ("model/fingerprint.pb", "model/fingerprint.pb"),
        ("model/variables/variables", "model/saved_model.pb"),
        ("model/variables/variables.index", "model/saved_model.pb"),
        ("text", "text/saved_model.pbtxt"),
        ("exports/00000007", "exports/00000007/export.meta"),
        ("exports/00000007/export.meta", "exports/00000007/export.meta"),
        ("exports/00000007/export", "exports/00000007/export.meta"),
        ("exports", "exports/00000012/export.meta"),
        ("saver/model.ckpt-3", "saver/model.ckpt-3.meta"),
        ("saver/model.ckpt-3.index", "saver/model.ckpt-3.meta"),
        ("saver/model.ckpt-3.data-00000-of-00001", "saver/model.ckpt-3.meta"),
        ("saver/model.ckpt-3.meta", "saver/model.ckpt-3.meta"),
        ("saver", "saver/model.ckpt-3.meta"),
        ("saver/checkpoint", "saver/model.ckpt-3.meta"),
    ],
)
def test_addresses(here: Path, typed: str, path: str) -> None:
    assert os.path.normpath(find_graph(typed).path) == os.path.normpath(path)
    assert read_graph(find_graph(typed).path).tag_sets is not None


@pytest.mark.parametrize(
    ("typed", "kind", "problem"),
    [
        ("gone", MissingFileError, "no such checkpoint, file or folder"),
        ("gone.meta", MissingFileError, "no such"),
        ("objects", NotFoundError, "a checkpoint without a MetaGraph: there is no 'objects/ckpt-"),
        ("split", UnsupportedError, "split into chunks"),
    ],
)
def test_no_graph_there(here: Path, typed: str, kind: type[CkptError], problem: str) -> None:
    with pytest.raises(kind) as caught:
        find_graph(typed)
    assert problem in str(caught.value)


@pytest.mark.parametrize("form", GRAPH_FORMS)
def test_what_is_saved_is_what_is_written(tmp_path: Path, form: GraphForm) -> None:
    document = read_graph(META)
    written = bytearray()
    assert write_graph(document, form, written.extend) == ()
    path = tmp_path / f"graph.{form}"
    assert save_graph(document, form, str(path)) == ()
    assert path.read_bytes() == written
    assert written.endswith(b"\n") or form == "pb"
    again = read_graph_json(str(path)) if form == "json" else read_graph(str(path))
    assert again.data() == document.data()
    assert os.listdir(tmp_path) == [path.name]


def test_a_saved_model_by_its_name(tmp_path: Path) -> None:
    for name, form in (("saved_model.pb", "pb"), ("saved_model.pbtxt", "pbtxt")):
        save_graph(read_graph(META), form, str(tmp_path / name))  # type: ignore[arg-type]
        model = read_graph(str(tmp_path / name))
        assert model.kind == "SavedModel"
        assert model.choose(None).data() == read_graph(META).data()


def test_the_whole_and_parts() -> None:
    model = read_graph(os.path.join(FIXTURES, "saved_model/tf1.15/builder/model/saved_model.pb"))
    assert choose_graph(model, whole=True) is model
    part = choose_graph(model, tags=["serve"], fields=["saver_def"])
    pieces = bytearray()
    write_graph(part, "json", pieces.extend, JsonForm(indent=None))
    assert list(json.loads(pieces)) == ["saverDef"]


def test_destinations(tmp_path: Path) -> None:
    source = tmp_path / "graph.meta"
    shutil.copy(META, source)
    (tmp_path / "other").write_text("old")
    (tmp_path / "link").hardlink_to(source)
    document = read_graph(str(source))
    for name, problem in (
        ("other", "already exists; use --force"),
        ("link", "the file that is read"),
        ("graph.meta", "the file that is read"),
    ):
        with pytest.raises(DestinationError, match=problem):
            save_graph(document, "pb", str(tmp_path / name), force=problem[0] == "t")
    with pytest.raises(DestinationError, match="it is a folder"):
        save_graph(document, "pb", str(tmp_path), force=True)
    with pytest.raises(FileAccessError if os.path.exists("/proc") else CkptError):
        save_graph(document, "pb", str(tmp_path / "other" / "x"))
    save_graph(document, "pb", str(tmp_path / "other"), force=True)
    assert (tmp_path / "other").read_bytes() == document.data()
    assert sorted(os.listdir(tmp_path)) == ["graph.meta", "link", "other"]


def test_what_was_written_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_write = metajson.write_graph

    def damaging(document: object, form: GraphForm, write: object, json_form: object) -> object:
        found = true_write(document, form, write, json_form)  # type: ignore[arg-type]
        (staged,) = (path for path in tmp_path.iterdir() if path.stat().st_size)  # beside a lock
        with open(staged, "r+b") as file:
            file.write(b"\0")
        return found

    monkeypatch.setattr(metajson, "write_graph", damaging)
    with pytest.raises(CorruptError, match="the file does not read back as written"):
        save_graph(read_graph(META), "json", str(tmp_path / "x.json"))
    assert os.listdir(tmp_path) == []


def test_losses_are_told(tmp_path: Path) -> None:
    deep = pb.MetaGraphDef()
    deep.graph_def.debug_info.files.append("x")
    path = tmp_path / "g.meta"
    path.write_bytes(deep.SerializeToString() + b"\xfa\x07\x01x")
    (loss,) = save_graph(read_graph(str(path)), "pbtxt", str(tmp_path / "g.pbtxt"))
    assert loss.what == "field 127 of tensorflow.MetaGraphDef, which is not in the schema"
    assert metajson.losses(read_graph(str(path)), "pbtxt", JsonForm()) == (loss,)
    assert metajson.losses(read_graph(str(path)), "pb", JsonForm()) == ()
    assert metajson.losses(read_graph(str(path)), "json", JsonForm()) == (loss,)
