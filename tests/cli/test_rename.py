"""`ckpt rename` as its users run it; where it writes to is told in test_writing.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import ckpttool
from ckpttool.surgery.tables import list_tables
from tests.support.command import ckpt, shell
from tests.support.fixtures import bundle, bundles
from tests.support.schemas import load_schema, validate
from tests.support.surgery import make, refuse, renaming, run, values

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
NEW = ("-o", "new")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a folder with a run of training and a checkpoint of a Saver in it."""
    return make(tmp_path)


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """Return a folder with a name-based checkpoint `m`."""
    save(tmp_path / "m", "a/w", "a/b", "a/w/Adam", "ab", "b/w", "b/c/w", "step")
    return tmp_path


def save(prefix: Path, *keys: str) -> None:
    """Write a checkpoint in which every tensor has another value."""
    ckpttool.save_checkpoint(
        str(prefix), {key: np.array([at], np.int32) for at, key in enumerate(keys)}
    )


def plan(folder: Path, *words: str) -> dict[str, str | None]:
    """Return what a dry run says of every tensor that gets another name."""
    return renaming(run(folder, "rename", *words, "-o", "planned", "-n"))


def document(folder: Path, *words: str) -> dict[str, Any]:
    """Run a command with --json, hold the output to its schema and return it."""
    done = run(folder, "rename", "--json", *words)
    assert done.out.isascii()
    found: dict[str, Any] = json.loads(done.out)
    validate(found, "ckpt.rename/1")
    return found


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(load_schema("ckpt.rename/1"))


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["ab=x"], {"ab": "x"}),
        (["a/w=x"], {"a/w": "x", "a/w/Adam": "x/Adam"}),
        (["a=x/y"], {"a/b": "x/y/b", "a/w": "x/y/w", "a/w/Adam": "x/y/w/Adam"}),
        (["a=a/a"], {"a/b": "a/a/b", "a/w": "a/a/w", "a/w/Adam": "a/a/w/Adam"}),
        (["a/w=b/w", "b/w=a/w"], {"a/w": "b/w", "a/w/Adam": "b/w/Adam", "b/w": "a/w"}),
        (["a=b", "b=a"], None),
        (["a/w=x", "a=y"], {"a/w": "x", "a/w/Adam": "x/Adam", "a/b": "y/b"}),
        (["--prefix", "t/", "a=x"], None),
        (["--strip-prefix", "a/"], {"a/b": "b", "a/w": "w", "a/w/Adam": "w/Adam"}),
        (["--strip-prefix", "a/w/", "--strip-prefix", "b/"], None),
        (["--sub", "^a/", "A_"], {"a/b": "A_b", "a/w": "A_w", "a/w/Adam": "A_w/Adam"}),
        (["--sub", "w", "ww"], None),
        (["--sub", r"(.)/w$", r"\1\1/w"], {"a/w": "aa/w", "b/w": "bb/w", "b/c/w": "b/cc/w"}),
        (["--sub", "(?i)STEP", ""], "makes the name empty"),
        (["--sub", "a/b", "b/a", "--prefix", "t_"], None),
        (["--prefix", "t_", "--sub", "a/b", "b/a"], "matches nothing that an earlier rule has not"),
    ],
)
def test_rules(rules: list[str], expected: dict[str, str] | str | None, named: Path) -> None:
    if isinstance(expected, str):
        refuse(named, "rename", "m", *rules, *NEW, message=expected)
        return
    found = plan(named, "m", *rules)
    if expected is not None:
        assert found == expected
    before = values(named / "m")
    run(named, "rename", "m", *rules, *NEW)
    assert values(named / "new") == {found.get(key, key): value for key, value in before.items()}
    assert found


def test_rules_of_the_command_line_come_first(named: Path) -> None:
    found = plan(named, "m", "--sub", "a", "x", "a/w=first", "--prefix", "last/")
    assert found["a/w"] == "first" and found["a/b"] == "x/b" and found["b/w"] == "last/b/w"


def test_options_are_taken_in_their_order(named: Path) -> None:
    (named / "map").write_text("b\tfrom_map\n", encoding="utf-8")
    first = plan(named, "m", "--sub", "b/w", "from_sub", "--map", "map")
    assert first == {"b/w": "from_sub", "b/c/w": "from_map/c/w"}
    for rules in (("--map", "map", "--sub", "b/", "B/"), ("--prefix", "p/", "--map", "map")):
        refuse(named, "rename", "m", *rules, *NEW, message="an earlier rule")


