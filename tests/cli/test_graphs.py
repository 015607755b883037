"""What `ckpt show`, `ckpt diff` and `ckpt check` say of graphs, as users run them."""

from __future__ import annotations

import glob
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool import pb
from tests.metagraph.graph_messages import FLOAT, INT32, constant, node, with_saver, written
from tests.support.command import ckpt
from tests.support.fixtures import FIXTURES
from tests.support.schemas import validate

SAVER = f"{FIXTURES}/v2/tf1.15/saver/model.ckpt-3"
EXPORT = f"{FIXTURES}/session_bundle/tf0.12/assets/export"
KERAS = f"{FIXTURES}/saved_model/tf2.21/tf_keras/model"
BUILDER = f"{FIXTURES}/saved_model/tf2.21/v1_builder"
ALONE = f"{FIXTURES}/meta/tf1.4/collections/graph.meta"


def document(*words: str, code: int = 0) -> dict[str, Any]:
    """Run a command with --json and hold the output to its schema."""
    done = ckpt(*words, "--json")
    assert done.code == code, done.err
    found: dict[str, Any] = json.loads(done.out)
    validate(found, f"ckpt.{words[0]}/1")
    return found


def text(*words: str, code: int = 0) -> str:
    done = ckpt(*words)
    assert done.code == code, done.err
    return done.out


def every_graph() -> list[str]:
    metas = glob.glob(f"{FIXTURES}/*/**/*.meta", recursive=True)
    return sorted([*metas, *glob.glob(f"{FIXTURES}/*/**/saved_model.pb*", recursive=True)])


@pytest.mark.parametrize("path", every_graph()[::4])
def test_every_graph_shows(path: str) -> None:
    found = document("show", path, "--graph")
    assert len(found["graphs"]) >= 1 and found["problems"] == []
    lines = [
        json.loads(line)
        for line in text("show", path, "--graph", "--format", "jsonl").split("\n")
        if line
    ]
    assert lines == found["graphs"]
    assert text("show", path, "--graph").startswith(f"{path}\n")


def test_show_graph_in_words() -> None:
    out = text("show", KERAS, "--graph")
    for line in (
        "tags        serve",
        "written by  TensorFlow 2.21.0 (v2.21.0-rc1-5-ga481b10260d)",
        "size        27 nodes, 11 functions, 47 objects, 33.7 KiB",
        "saver       V2, keeps all",
        "            restores by StatefulPartitionedCall_2",
        "init op     NoOp (saved_model_main_op)",
        "signature serving_default (tensorflow/serving/predict)",
        "  in  input_8  float32 [?, 2]  serving_default_input_8:0",
        "10 variables, as in the checkpoint",
    ):
        assert line in out.splitlines()
    words = " ".join(out.split())
    assert "optimizer/iter int64 [] same" in words
    assert "SaveV2 writes writes tensors to a checkpoint (the Saver) 1" in words
    assert "/device:CPU:0 44" in words and "Identity 43" in words


def test_show_an_export() -> None:
    assert "signatures serving_default," in text("show", EXPORT)
    out = text("show", EXPORT, "--full")
    assert "  signature serving_default (tensorflow/serving/regress)" in out
    assert "  assets vocabulary.txt" in out
    assert "  variables 4 variables, as in the checkpoint" in out
    (graph,) = document("show", EXPORT, "--graph")["graphs"]
    assert graph["assets"] == [{"tensor": "asset_path:0", "filename": "vocabulary.txt"}]
    assert graph["run_ops"][0]["name"] == "init_all"
    assert graph["signatures"][0]["key"] == "serving_default"
    (short,) = document("show", EXPORT)["summary"]["metagraphs"]
    assert short["comparison"]["agrees"] is True and short["comparison"]["unsaved"] == 0


def test_a_graph_without_its_checkpoint() -> None:
    done = ckpt("show", ALONE)
    assert done.code == 0 and "a MetaGraph without its checkpoint" in done.err
    assert done.out.startswith(f"{ALONE}\n")
    found = document("show", ALONE, "--graph")
    assert found["source"] is None and found["graphs"][0]["comparison"] is None
    assert ckpt("show", ALONE, "--graph").err == ""
    # Tensors there are none.
    assert ckpt("show", ALONE, "w").code == 2
    assert ckpt("show", ALONE, "--stats").code == 2


def test_a_model_without_variables(tmp_path: Path) -> None:
    shutil.copy(f"{KERAS}/saved_model.pb", tmp_path)
    done = ckpt("show", str(tmp_path))
    assert done.code == 0 and "the SavedModel has no variables" in done.err
    assert "optimizer/iter" in done.out
    for command in ("show", "ls"):
        found = document(command, str(tmp_path))
        assert (found["source"]["shards"], found["source"]["byte_order"]) == (0, None)
        validate(found, found["schema"])


def test_a_damaged_checkpoint_beside_a_graph(tmp_path: Path) -> None:
    for path in glob.glob(f"{SAVER}.*"):
        shutil.copy(path, tmp_path)
    (tmp_path / "model.ckpt-3.index").write_bytes(b"nothing")
    found = document("show", str(tmp_path / "model.ckpt-3"), "--graph")
    assert found["graphs"][0]["nodes"] == 113 and len(found["problems"]) == 1


