"""`ckpt ls` as its users run it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.command import ckpt, shell
from tests.support.fixtures import FIXTURES, bundle
from tests.support.schemas import load_schema, validate
from tests.support.wild import WILD

FOLDER = os.path.join(FIXTURES, "v2/tf2.21/guide_legacy_adam/tf_ckpts")
GUIDE = os.path.join(FOLDER, "ckpt-5")
KERAS = bundle("v2/tf2.21/keras3_adam/ckpt-1").prefix
# Fixtures with something odd about keys, shards, dtypes or objects; the rest is told by
# tests/query, in one process.
SHOWN = (
    "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5",
    "v2/tf2.21/partitioned_sharded/model",
    "v2/tf2.21/odd_keys/odd",
    "v2/tf2.21/keys_not_utf8/bytes",
    "v2/tf2.21/many_keys/many",
    "v2/tf2.21/containers/ckpt-1",
    "v2/tf1.15/partitioned_sharded/model.ckpt-7",
)


def document(*words: str) -> dict[str, Any]:
    """Run `ckpt ls --json`, hold the output to its schema and return it."""
    done = ckpt("ls", "--json", *words)
    assert done.code == 0, done.err
    assert done.out.isascii()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    found: dict[str, Any] = json.loads(done.out, parse_constant=refuse)
    validate(found, "ckpt.ls/1")
    return found


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(load_schema("ckpt.ls/1"))


@pytest.mark.parametrize("name", SHOWN)
def test_every_form_has_every_tensor(name: str) -> None:
    prefix = bundle(name).prefix
    found = document(prefix)
    tensors, style = found["tensors"], found["source"]["style"]
    assert len(tensors) == len(bundle(name).tensors)
    plain = ckpt("ls", prefix, "--long").out.splitlines()
    headings = plain[0].split("\t")
    assert headings[0] == ("key" if style == "name" else "object_path")
    named = "name" in headings
    assert headings[1 + named : 5 + named] == ["dtype", "shape", "kind", "bytes"]
    assert len(plain) == 1 + len(tensors)
    lines = ckpt("ls", prefix, "--format", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == tensors
    names = ckpt("ls", prefix, "--format", "names").out.splitlines()
    keys = ckpt("ls", prefix, "--keys").out.splitlines()
    assert keys[0] == "key\tdtype\tshape\tkind\tbytes"
    assert names == [line.split("\t")[0] for line in keys[1:]]
    paths = ckpt("ls", prefix, "--object-paths", "--format", "names").out.splitlines()
    assert paths == [line.split("\t")[0] for line in plain[1:]]
    for format in ("table", "csv", "markdown"):
        done = ckpt("ls", prefix, "--format", format)
        assert done.code == 0 and len(done.out.splitlines()) > len(tensors)
        assert all(char.isprintable() for char in done.out if char != "\n")


def test_plain_is_what_a_script_expects() -> None:
    done = ckpt("ls", GUIDE, "net/l1/bias", "--kind", "weight")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "object_path\tname\tdtype\tshape\tkind\tbytes\n"
        "net/l1/bias\tnet/dense/bias\tfloat32\t[5]\tweight\t20\n"
    )
    assert ckpt("ls", GUIDE, "net/l1/bias", "--keys").out == (
        "key\tdtype\tshape\tkind\tbytes\n"
        "net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE\tfloat32\t[5]\tweight\t20\n"
    )


def test_names_stand_in_a_column_only_where_they_say_more() -> None:
    lines = ckpt("ls", KERAS, "optimizer").out.splitlines()
    assert lines[0].split("\t") == ["object_path", "name", "dtype", "shape", "kind", "bytes"]
    rows = dict(line.split("\t")[:2] for line in lines[1:])
    assert rows["optimizer/_trainable_variables/2"] == "sequential/dense_1/kernel"
    assert rows["optimizer/_variables/3"] == "adam/sequential_dense_kernel_velocity"
    every = ckpt("ls", KERAS, "--format", "csv").out.splitlines()
    assert "_CHECKPOINTABLE_OBJECT_GRAPH,,string,[],graph,2321" in every
    # What is called `Variable` was called nothing, and `save_counter` is what its path says.
    for prefix in (bundle("v2/tf2.21/containers/ckpt-1").prefix, GUIDE):
        counter = ckpt("ls", prefix, "save_counter", "--long").out.splitlines()
        assert counter[0].split("\t")[:2] == ["object_path", "dtype"]
    assert "name" not in ckpt("ls", bundle("v2/tf2.21/saver_v2/model.ckpt-2").prefix).out


def test_json_has_all_names() -> None:
    found = {each["key"]: each for each in document(KERAS)["tensors"]}
    kernel = found["optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE"]
    assert kernel["name"] == "sequential/dense/kernel"
    assert kernel["object_path"] == kernel["paths"][0] == "optimizer/_trainable_variables/0"
    assert "model/_functional/_operations/1/_kernel" in kernel["paths"]
    for path in kernel["paths"]:
        assert [each["key"] for each in document(KERAS, f"={path}")["tensors"]] == [kernel["key"]]
    graph = found["_CHECKPOINTABLE_OBJECT_GRAPH"]
    assert (graph["object_path"], graph["name"], graph["paths"]) == (None, None, [])
    guide = {each["object_path"]: each for each in document(GUIDE)["tensors"]}
    assert guide["step"]["name"] == "Variable" and guide["step"]["paths"] == ["step"]
    assert guide["iterator/.ITERATOR_STATE"]["paths"] == ["iterator/.ITERATOR_STATE"]
    of_names = document(bundle("v2/tf2.21/saver_v2/model.ckpt-2").prefix)["tensors"]
    assert {(each["name"], *each["paths"]) for each in of_names} == {(None,)}


@pytest.mark.parametrize(
    ("prefix", "hint"),
    [
        (KERAS, "no room for dtype"),
        (GUIDE, "no room for name"),
        (bundle("v2/tf2.21/guide_new_adam/tf_ckpts/ckpt-5").prefix, "no room for dtype"),
    ],
    ids=("keras", "guide", "guide of a new optimizer"),
)
def test_a_line_for_each_tensor_in_80_columns(prefix: str, hint: str) -> None:
    tensors = document(prefix)["tensors"]
    lines = ckpt("ls", prefix, "--format", "table", environ={"COLUMNS": "80"}).out.splitlines()
    assert len(lines) == len(tensors) + 2 and max(map(len, lines)) <= 80
    assert lines[-1].endswith(f"; {hint}")
    for line, each in zip(lines[1:], tensors, strict=False):
        assert line.split()[0] == (each["object_path"] or each["key"])
    wide = ckpt("ls", prefix, "--format", "table", environ={"COLUMNS": "200"}).out.splitlines()
    assert wide[0].split() == ["path", "name", "dtype", "shape", "kind", "bytes"]
    assert "no room" not in wide[-1]


def test_an_odd_name_typed_as_it_is_printed_selects_the_tensor() -> None:
    prefix = bundle("v2/tf2.21/odd_keys/odd").prefix
    for name in ckpt("ls", prefix, "--format", "names").out.splitlines():
        done = ckpt("ls", prefix, f"={name}", "--format", "names")
        assert (done.code, done.out) == (0, f"{name}\n"), done.err


def test_a_folder_is_headed_by_its_checkpoints() -> None:
    found = document(FOLDER)
    assert [row["name"] for row in found["checkpoints"]] == ["ckpt-3", "ckpt-4", "ckpt-5"]
    assert found["source"]["prefix"] == GUIDE and found["source"]["path"] == FOLDER
    assert "checkpoints" not in document(GUIDE)
    table = ckpt("ls", FOLDER, "--format", "table").out
    assert table.index("ckpt-3") < table.index("\n\npath")
    assert "ckpt-3" not in ckpt("ls", FOLDER).out


def test_checkpoints_alone() -> None:
    found = document("-d", FOLDER)
    assert found["folder"] == FOLDER and "tensors" not in found
    assert [row["latest"] for row in found["checkpoints"]] == [False, False, True]
    for format in ("plain", "jsonl", "csv", "markdown", "names", "table"):
        done = ckpt("ls", "-d", FOLDER, "--format", format)
        assert done.code == 0 and "ckpt-4" in done.out
    # Any address of a checkpoint stands for its folder.
    assert document("-d", GUIDE + ".index")["checkpoints"] == found["checkpoints"]


def test_sums_by_scope_have_shares_on_a_terminal() -> None:
    done = ckpt("ls", GUIDE, "--depth", "1", "--format", "table", environ={"COLUMNS": "100"})
    head, *rows, _ = done.out.splitlines()
    assert head.split() == ["scope", "kind", "tensors", "elements", "bytes", "share"]
    assert max(map(len, rows)) <= 100 and all("━" in row or "╸" in row for row in rows)
    shares = [float(row.split(" %")[0].split()[-1]) for row in rows]
    assert abs(sum(shares) - 100) < 0.5
    assert "share" not in ckpt("ls", GUIDE, "--depth", "1").out


def test_a_table_of_checkpoints_has_one_status(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "run")
    os.truncate(tmp_path / "run/ckpt-3.data-00000-of-00001", 100)
    os.unlink(tmp_path / "run/ckpt-5.data-00000-of-00001")
    words = ("ls", "-d", "run", "--format", "table")
    done = ckpt(*words, folder=os.fspath(tmp_path), environ={"COLUMNS": "80"})
    head, *rows = done.out.splitlines()
    assert head.split() == ["checkpoint", "saved", "step", "tensors", "bytes", "status"]
    assert max(map(len, [head, *rows])) <= 80
    assert " ".join(done.out.split()).count("latest, missing ckpt-5.data-00000-of-00001") == 1
    wide = ckpt(*words, folder=os.fspath(tmp_path), environ={"COLUMNS": "200", "FORCE_COLOR": "1"})
    _, first, second, last = wide.out.splitlines()
    assert first.endswith(" bytes at the end of ckpt-3.data-00000-of-00001\x1b[0m")
    assert "\x1b[1;31mmissing" in first and second.endswith("  complete")
    assert last.endswith("\x1b[1;31mlatest, missing ckpt-5.data-00000-of-00001\x1b[0m")


def test_no_heading_without_rows() -> None:
    model = os.fspath(WILD / "t2onnx_no_variables")
    if not os.path.exists(model):
        pytest.skip("no artefacts of others here")
    done = ckpt("ls", model, "--format", "table")
    assert done.out == "0 tensors, 0 elements, 0 B\n"
    done = ckpt("ls", "-d", model)
    assert (done.code, done.out) == (2, "") and "the SavedModel has no variables" in done.err


def test_views() -> None:
    tree = document(KERAS, "--tree")["tree"]
    assert tree[0]["depth"] == 0 and any(node["same_as"] for node in tree)
    scopes = document(GUIDE, "--depth", "1")["scopes"]
    assert {"net", "optimizer", "iterator"} <= {row["scope"] for row in scopes}
    folded = document(KERAS, "--collapse")["folded"]
    assert any(row["name"] == "optimizer/_variables/#" for row in folded)
    drawn = ckpt("ls", GUIDE, "--tree").out
    assert "│       ├── kernel  float32 [1, 5]  weight  20 B  + slots m, v: 40 B" in drawn
    shallow = ckpt("ls", GUIDE, "--tree", "--depth", "1").out
    assert "├── net  … 3 objects below" in shallow
    for format in ("plain", "csv", "markdown", "jsonl", "names", "table"):
        assert ckpt("ls", KERAS, "--collapse", "--format", format).code == 0
        assert ckpt("ls", KERAS, "--depth", "2", "--format", format).code == 0


def test_object_paths() -> None:
    names = ckpt("ls", GUIDE, "--object-paths", "--format", "names").out.splitlines()
    assert "net/l1/kernel" in names and "iterator/.ITERATOR_STATE" in names


def test_missing_shards_are_said_and_do_not_matter(tmp_path: os.PathLike[str]) -> None:
    shutil.copy(GUIDE + ".index", tmp_path)
    prefix = os.path.join(tmp_path, "ckpt-5")
    done = ckpt("ls", prefix)
    assert done.code == 0
    whole = [line.split("\t") for line in ckpt("ls", GUIDE).out.splitlines()]
    # Variable names are in the graph, which is in the shard.
    assert [line.split("\t") for line in done.out.splitlines()] == [
        [path, *rest] for path, _, *rest in whole
    ]
    assert "ckpt-5.data-00000-of-00001" in done.err
    assert document(prefix)["source"]["missing_shards"] == ["ckpt-5.data-00000-of-00001"]
    tree = ckpt("ls", prefix, "--tree")
    assert (tree.code, tree.out) == (2, "") and "missing" in tree.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere/ckpt-1"], "there is no folder 'nowhere'"),
        ([GUIDE[:-1] + "6"], "nearest: "),
        ([GUIDE, "net/l1/kernle"], "nearest: 'net/l1/kernel'"),
        ([GUIDE, "re:("], "re:("),
        ([GUIDE, "--kind", "wieght"], "nearest: 'weight'"),
        ([GUIDE, "--collapse", "--depth", "1"], "cannot be combined"),
        ([GUIDE, "--tree", "--format", "csv"], "--tree prints as"),
        ([GUIDE, "-d", "net"], "--checkpoints lists checkpoints"),
        ([GUIDE, "--sort", "color"], "--sort"),
        ([GUIDE, "--json", "--format", "csv"], "contradict"),
        ([], "PATH"),
        (["/dev/null"], "not a regular file"),
        ([os.path.join(FIXTURES, "README.md")], "not a file of a checkpoint"),
    ],
)
def test_what_cannot_be_done_is_exit_2_and_a_line(words: list[str], message: str) -> None:
    done = ckpt("ls", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err and "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 2


def test_a_damaged_index_is_told_with_its_place(tmp_path: os.PathLike[str]) -> None:
    prefix = os.path.join(tmp_path, "ckpt-5")
    shutil.copy(GUIDE + ".index", prefix + ".index")
    with open(prefix + ".index", "r+b") as file:
        file.seek(40)
        file.write(b"\xff")
    done = ckpt("ls", prefix)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"ckpt: {prefix}.index:0: a table block is damaged: crc32c 0x")
    assert "Traceback" in ckpt("ls", "-vv", prefix).err


def test_verbose_says_what_the_address_led_to() -> None:
    assert ckpt("ls", FOLDER, "-v").err == f"ckpt: {FOLDER} is the V2 checkpoint {GUIDE}\n"


def test_options_come_from_the_environment() -> None:
    done = ckpt("ls", GUIDE, environ={"CKPT_LS_FORMAT": "names", "CKPT_LS_KIND": "step"})
    assert done.out.splitlines() == [
        "save_counter/.ATTRIBUTES/VARIABLE_VALUE",
        "step/.ATTRIBUTES/VARIABLE_VALUE",
    ]


def test_a_reader_that_goes_away_is_no_error() -> None:
    many = bundle("v2/tf2.21/many_keys/many").prefix
    done = shell('set -o pipefail; $CKPT ls "$1" | head -1', words=[many])
    assert done.out == "key\tdtype\tshape\tkind\tbytes\n"
    assert (done.code, done.err) in ((0, ""), (141, ""))
    full = shell('$CKPT ls "$1" > /dev/full', words=[many])
    assert full.code == 2 and "No space left" in full.err


def test_colour_only_where_it_is_wanted() -> None:
    plain = ckpt("ls", GUIDE, "--format", "table").out
    coloured = ckpt("ls", GUIDE, "--format", "table", "--color", "always").out
    assert "\x1b[" in coloured and "\x1b[" not in plain
    assert "\x1b[" in ckpt("ls", GUIDE, "--format", "table", environ={"FORCE_COLOR": "1"}).out
    both = {"FORCE_COLOR": "1", "NO_COLOR": "1"}
    assert ckpt("ls", GUIDE, "--format", "table", environ=both).out == plain


def test_no_key_is_cut_on_a_narrow_terminal() -> None:
    narrow = ckpt("ls", GUIDE, "--format", "table", environ={"COLUMNS": "40"}).out
    assert max(map(len, narrow.splitlines())) <= 40
    joined = narrow.replace("\n", "").replace(" ", "")
    for each in document(GUIDE)["tensors"]:
        assert (each["object_path"] or each["key"]) in joined
    keys = ckpt("ls", GUIDE, "--keys", "--format", "table", environ={"COLUMNS": "40"}).out
    joined = keys.replace("\n", "").replace(" ", "")
    assert all(each["key"] in joined for each in document(GUIDE)["tensors"])


def test_keys_need_no_data_shard(tmp_path: Path) -> None:
    prefix = os.path.join(FIXTURES, "v2", "tf2.21", "keras3_adam", "ckpt-1")
    with_graph = ckpt("ls", prefix, "sequential/dense/kernel", "--format", "names")
    assert with_graph.out == "optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE\n"
    assert ckpt("ls", prefix, "--keys", "sequential/dense/kernel").code == 2
    shutil.copy(f"{prefix}.index", tmp_path)
    os.mkfifo(tmp_path / "ckpt-1.data-00000-of-00001")  # opening it would wait for ever
    keys = ckpt("ls", str(tmp_path / "ckpt-1"), "--keys", "--format", "names")
    assert keys.code == 0 and len(keys.out.splitlines()) == 16


@pytest.mark.parametrize("format", ["svg", "dot", "mermaid"])
def test_pictures_go_to_stdout_and_what_they_lack_to_stderr(format: str) -> None:
    done = ckpt("ls", KERAS, "--format", format)
    assert done.code == 0
    assert "_momentums" in done.out.replace("#95;", "_")
    assert done.err == "ckpt: 26 of 35 objects drawn: 9 empty; --all draws all\n"
    done = ckpt("ls", KERAS, "--format", format, "--all")
    assert (done.code, done.err) == (0, "")


def test_a_tree_as_markdown_is_a_picture_and_a_list_is_not() -> None:
    done = ckpt("ls", GUIDE, "--tree", "--format", "markdown", "--depth", "1")
    assert done.out.startswith("```mermaid\nflowchart LR\n") and done.out.endswith("```\n")
    assert done.err == "ckpt: 6 of 18 objects drawn: 12 deeper\n"
    assert ckpt("ls", GUIDE, "--format", "markdown").out.startswith("|")
    for words in (["--all"], ["--tree", "--format", "csv"], ["--format", "svg", "--limit", "2"]):
        done = ckpt("ls", GUIDE, *words)
        assert (done.code, done.out) == (2, ""), words