def test_a_swap_leaves_all_else(named: Path) -> None:
    before = values(named / "m")
    run(named, "rename", "m", "a=b", "b=a", "--in-place")
    run(named, "rename", "m", "a=b", "b=a", "--in-place")
    assert values(named / "m") == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("map.json", '{"a/w": "x", "b": "y"}'),
        ("map.json", '\ufeff  {"a/w":\n"x",\n"b":"\\u0079"}\n'),
        ("map", "a/w\tx\nb\ty\n"),
        ("map", "# old new\n\na/w   x\nb y"),
        ("map.tsv", "a/w\tx\r\nb\ty\r\n"),
        ("map", "a/w\t\\x78\nb y\n"),
    ],
)
def test_maps(name: str, text: str, named: Path) -> None:
    (named / name).write_text(text, encoding="utf-8", newline="")
    expected = {"a/w": "x", "a/w/Adam": "x/Adam", "b/w": "y/w", "b/c/w": "y/c/w"}
    assert plan(named, "m", "--map", name) == expected


def test_maps_come_through_pipes(named: Path) -> None:
    (named / "map").write_text("b\ty\n", encoding="utf-8")
    for line in (
        '$CKPT rename m --map - -o new -n --format names < "$1"',
        'cat "$1" | $CKPT rename m --map /dev/stdin -o new -n --format names',
        '$CKPT rename m --map <(cat "$1") -o new -n --format names',
    ):
        done = shell(line, words=["map"], folder=str(named))
        assert (done.code, done.out) == (0, "b/c/w\nb/w\n"), done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "map: no such file"),
        ("", "nothing to rename: give OLD=NEW or an option such as --map"),
        ("a\n", "map: line 1 does not have two columns"),
        ("# one\na b\nc d e\n", "map: line 3 does not have two columns"),
        ("a\tb\tc\n", "map: line 1 does not have two columns"),
        ("a\t\n", "map: line 1 does not have two columns"),
        ("a b\na c\n", "map: key 'a': line 2: the name occurs twice"),
        ('{"a": "b", "a": "c"}', "map: key 'a': line 1: the name occurs twice in the map"),
        ('{"a": 1}', "the map must map names to names"),
        ('{"a": ""}', "the map must map names to names"),
        ('{"a": "b"', "map: the map is not JSON"),
        ("\xff", "map:0: the map is not UTF-8"),
        ('{"nope": "b"}', "the rule 'nope=b' matches nothing"),
        ("b y\nc z\n", "the rule 'c=z' matches nothing"),
    ],
)
def test_maps_that_cannot_be_used(text: str | None, message: str, named: Path) -> None:
    if text is not None:
        (named / "map").write_bytes(text.encode("latin-1"))
    lines = 2 if "nothing to rename" in message else 1
    refuse(named, "rename", "m", "--map", "map", *NEW, message=message, lines=lines)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([], "nothing to rename: give OLD=NEW or an option such as --map"),
        (["--strict"], "nothing to rename: give OLD=NEW or an option such as --map"),
        (["ab"], "'ab' is not a rule of the form OLD=NEW"),
        (["=x"], "'=x' is not a rule"),
        (["ab="], "'ab=' is not a rule"),
        (["--sub", "(", "x"], "--sub '(': missing )"),
        (["--sub", "a", r"\1"], "--sub 'a': invalid group reference"),
        (["nope=x"], "the rule 'nope=x' matches nothing"),
        (["a/ww=x"], "the rule 'a/ww=x' matches nothing; nearest: 'a/w'"),
        (["--sub", "nope", "x"], "the rule '--sub nope x' matches nothing"),
        (["--strip-prefix", "x/"], "the rule '--strip-prefix x/' matches nothing"),
        (["a=x", "a/w=y"], "'a/w=y' matches nothing that an earlier rule has not"),
        (["a/w=ab"], "'a/w' and 'ab' would both be called 'ab'"),
        (["a/w=x", "b/w=x"], "'a/w' and 'b/w' would both be called 'x'"),
        (["--sub", ".*w", "x"], "would both be called 'x'"),
        (["ab=_CHECKPOINTABLE_OBJECT_GRAPH"], "that key is reserved for the object graph"),
        (["a=x", "--strict"], "no rule matches 'ab', 'b/c/w', 'b/w', 'step'"),
        (["--table", "tf1-rnn"], "the rule '--table tf1-rnn' matches nothing"),
        (["--table", "rnn"], "unknown table 'rnn'; nearest: "),
        (["--promote-ema"], "there are no averages to promote"),
    ],
)
def test_what_cannot_be_done(rules: list[str], message: str, named: Path) -> None:
    lines = 2 if "nothing to rename" in message else 1
    refuse(named, "rename", "m", *rules, *NEW, message=message, lines=lines)
    refuse(named, "rename", "m", *rules, "--in-place", message=message, lines=lines)