def test_long_lists_are_cut(tmp_path: Path) -> None:
    message = pb.MetaGraphDef()
    for number in range(60):
        node(message.graph_def, f"n{number}", f"Op{number}")
    path = written(message, tmp_path / "x.meta")
    assert "... 40 more" in text("show", path, "--graph")
    out = text("show", path, "--graph", "--full")
    assert "more" not in out and "Op59" in out


def test_what_the_saver_leaves_alone_is_told(tmp_path: Path) -> None:
    prefix = copied(tmp_path, with_saver({"w": (FLOAT, [1]), "rest": (FLOAT, [2])}, {"w": "w"}))
    out = text("show", prefix)
    assert "2 variables, 1 not in the checkpoint, 11 in the checkpoint alone, 1 not saved" in out
    lines = [line.split() for line in text("show", prefix, "--graph").splitlines()]
    assert ["w", "float32", "[1]", "MISSING"] in lines
    assert ["rest", "float32", "[2]", "not", "saved"] in lines
    assert ["global_step", "-", "-", "int64", "[],", "not", "in", "the", "graph"] in lines


def test_names_are_printable(tmp_path: Path) -> None:
    message = with_saver({"w\x1b[31m": (FLOAT, [1])})
    message.meta_info_def.tensorflow_version = "\x1b9"
    message.collection_def["a\nb"].node_list.value.append("x")
    message.signature_def["\x07"].inputs["\t"].name = "\x1b"
    path = written(message, tmp_path / "x.meta")
    for words in (("show", path, "--graph"), ("diff", path, ALONE, "--all")):
        for format in ("table", "plain"):
            out = ckpt(*words, "--format", format).out
            assert out and "\x1b" not in out and "\x07" not in out and "a\nb" not in out


