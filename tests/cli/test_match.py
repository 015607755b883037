"""`ckpt match`: the verdict in every form, and a way out of each negative one."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path

import jsonschema
import pytest

import ckpttool
from ckpttool import train
from man import examples, generate
from tests.support.command import shell
from tests.support.fixtures import FIXTURES
from tests.support.schemas import load_schema, validate
from tests.support.wild import run

CKPTS = f"{FIXTURES}/v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `model`, in which `net` of the fixture has another name."""
    made = tmp_path_factory.mktemp("match")
    ckpttool.rename(CKPTS, made / "model", {"net": "model"})
    ckpttool.prune(made / "model", slots=True, in_place=True)
    return made


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "250")  # paths of temporary folders are long


def layers(**scopes: tuple[int, ...]) -> train.Module:
    """Return a module with a kernel and a bias for each size, below its scope."""
    root = train.Module()
    for scope, sizes in scopes.items():
        module = train.Module()
        setattr(root, scope, module)
        for at, size in enumerate(sizes):
            layer = train.Module()
            layer.kernel = train.Variable([[0.0] * size])
            layer.bias = train.Variable([0.0] * size)
            setattr(module, f"l{at}", layer)
    return root


def text(*words: object, width: int = 250) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        done = run("match", *map(str, words), "--format", "table")
    assert not done.err, done.err
    return done.code, done.out


def commands(printed: str) -> list[str]:
    return re.findall(r"^  (ckpt .*)$", printed, re.MULTILINE)


def follow(printed: str) -> list[int]:
    """Run the commands that were printed, and return how they end."""
    return [run(*shlex.split(line)[1:]).code for line in commands(printed)]


