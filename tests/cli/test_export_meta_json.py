"""`ckpt export-meta-json` as its users run it."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from ckpttool import pb
from ckpttool.coding.wire import bytes_field, varint_field
from ckpttool.pb.pool import POOL
from tests.support.command import ckpt, environment, shell
from tests.support.fixtures import FIXTURES, read_bytes

COMMAND = "export-meta-json"
META = os.path.join(FIXTURES, "meta/tf1.15/collections/graph.meta")
MODEL = os.path.join(FIXTURES, "saved_model/tf2.21/module/model")
BUILDER = os.path.join(FIXTURES, "saved_model/tf1.15/builder/model")


def run(*words: str, folder: Path | None = None) -> str:
    """Run it; nothing may be complained of."""
    done = ckpt(COMMAND, *words, folder=str(folder) if folder else None)
    assert (done.code, done.err) == (0, "")
    return done.out


def document(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*words))
    return found


def refused(*words: str, folder: Path | None = None) -> str:
    """Run it, which must fail without output; return the line that says why."""
    done = ckpt(COMMAND, *words, folder=str(folder) if folder else None)
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    return done.err


def test_json_of_a_meta_file() -> None:
    text = run(META)
    graph = pb.MetaGraphDef.FromString(read_bytes(META))
    assert json.loads(text) == json_format.MessageToDict(graph, descriptor_pool=POOL)
    assert text.isascii()
    assert text.startswith('{\n  "metaInfoDef": {\n    "strippedOpList": {')
    assert text.endswith("}\n")
    assert run(META) == text


def test_layout() -> None:
    found = document(META)
    assert run(META, "--indent", "1") == json.dumps(found, indent=1) + "\n"
    assert run(META, "--one-line") == json.dumps(found, separators=(",", ":")) + "\n"


def test_select() -> None:
    found = document(META, "--select", "saver_def, collectionDef")
    assert list(found) == ["saverDef", "collectionDef"]
    assert "no field 'saver'; it may have meta_info_def" in refused(META, "--select", "saver")


def test_tag_sets() -> None:
    assert "it has 2 MetaGraphs; the tag sets are: serve; serve,gpu" in refused(BUILDER)
    found = document(BUILDER, "--tag-set", "gpu,serve")
    assert found["metaInfoDef"]["tags"] == ["serve", "gpu"]
    whole = document(BUILDER, "--saved-model")
    assert [graph["metaInfoDef"]["tags"] for graph in whole["metaGraphs"]] == [
        ["serve"],
        ["serve", "gpu"],
    ]
    assert whole["metaGraphs"][1] == found
    assert document(MODEL) == document(MODEL, "--saved-model")["metaGraphs"][0]


def test_fingerprint() -> None:
    found = document(f"{MODEL}/fingerprint.pb")
    assert found["version"] == {"producer": 4}
    assert found["checkpointHash"].isdigit()


def test_decode_collections() -> None:
    found = document(META, "--decode-collections", "--select", "collection_def")
    first = found["collectionDef"]["variables"]["bytesList"]["value"][0]
    assert first["@type"] == "type.googleapis.com/tensorflow.VariableDef"
    assert first["variableName"] == "weight:0"


def test_elide_constants(tmp_path: Path) -> None:
    whole = run(MODEL)
    assert "ckpt:elided" not in whole
    assert "ckpt:elided" not in run(MODEL, "--elide-constants=1000000")
    text = run("--elide-constants", MODEL)
    assert text == run(MODEL, "--elide-constants=64")
    few = text.count("ckpt:elided")
    assert 0 < few < run(MODEL, "--elide-constants=0").count("ckpt:elided")
    assert len(text) < len(whole)
    (tmp_path / "x.json").write_text(text)
    line = refused("--from-json", "x.json", "-o", "x.meta", folder=tmp_path)
    assert "x.json: line " in line
    assert "left out when the JSON was written (--elide-constants)" in line
    assert os.listdir(tmp_path) == ["x.json"]


@pytest.mark.parametrize("source", [META, MODEL, f"{MODEL}/fingerprint.pb"])
def test_there_and_back(source: str, tmp_path: Path) -> None:
    data = shell(f'$CKPT {COMMAND} "$1" --to pb > "$2"', words=[source, str(tmp_path / "a")])
    assert (data.code, data.err) == (0, "")
    options = "--decode-collections --one-line" if source == META else ""
    line = f'$CKPT {COMMAND} "$1" {options} | $CKPT {COMMAND} --from-json - -o "$2"'
    for name in ("b.meta", "b.pbtxt", "b.json"):
        done = shell(line, words=[source, str(tmp_path / name)])
        assert (done.code, done.out, done.err) == (0, "", "")
    assert (tmp_path / "b.meta").read_bytes() == (tmp_path / "a").read_bytes()
    assert (tmp_path / "b.json").read_text() == run(source)
    run(str(tmp_path / "b.pbtxt"), "-o", "c.meta", folder=tmp_path)
    assert (tmp_path / "c.meta").read_bytes() == (tmp_path / "a").read_bytes()


def test_a_saved_model_comes_back_whole(tmp_path: Path) -> None:
    run(BUILDER, "--saved-model", "-o", "m.json", folder=tmp_path)
    run("m.json", "--from-json", "-o", "saved_model.pb", folder=tmp_path)
    there = pb.SavedModel.FromString((tmp_path / "saved_model.pb").read_bytes())
    assert there == pb.SavedModel.FromString(read_bytes(f"{BUILDER}/saved_model.pb"))
    run("m.json", "--from-json", "--tag-set", "serve", "-o", "one.meta", folder=tmp_path)
    one = pb.MetaGraphDef.FromString((tmp_path / "one.meta").read_bytes())
    assert one == there.meta_graphs[0]
    run("one.meta", "--to", "pbtxt", "-o", "saved_model.pbtxt", folder=tmp_path)
    assert document(str(tmp_path / "saved_model.pbtxt"), "--saved-model")["metaGraphs"]


def test_bytes_of_tensorflow_2_stay() -> None:
    for path in (
        f"{MODEL}/saved_model.pb",
        os.path.join(FIXTURES, "meta/tf2.21/stripped/graph.meta"),
    ):
        words = [path, "--saved-model"] if path.startswith(MODEL) else [path]
        done = subprocess.run(
            [sys.executable, "-m", "ckpttool", COMMAND, *words, "--to", "pb"],
            capture_output=True,
            env=environment(),
            check=True,
        )
        assert done.stdout == read_bytes(path)


NODE = bytes_field(1, b"n") + varint_field(99, 1)
NEW = bytes_field(2, bytes_field(1, NODE) * 3)
ANY = bytes_field(1, bytes_field(3, bytes_field(1, b"x.y/my.Type") + bytes_field(2, b"\x00")))


def test_unknown_fields_are_told(tmp_path: Path) -> None:
    (tmp_path / "new.meta").write_bytes(NEW)
    done = ckpt(COMMAND, "new.meta", "--one-line", folder=str(tmp_path))
    assert (done.code, done.out) == (
        0,
        '{"graphDef":{"node":[{"name":"n"},{"name":"n"},{"name":"n"}]}}\n',
    )
    assert done.err == (
        "ckpt: warning: field 99 of tensorflow.NodeDef, which is not in the schema, is not in the"
        " JSON: graphDef.node[0] and 2 other places; --to pb keeps it\n"
    )
    text = ckpt(COMMAND, "new.meta", "--to", "pbtxt", folder=str(tmp_path))
    assert "is not in the text: graph_def.node[0] and 2 other places" in text.err
    for form in ("json", "pbtxt"):
        line = refused("new.meta", "--strict", "--to", form, "-o", "x", folder=tmp_path)
        assert "new.meta: field 99 of tensorflow.NodeDef" in line
    assert os.listdir(tmp_path) == ["new.meta"]
    run("new.meta", "--strict", "-o", "same.pb", folder=tmp_path)
    assert (tmp_path / "same.pb").read_bytes() == NEW


def test_an_unknown_type_is_carried(tmp_path: Path) -> None:
    (tmp_path / "any.meta").write_bytes(ANY)
    done = ckpt(COMMAND, "any.meta", "--strict", folder=str(tmp_path))
    assert json.loads(done.out) == {
        "metaInfoDef": {"anyInfo": {"@type": "x.y/my.Type", "ckpt:base64": "AA=="}}
    }
    assert done.err == (
        "ckpt: warning: a message of the unknown type x.y/my.Type, is written in base64:"
        " metaInfoDef.anyInfo\n"
    )
    (tmp_path / "any.json").write_text(done.out)
    run("--from-json", "any.json", "-o", "back.meta", folder=tmp_path)
    assert (tmp_path / "back.meta").read_bytes() == ANY


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--to", "pb", "--one-line", META], "--indent and --one-line need JSON"),
        (["--to", "pbtxt", "--elide-constants", META], "need JSON"),
        (["--indent", "1", "--one-line", META], "cannot be combined"),
        (
            ["--saved-model", "--tag-set", "a", META],
            "--saved-model cannot be combined with --tag-set or --select",
        ),
        (["--force", META], "--force needs -o"),
        (["--indent", "17", META], "0<=x<=16"),
        ([], "Missing argument 'META'"),
        (["gone"], "no such"),
    ],
)
def test_wrong_use(words: list[str], problem: str) -> None:
    assert problem in refused(*words)


def test_bad_input(tmp_path: Path) -> None:
    index = os.path.join(FIXTURES, "v2/tf2.21/saver_v2/model.ckpt-3.index")
    shutil.copy(index, tmp_path / "x.meta")
    line = refused("x.meta", folder=tmp_path)
    assert "it looks like a table: the index of a checkpoint" in line
    (tmp_path / "x.json").write_text('{"graphDef": {"node": [\n{"name": "a"},\n{"nam": "b"}]}}')
    line = refused("--from-json", "x.json", "-o", "y.meta", folder=tmp_path)
    assert line == (
        "ckpt: x.json: line 3: graphDef.node[1].nam: a tensorflow.NodeDef has no such field;"
        " nearest: 'name'\n"
    )
    (tmp_path / "y.json").write_text("[" * 100_000)
    assert "y.json: line 1: nested too deep" in refused("--from-json", "y.json", folder=tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["x.json", "x.meta", "y.json"]


def test_files_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("old")
    assert "already exists; use --force to replace it" in refused(
        META, "-o", "x.json", folder=tmp_path
    )
    assert (tmp_path / "x.json").read_text() == "old"
    run(META, "-o", "x.json", "--force", folder=tmp_path)
    assert (tmp_path / "x.json").read_text() == run(META)


def test_bytes_do_not_go_to_a_terminal() -> None:
    main, side = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "ckpttool", COMMAND, META, "--to", "pb"],
        stdout=side,
        stderr=subprocess.PIPE,
        env=environment(),
        check=False,
    )
    os.close(side)
    os.close(main)
    assert done.returncode == 2
    assert b"will not print bytes on a terminal; use -o FILE" in done.stderr


def test_a_reader_that_goes_away() -> None:
    done = shell(f'$CKPT {COMMAND} "$1" | head -c 100; echo ${{PIPESTATUS[0]}}', words=[META])
    assert done.err == ""
    assert done.out.endswith("141\n")


def test_numpy_is_not_needed() -> None:
    code = (
        "import sys; from ckpttool.cli.main import main; code = main(sys.argv[1:]);"
        " print([n for n in ('numpy', 'rich', 'ml_dtypes') if n in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, COMMAND, META],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    assert done.stderr == "[]\n"