def test_strict_is_content_where_every_name_is_matched(named: Path) -> None:
    run(named, "rename", "m", "a=x", "--sub", "^(b|ab|step)", r"y_\1", "--strict", *NEW)
    renamed = values(named / "new")
    assert sorted(renamed) == ["x/b", "x/w", "x/w/Adam", "y_ab", "y_b/c/w", "y_b/w", "y_step"]
    run(named, "rename", "new", "--sub", ".*", r"\g<0>", "--strict", "--in-place")
    assert values(named / "new") == renamed


def test_names_with_an_equals_sign(tmp_path: Path) -> None:
    save(tmp_path / "m", "a=b", "c")
    assert plan(tmp_path, "m", r"a\x3db=x=y") == {"a=b": "x=y"}
    assert plan(tmp_path, "m", "--sub", "a=b", "d") == {"a=b": "d"}
    (tmp_path / "map").write_text("a=b\tx\n", encoding="utf-8")
    assert plan(tmp_path, "m", "--map", "map") == {"a=b": "x"}


@pytest.mark.parametrize("name", ["v2/tf2.21/odd_keys/odd", "v2/tf2.21/keys_not_utf8/bytes"])
def test_odd_names_typed_as_they_are_printed(name: str, tmp_path: Path) -> None:
    prefix = bundle(name).prefix
    printed = ckpt("ls", prefix, "--format", "names").out.splitlines()
    rules = [line.replace("=", r"\x3d") + f"=new{at}" for at, line in enumerate(printed)]
    rules.reverse()  # a name stands for what is below it too, which comes after it
    assert len(printed) > 1
    found = document(tmp_path, prefix, "-o", "new", "--strict", "--", *rules)
    assert len(found["changes"]) == len(printed)
    with ckpttool.open_checkpoint(tmp_path / "new") as new, ckpttool.open_checkpoint(prefix) as old:
        assert [new[f"new{at}"].tobytes() for at in range(len(printed))] == [
            value.tobytes() for value in old.values()
        ]
    back = [f"new{at}={line}" for at, line in enumerate(printed)]
    run(tmp_path, "rename", "new", "--in-place", "--", *back)
    with ckpttool.open_checkpoint(tmp_path / "new") as new, ckpttool.open_checkpoint(prefix) as old:
        assert list(new) == list(old)


@pytest.mark.parametrize("name", ["partitioned_sharded/model", "partitioned_dtypes/model"])
def test_slices_follow(name: str, tmp_path: Path) -> None:
    source = next(each for each in bundles() if each.name == f"v2/tf2.21/{name}")
    run(tmp_path, "rename", source.prefix, "--prefix", "x/", *NEW)
    old = ckpt("ls", source.prefix, "--long", "--format", "csv").out.splitlines()
    new = ckpt("ls", str(tmp_path / "new"), "--long", "--format", "csv").out.splitlines()
    assert new == [old[0], *(f"x/{line}" for line in old[1:])]
    assert any("@" in line for line in new)


def test_averages_take_the_place_of_weights(here: Path) -> None:
    before = values(here / "model.ckpt-3")
    done = run(here, "rename", "model.ckpt-3", "--promote-ema", *NEW)
    kernel = "dense/kernel"
    average = f"{kernel}/ExponentialMovingAverage"
    assert values(here / "new") == {**before, kernel: before[average], average: before[kernel]}
    assert before[average] != before[kernel]
    assert "without an average: 'dense/bias', 'embedding'" in done.err
    run(here, "rename", "new", "--promote-ema", "--in-place")
    assert values(here / "new") == before


def test_rules_see_what_was_promoted(here: Path) -> None:
    rules = ("dense/kernel=k", "--promote-ema")
    run(here, "rename", "model.ckpt-3", *rules, *NEW)
    average = "/ExponentialMovingAverage"
    old, new = values(here / "model.ckpt-3"), values(here / "new")
    assert new["k"] == old[f"dense/kernel{average}"] and new[f"k{average}"] == old["dense/kernel"]