def test_the_example_of_the_page(tmp_path: Path) -> None:
    page = (generate.PAGES / "ckpt-match.1.md").read_text()
    block = re.search(
        r"^```\nckpts/ckpt-10 does not load whole.*?^```", page, re.MULTILINE | re.DOTALL
    )
    assert block, page
    examples.make(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        _, printed = text("ckpts", "published", width=72)
    assert block[0].strip("`\n") == printed.rstrip("\n")


def test_it_loads() -> None:
    code, printed = text(CKPTS, f"{CKPTS}/ckpt-9")
    assert (code, printed) == (0, f"{CKPTS}/ckpt-10 loads whole: all 14 values are taken\n")


def test_a_renamed_scope(tmp_path: Path) -> None:
    code, printed = text(CKPTS, "model")
    assert code == 1
    assert printed.splitlines()[1:5] == [
        "waiting in the checkpoint  net/l1/{bias [5], kernel [1, 5]}",
        "                           and 4 slots of them",
        "nothing for the program's  model/l1/{bias [5], kernel [1, 5]}",
        "-v names every value",
    ]
    assert follow(printed) == [0, 0]
    narrow = text(CKPTS, "model", width=40)[1]
    assert "waiting in the checkpoint\n  net/l1/{bias [5], kernel [1, 5]}\n" in narrow
    assert commands(narrow) == commands(printed)
    named = run("match", CKPTS, "model", "-v", "--format", "table").out
    assert "l1/bias/.OPTIMIZER_SLOT/optimizer/{m [5], v [5]}" in named and "-v" not in named


def test_many_renames(tmp_path: Path) -> None:
    one, other = train.Module(), train.Module()
    for at in range(12):
        shape = [0.0] * (at + 1)
        setattr(one, f"first_{at}", train.Variable(shape))
        setattr(other, f"other{at * 3}", train.Variable(shape))
    train.Checkpoint(one).write(tmp_path / "one")
    train.Checkpoint(other).write(tmp_path / "other")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        code, printed = text("one", "other", "--read")
        assert code == 1 and "maybe renamed" in printed
        assert [line.split()[1] for line in commands(printed)] == ["match", "rename", "match"]
        assert follow(printed)[:2] == [1, 0]
        assert text("NEW", "other", "--read")[0] == 0


def test_rename_map(tmp_path: Path) -> None:
    file = tmp_path / "map.json"
    assert run("match", CKPTS, "model", "--rename-map", file).code == 1
    assert json.loads(file.read_text()) == {"net": "model"}
    again = run("match", CKPTS, "model", "--rename-map", file)
    assert (again.code, "already exists" in again.err) == (2, True)
    assert run("match", CKPTS, "model", "--rename-map", file, "--force").code == 1
    done = run("match", CKPTS, "model", "--rename-map", "-")
    assert (done.code, json.loads(done.out)) == (1, {"net": "model"})
    assert run("match", CKPTS, "model", "--force").code == 2


def test_exit_codes() -> None:
    assert run("match", CKPTS, "model", "--partial").code == 1
    assert run("match", "model", CKPTS, "--ignore", "re:/l1").code == 0
    assert run("match", CKPTS, CKPTS, "--partial").code == 0
    for words in (("missing", "model"), (CKPTS, "missing"), (CKPTS, "model", "--ignore", "xyz")):
        done = run("match", *words)
        assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1


def test_an_optimizer_that_the_program_lacks(tmp_path: Path) -> None:
    ckpttool.prune(CKPTS, tmp_path / "weights", optimizer=True)
    code, printed = text(CKPTS, tmp_path / "weights")
    assert code == 1 and "loads in part: 5 of 14 values are taken, 9 wait for objects" in printed
    assert "4 slot variables" in printed and "5 other values of optimizer" in printed
    prune, partial = commands(printed)
    assert run(*shlex.split(partial)[1:]).code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert run(*shlex.split(prune)[1:]).code == 0
        assert text("NEW", tmp_path / "weights")[0] == 0


def test_the_two_are_swapped(tmp_path: Path) -> None:
    ckpttool.prune(CKPTS, tmp_path / "weights", optimizer=True)
    code, printed = text(tmp_path / "weights", CKPTS)
    assert code == 1 and "all 5 values are taken, 9 objects get nothing" in printed
    assert "the other way round" in printed
    assert commands(printed) == [f"ckpt match {CKPTS} {tmp_path}/weights"]


def test_both_are_the_same() -> None:
    code, printed = text(CKPTS, f"{CKPTS}/ckpt-10.index")
    assert code == 0 and "are the same" in printed and ".write('fresh')" in printed


def test_one_has_at_its_root_what_the_other_has_below(tmp_path: Path) -> None:
    root = layers(model=(3, 4, 5))
    inner = root.model
    train.Checkpoint(model=inner).write(tmp_path / "below")
    train.save_weights(inner, tmp_path / "root")
    _, printed = text(tmp_path / "below", tmp_path / "root", "--read")
    assert "below 'model' what the program has at its root" in printed
    assert "Checkpoint(model=net)" in printed
    _, printed = text(tmp_path / "root", tmp_path / "below", "--read")
    assert "at its root what the program has below 'model'" in printed
    assert "Checkpoint(net).read(…)" in printed


def test_another_keyword(tmp_path: Path) -> None:
    inner = layers(model=(3, 4, 5)).model
    train.Checkpoint(model=inner).save(tmp_path / "one")
    train.Checkpoint(net=inner).write(tmp_path / "two")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        _, printed = text("one-1", "two")
        assert commands(printed)[0] == "ckpt rename one-1 model=net -o NEW"
        assert follow(printed) == [0, 0]


def test_a_shape_that_does_not_fit(tmp_path: Path) -> None:
    train.Checkpoint(layers(net=(3, 4))).write(tmp_path / "one")
    train.Checkpoint(layers(net=(3, 5))).write(tmp_path / "two")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        code, printed = text("one", "two", "--read")
        assert code == 1 and "cannot be restored: 2 tensors have another dtype or shape" in printed
        assert "net/l1/bias: float32 [4] in the checkpoint, float32 [5] in the program" in printed
        assert follow(printed) == [0]
        code, printed = text("NEW", "two", "--read")
        assert code == 1 and "2 objects get nothing" in printed
    rows = run("match", tmp_path / "one", tmp_path / "two", "--format", "names").out.split()
    assert {"net/l1/bias", "net/l1/kernel"} <= {*rows}
    ignored = run("match", tmp_path / "one", tmp_path / "two", "--read", "--ignore", "net/l1")
    assert ignored.code == 0


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "model.weights.h5"
    file.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    done = run("match", CKPTS, file)
    assert done.code == 2 and "HDF5" in done.err and ".write('fresh')" in done.err


def test_a_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    lock.write_text(run("ls", CKPTS, "--json").out)
    code, printed = text(CKPTS, lock)
    assert code == 0 and "loads whole" in printed and "paths in a lock" in printed
    found = json.loads(run("match", "model", lock, "--json").out)
    assert found["target"]["kind"] == "lock" and not found["verdict"]["consumed"]


def test_json_fits_the_schema(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(load_schema("ckpt.match/1"))
    train.Checkpoint(layers(net=(3, 4))).write(tmp_path / "one")
    train.Checkpoint(layers(net=(3, 5))).write(tmp_path / "two")
    old = f"{FIXTURES}/v1/tf2.21/single/model.ckpt-7"
    for words in (
        (CKPTS, "model"),
        (CKPTS, "model", "--read", "--skip-slots"),
        (tmp_path / "one", tmp_path / "two"),
        (CKPTS, old),
        (old, CKPTS),
    ):
        document = json.loads(run("match", *words, "--json").out)
        validate(document, "ckpt.match/1")
        assert document["verdict"]["consumed"] or document["advice"]
        lines = run("match", *words, "--format", "jsonl").out.splitlines()
        states = [json.loads(line).get("state") for line in lines]
        assert states[-1] is None and None not in states[:-1]
        assert states.count("unresolved") == document["totals"]["unresolved"]


def test_rows() -> None:
    rows = list(csv.DictReader(io.StringIO(run("match", CKPTS, "model", "--format", "csv").out)))
    assert {row["state"] for row in rows} == {"unresolved", "unmatched", "suggestion"}
    assert rows[-1]["path"] == "net" and rows[-1]["target_path"] == "model"
    every = run("match", CKPTS, "model", "-a").out.splitlines()
    assert len(every) == 1 + 8 + len(rows)
    names = run("match", CKPTS, "model", "--format", "names").out.split()
    assert names[0] == "net/l1/bias" and len(names) == 8
    table = run("match", CKPTS, "model", "-a", "--format", "table").out
    assert "\ntaken " in table and "optimizer/{beta_1 (edge)," in table


def test_rows_with_the_verdict_beside_them() -> None:
    done = run("match", CKPTS, "model", "-v")
    assert done.out == run("match", CKPTS, "model").out
    told = done.err.splitlines()
    assert "does not load whole: 8 of 14 values are taken" in told[2]
    assert f"again: ckpt rename {CKPTS} net=model -o NEW; ckpt match NEW model" in told[3]


def test_names_that_a_shell_would_change(tmp_path: Path) -> None:
    strange = "it's $HOME; *=x"
    one, other = train.Module(), train.Module()
    setattr(one, strange, train.Variable([1.0]))
    other.plain = train.Variable([1.0])
    train.Checkpoint(one).write(tmp_path / "o'ne\x1b[31m")
    train.Checkpoint(other).write(tmp_path / "two")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        code, printed = text("o'ne\x1b[31m", "two", "--read")
        assert code == 1 and "\x1b" not in printed
        done = shell(commands(printed)[0].replace("ckpt", "$CKPT", 1), folder=str(tmp_path))
        assert done.code == 0, done
        assert text("NEW", "two", "--read")[0] == 0


def test_the_twin() -> None:
    found = ckpttool.match(CKPTS, "model", ignore="optimizer/iter")
    assert isinstance(found, ckpttool.Match) and found.ignored == 1
    assert repr(found) == f"<Match '{CKPTS}/ckpt-10': 7 matched, 6 unresolved, 2 unmatched>"
    document = json.loads(run("match", CKPTS, "model", "--ignore", "optimizer/iter", "--json").out)
    assert found.to_dict() == document
    assert (
        str(found)
        in run("match", CKPTS, "model", "--ignore", "optimizer/iter", "--format", "table").out
    )
    with pytest.raises(TypeError, match=r"train\.restore_plan"):
        ckpttool.match(CKPTS, train.Module())
    with pytest.raises(ValueError, match="mode"):
        ckpttool.match(CKPTS, "model", mode="write")  # type: ignore[arg-type]


def test_a_file_of_another_library(tmp_path: Path) -> None:
    run("export", CKPTS, "-o", tmp_path / "weights.npz", "--kind", "weight")
    ckpttool.prune(CKPTS, tmp_path / "fresh", weights_only=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        code, printed = text("weights.npz", "fresh")
        assert code == 1 and "TensorFlow restores no npz" in printed
        assert follow(printed)[0] == 0
        assert text("NEW", "fresh", "--read")[0] == 0