@pytest.mark.parametrize(
    "words", [("w", "--graph"), ("--graph", "--stats"), ("--graph", "--kind", "weight")]
)
def test_usage_of_show(words: tuple[str, ...]) -> None:
    assert ckpt("show", SAVER, *words).code == 2


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"not a graph", b"\x0a\xff\xff\xff\x7f"])
def test_show_of_what_is_no_graph(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.meta").write_bytes(content)
    for words in (("--graph",), ()):
        done = ckpt("show", str(tmp_path / "x.meta"), *words)
        assert done.code == 2 and done.out == ""
        assert "x.meta" in done.err and "Traceback" not in done.err


def test_diff_of_graph_files(tmp_path: Path) -> None:
    a = written(with_saver({"w": (FLOAT, [2])}), tmp_path / "a.meta")
    b = written(with_saver({"w": (INT32, [2])}), tmp_path / "b.meta")
    assert text("diff", a, a) == "name\tstatus\tpart\tchange\twhat\ta\tb\ttags\n"
    assert text("diff", a, a, "--format", "table").splitlines()[-1] == "equal: 1 graph"
    lines = text("diff", a, b, code=1).splitlines()[1:]
    assert lines == [
        "save/RestoreV2\tM\tnode\tchanged\tattr dtypes\t[float32]\t[int32]\t-",
        "w\tM\tnode\tchanged\tattr dtype\tfloat32\tint32\t-",
    ]
    assert text("diff", a, b, "--name-status", code=1) == "M\tnode\tsave/RestoreV2\nM\tnode\tw\n"
    assert text("diff", a, b, "--name-only", code=1) == "node\tsave/RestoreV2\nnode\tw\n"
    assert text("diff", a, b, "--stat", code=1) == "part\tadded\tremoved\tchanged\nnode\t0\t0\t2\n"
    assert text("diff", a, b, "--quiet", code=1) == ""
    found = document("diff", a, b, code=1)
    assert found["verdict"] == "different" and found["paths"] == [a, b]
    assert found["metagraphs"][0]["totals"]["node"] == {"added": 0, "removed": 0, "changed": 2}
    table = text("diff", a, b, "--format", "table", code=1)
    assert "~ w               attr dtype: float32 → int32" in table.splitlines()


def test_diff_of_models_is_of_graphs_where_asked_for() -> None:
    found = document("diff", f"{BUILDER}/model", f"{BUILDER}/text", "--graph", code=1)
    assert [(each["tags"], each["presence"], each["equal"]) for each in found["metagraphs"]] == [
        (["serve"], "both", True),
        (["gpu", "serve"], "a", False),
    ]
    assert "tensors" in document("diff", f"{BUILDER}/model", f"{BUILDER}/text")
    assert document("diff", SAVER, SAVER, "--graph")["verdict"] == "equal"
    # Patterns choose tensors, so the graph files stand for their checkpoints.
    assert "tensors" in document("diff", f"{SAVER}.meta", f"{SAVER}.meta", "dense")


def test_diff_shows_many_where_asked_for(tmp_path: Path) -> None:
    message = pb.MetaGraphDef()
    node(message.graph_def, "n", "NoOp")
    a = written(message, tmp_path / "a.meta")
    for number in range(90):
        node(message.graph_def, f"n{number}", "NoOp")
    b = written(message, tmp_path / "b.meta")
    assert "... 40 more; --all shows them" in text("diff", a, b, "--format", "table", code=1)
    assert "more" not in text("diff", a, b, "--format", "table", "--all", code=1)


@pytest.mark.parametrize(
    "words",
    [
        (SAVER, "--graph"),
        (SAVER, SAVER, "dense", "--graph"),
        (SAVER, SAVER, "--graph", "--exact"),
        (SAVER, SAVER, "--graph", "--rtol", "0"),
        (SAVER, SAVER, "--graph", "--series"),
        (SAVER, ALONE),
        (f"{FIXTURES}/v2/tf2.21/guide_legacy_adam/tf_ckpts", SAVER, "--graph"),
        (SAVER, "nowhere.meta", "--graph"),
    ],
)
def test_graphs_that_cannot_be_compared(words: tuple[str, ...]) -> None:
    done = ckpt("diff", *words)
    assert done.code == 2 and done.out == "" and done.err


def copied(folder: Path, message: pb.MetaGraphDef | None = None) -> str:
    for path in glob.glob(f"{SAVER}.*"):
        shutil.copy(path, folder)
    if message is not None:
        written(message, folder / "model.ckpt-3.meta")
    return str(folder / "model.ckpt-3")


def test_check_against_the_graph(tmp_path: Path) -> None:
    assert "11 variables of the graph" in text("check", SAVER, "--graph", "--format", "table")
    other = with_saver({"dense/kernel": (FLOAT, [3, 9]), "new": (FLOAT, [1])})
    prefix = copied(tmp_path, other)
    found = document("check", prefix, "--graph", code=1)
    problems = {(each["problem"], each["key"]) for each in found["findings"]}
    assert {("graph-missing", "new"), ("graph-shape", "dense/kernel")} <= problems
    assert ("graph-extra", "global_step") in problems
    assert found["totals"]["graph_missing"] == 1 and found["totals"]["graph_extra"] == 10
    assert found["totals"]["variables"] == 2 and found["graph"] is True
    found = document("check", prefix, "--graph", "--allow-extra", code=1)
    assert [each["problem"] for each in found["findings"]] == ["graph-missing", "graph-shape"]
    (missing, shape) = found["findings"]
    assert missing["message"] == "missing from the checkpoint; the MetaGraph has float32 [1]"
    assert shape["graph"] == {"name": "dense/kernel", "dtype": "float32", "shape": [3, 9]}
    assert shape["message"] == (
        "the checkpoint has float32 [3, 2]; the MetaGraph has float32 [3, 9]"
    )
    words = ("--allow-extra", "--ignore", "new", "--ignore", "dense/kernel")
    assert document("check", prefix, "--graph", *words)["verdict"] == "ok"
    found = document("check", prefix, "--graph", "dense/kernel", code=1)
    assert [each["key"] for each in found["findings"]] == ["dense/kernel"]
    out = text("check", prefix, "--graph", "--format", "junit", code=1)
    assert out.count("<testcase") == 12 and 'name="new"' in out
    assert "::error title=ckpt check%3A graph-missing::new: missing" in text(
        "check", prefix, "--graph", "--allow-extra", "--format", "github", code=1
    )


def test_check_of_a_graph_and_a_lock(tmp_path: Path) -> None:
    prefix = copied(tmp_path, with_saver({"new": (FLOAT, [1])}))
    lock = tmp_path / "lock.json"
    lock.write_text(text("ls", prefix, "--json"))
    found = document("check", prefix, "--against", str(lock), "--graph", "--allow-extra", code=1)
    assert [each["problem"] for each in found["findings"]] == ["graph-missing"]
    assert found["totals"]["compared"] == 11


def test_check_without_a_graph(tmp_path: Path) -> None:
    done = ckpt("check", f"{FIXTURES}/v2/tf2.21/guide_legacy_adam/tf_ckpts", "--graph")
    assert done.code == 2 and "has no MetaGraph" in done.err
    message = pb.MetaGraphDef()
    constant(message.graph_def, "c", pb.TensorProto(dtype=FLOAT))
    done = ckpt("check", copied(tmp_path, message), "--graph")
    assert done.code == 2 and "names no variables" in done.err
    assert ckpt("check", SAVER, "--graph", "--update", "--against", "x").code == 2


def test_listing_by_kind_uses_the_graph(tmp_path: Path) -> None:
    message = with_saver({"w": (FLOAT, [2]), "s": (FLOAT, [2])})
    node(message.graph_def, "u", "ApplyMomentum", "w", "s")
    written(message, tmp_path / "m.meta")
    values = {"w": np.zeros(2, np.float32), "s": np.zeros(2, np.float32)}
    ckpttool.save_checkpoint(str(tmp_path / "m"), values)
    assert text("ls", str(tmp_path / "m"), "--kind", "slot", "--format", "names") == "s\n"
    os.remove(tmp_path / "m.meta")
    assert text("ls", str(tmp_path / "m"), "--kind", "slot", "--format", "names") == ""