def test_tables_are_listed() -> None:
    done = ckpt("rename", "--list-tables")
    assert (done.code, done.err) == (0, "")
    assert [tuple(line.split("\t")) for line in done.out.splitlines()] == list_tables()


def test_a_table_brings_an_old_network_up_to_date(tmp_path: Path) -> None:
    cell = "RNN/MultiRNNCell/Cell0/BasicLSTMCell/Linear"
    save(tmp_path / "m", f"{cell}/Matrix", f"{cell}/Bias", f"{cell}/Matrix/Adam", "softmax/w")
    run(tmp_path, "rename", "m", "--table", "tf1-rnn", "softmax=out", *NEW)
    cell = "rnn/multi_rnn_cell/cell_0/basic_lstm_cell"
    assert values(tmp_path / "new") == {
        f"{cell}/kernel": [0],
        f"{cell}/bias": [1],
        f"{cell}/kernel/Adam": [2],
        "out/w": [3],
    }
    save(tmp_path / "layers", "conv1/weights", "conv1/biases")
    assert plan(tmp_path, "layers", "--table", "contrib-layers", "--strict") == {
        "conv1/weights": "conv1/kernel",
        "conv1/biases": "conv1/bias",
    }


def test_json(here: Path) -> None:
    found = document(here, "ckpts", "net=model", *NEW)
    assert found["source"]["path"] == "ckpts" and found["source"]["prefix"] == "ckpts/ckpt-10"
    assert (found["destination"], found["dry_run"]) == ("new", False)
    assert len(found["changes"]) == 6 and found["kept"] == 14 and found["by_kind"] == {}
    assert found["changes"][0] == {
        "action": "rename",
        "key": f"net/l1/bias{VALUE}",
        "new_key": f"model/l1/bias{VALUE}",
        "object_path": "net/l1/bias",
        "name": "net_1/dense_1/bias",
        "paths": ["net/l1/bias"],
        "new_object_path": "model/l1/bias",
        "kind": "weight",
        "bytes": 20,
    }
    written = found["written"]
    shards = [(shard["path"], shard["how"]) for shard in written["shards"]]
    assert shards == [
        ("new.data-00000-of-00002", "hardlink"),
        ("new.data-00001-of-00002", "new"),
    ]
    for shard in written["shards"]:
        assert (here / shard["path"]).stat().st_size == shard["bytes"]
    assert written["tensors"] == 15
    tried = document(here, "ckpts", "net=model", "-o", "other", "-n")
    assert tried == {**found, "destination": "other", "dry_run": True, "written": None}
    placed = document(here, "ckpts", "net=model", "--in-place")
    assert placed["source"] == found["source"] and placed["changes"] == found["changes"]


def test_json_has_names_exactly(tmp_path: Path) -> None:
    for name in ("v2/tf2.21/odd_keys/odd", "v2/tf2.21/keys_not_utf8/bytes"):
        found = document(tmp_path, bundle(name).prefix, "--prefix", "\n/", "-o", "new", "-n")
        listed = json.loads(ckpt("ls", bundle(name).prefix, "--json").out)
        assert [row["key"] for row in found["changes"]] == [row["key"] for row in listed["tensors"]]
        text = [row for row in found["changes"] if isinstance(row["key"], str)]
        assert [row["new_key"] for row in text] == [f"\n/{row['key']}" for row in text]


def test_rules_come_from_the_environment(named: Path) -> None:
    environ = {"CKPT_RENAME_PREFIX": "t/", "CKPT_RENAME_SUB": "a/ A/ b/ B/"}
    done = run(named, "rename", "m", *NEW, "-n", environ=environ)
    assert renaming(done) == {
        "a/b": "A/b",
        "a/w": "A/w",
        "a/w/Adam": "A/w/Adam",
        "ab": "t/ab",
        "b/c/w": "B/c/w",
        "b/w": "B/w",
        "step": "t/step",
    }
    (named / "map").write_text("step\ts\n", encoding="utf-8")
    environ = {"CKPT_RENAME_MAP": "map", "CKPT_RENAME_STRIP_PREFIX": "a/w/ b/c/"}
    done = run(named, "rename", "m", *NEW, "-n", "ab=x", environ=environ)
    assert renaming(done)["b/c/w"] == "w" and renaming(done)["step"] == "s"


def test_the_help_has_examples() -> None:
    done = ckpt("rename", "--help")
    assert done.code == 0 and "Examples:" in done.out and "ckpt rename ckpts net=model" in done.out
