"""Where `ckpt rename` and `ckpt prune` write, and what they print, as their users run them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import ckpttool
from ckpttool.objects.keys import object_path
from tests.support.command import ckpt, shell
from tests.support.fixtures import bundle
from tests.support.schemas import validate
from tests.support.surgery import (
    SAVER,
    WORK,
    prefix_of,
    refuse,
    renaming,
    run,
    shards,
    state,
    values,
)


def test_the_result_is_the_plan(work: tuple[str, ...], here: Path) -> None:
    source = values(here / prefix_of(work))
    before = state(here)
    done = run(here, *work, "-o", "out/new")
    plan = renaming(done)
    assert plan
    expected = {plan.get(key, key): value for key, value in source.items()}
    expected.pop(None, None)
    assert values(here / "out" / "new") == expected
    assert {name: found for name, found in state(here).items() if name in before} == before
    last = done.err.splitlines()[-1]
    assert last.startswith("ckpt: of 1") and "; wrote out/new: data shards 1 hardlink" in last


def test_data_shards_are_linked(either: tuple[str, ...], here: Path) -> None:
    run(here, *either, "-o", "new")
    (old,) = shards(here, prefix_of(either))
    first = shards(here, "new")[0]
    assert first.stat().st_ino == old.stat().st_ino


def test_an_object_graph_gets_a_shard_of_its_own(objects: tuple[str, ...], here: Path) -> None:
    run(here, *objects, "-o", "new")
    data, graph = shards(here, "new")
    assert data.read_bytes() == shards(here, objects[1])[0].read_bytes()
    assert 0 < graph.stat().st_size < data.stat().st_size
    assert graph.stat().st_ino != data.stat().st_ino


@pytest.mark.parametrize("how", ["copy", "hardlink", "auto"])
def test_how_data_shards_get_there(how: str, either: tuple[str, ...], here: Path) -> None:
    run(here, *either, "-o", "linked")
    run(here, *either, "-o", "new", "--data", how)
    assert values(here / "new") == values(here / "linked")
    (old,), new = shards(here, prefix_of(either)), shards(here, "new")[0]
    assert new.read_bytes() == old.read_bytes()
    assert (new.stat().st_ino == old.stat().st_ino) == (how != "copy")
    found = json.loads(run(here, *either, "-o", "json", "--data", how, "--json").out)
    kinds = [shard["how"] for shard in found["written"]["shards"]]
    assert kinds[0] == ("copy" if how == "copy" else "hardlink")


def test_a_clone_where_the_file_system_makes_none(either: tuple[str, ...], here: Path) -> None:
    done = ckpt(*either, "-o", "cloned", "--data", "reflink", folder=str(here))
    if done.code == 0:
        (old,), new = shards(here, prefix_of(either)), shards(here, "cloned")[0]
        assert new.read_bytes() == old.read_bytes()
        assert new.stat().st_ino != old.stat().st_ino
    else:
        refuse(here, *either, "-o", "new", "--data", "reflink", message="cannot make a reflink")


def test_compact_leaves_out_dead_bytes(work: tuple[str, ...], here: Path) -> None:
    run(here, *work, "-o", "linked")
    found = json.loads(run(here, *work, "-o", "new", "--compact", "--json").out)
    assert values(here / "new") == values(here / "linked")
    (shard,) = shards(here, "new")
    with ckpttool.open_checkpoint(here / "new") as read:
        assert shard.stat().st_size == sum(entry.size for entry in read.bundle.entries.values())
    assert found["written"]["bytes_dead"] == 0
    assert [each["how"] for each in found["written"]["shards"]] == ["rewritten"]
    assert found["written"]["bytes_written"] == sum(
        path.stat().st_size for path in here.glob("new.*") if path.suffix != ".meta"
    )


def test_a_file_of_the_checkpoint_names_the_destination(
    either: tuple[str, ...], here: Path
) -> None:
    run(here, *either, "-o", "new.index")
    assert (here / "new.index").exists() and not (here / "new.index.index").exists()


def test_the_last_folder_is_made(either: tuple[str, ...], here: Path) -> None:
    run(here, *either, "-o", "a/new")
    assert {path.name for path in (here / "a").iterdir()} >= {"new.index"}


def test_permissions_are_those_of_the_source(objects: tuple[str, ...], here: Path) -> None:
    for path in here.glob(f"{objects[1]}.*"):
        path.chmod(0o640)
    run(here, *objects, "-o", "new", "--compact")
    assert {path.stat().st_mode & 0o777 for path in here.glob("new.*")} == {0o640}


@pytest.mark.parametrize(
    ("destination", "message"),
    [
        ("ckpts", "add a name for the checkpoint"),
        ("ckpts/", "add a name for the checkpoint"),
        ("", "the path is empty"),
        ("ckpts/ckpt-9", "already exists"),
        ("ckpts/ckpt-9.index", "already exists"),
        ("model.ckpt-3.meta/x", "model.ckpt-3.meta: not a folder"),
        ("x/y/z", "x: no such folder"),
    ],
)
def test_where_nothing_can_be_written(
    destination: str, message: str, objects: tuple[str, ...], here: Path
) -> None:
    refuse(here, *objects, "-o", destination, message=message)
    refuse(here, *objects, "-o", destination, "-n", message=message)


@pytest.mark.parametrize("file", ["new.index", "new.data-00000-of-00005", "new.meta"])
def test_what_is_there_stays_unless_forced(file: str, either: tuple[str, ...], here: Path) -> None:
    (here / file).write_bytes(b"mine")
    refuse(here, *either, "-o", "new", message=f"{file}: already exists")
    refuse(here, *either, "-o", "new", "-n", message=f"{file}: already exists")
    run(here, *either, "-o", "new", "--force")
    run(here, *either, "-o", "other")
    assert values(here / "new") == values(here / "other")
    assert b"mine" not in [path.read_bytes() for path in here.glob("new.*")]


def test_a_checkpoint_is_replaced_whole(either: tuple[str, ...], here: Path) -> None:
    sharded = Path(bundle("v2/tf2.21/saver_sharded/model-7").prefix)
    for path in sharded.parent.glob("model-7.*"):
        shutil.copy2(path, here / f"new{path.name[len('model-7') :]}")
    assert len(shards(here, "new")) > 1
    run(here, *either, "-o", "other")
    run(here, *either, "-o", "new", "--force")
    assert values(here / "new") == values(here / "other")
    counts = {path.name.rpartition("-of-")[2] for path in shards(here, "new")}
    assert len(counts) == 1
    assert ckpt("ls", "new", folder=str(here)).err == ""


@pytest.mark.parametrize("spelling", ["{}", "./{}", "{}.index", "link"])
def test_the_source_is_no_destination(spelling: str, either: tuple[str, ...], here: Path) -> None:
    name = spelling.format(prefix_of(either))
    if name == "link":
        for path in here.glob(f"{prefix_of(either)}.*"):
            (here / f"link{path.name[len(Path(prefix_of(either)).name) :]}").symlink_to(path)
    message = "shares a file with the source"
    refuse(here, *either, "-o", name, "--force", message=message)
    refuse(here, *either, "-o", name, "-n", message=message)


def test_a_name_that_training_will_use(objects: tuple[str, ...], here: Path) -> None:
    message = "a program that saves checkpoints after 'ckpt-10'"
    refuse(here, *objects, "-o", "ckpts/ckpt-11", message=message)
    refuse(here, *objects, "-o", "ckpts/ckpt-300", "-n", message=message)
    run(here, *objects, "-o", "ckpts/ckpt-7")
    run(here, *objects, "-o", "ckpts/new-11")
    run(here, *objects, "-o", "ckpts/ckpt-11", "--force")


@pytest.mark.parametrize("where", [("-o", "out/new"), ("--in-place",)])
def test_a_dry_run_prints_the_same_and_writes_nothing(
    where: tuple[str, ...], work: tuple[str, ...], here: Path
) -> None:
    before = state(here)
    tried = ckpt(*work, *where, "-n", folder=str(here))
    assert state(here) == before and not (here / "out").exists()
    done = run(here, *work, *where)
    assert (tried.code, tried.out) == (0, done.out)
    assert state(here) != before
    last = tried.err.splitlines()[-1]
    assert last.endswith("; dry run, nothing was written")
    start = last.removesuffix("; dry run, nothing was written")
    assert done.err.splitlines()[-1].startswith(f"{start}; wrote ")


def test_a_dry_run_without_a_destination(work: tuple[str, ...], here: Path) -> None:
    before = state(here)
    tried = run(here, *work, "-n")
    assert state(here) == before
    assert tried.out == run(here, *work, "-o", "new", "-n").out
    assert tried.err.endswith("; dry run, nothing was written\n")
    found = json.loads(run(here, *work, "-n", "--json").out)
    assert found["destination"] is None and found["written"] is None
    validate(found, f"ckpt.{work[0]}/1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give either -o DST or --in-place"),
        (("-o", "new", "--in-place"), "give either -o DST or --in-place"),
        (("-n", "-o", "new", "--in-place"), "give either -o DST or --in-place"),
        (("--in-place", "--force"), "--force and --data need -o"),
        (("--in-place", "--data", "copy"), "--force and --data need -o"),
        (("-o", "new", "--data", "move"), "--data"),
        (("-o", "new", "--meta", "keep"), "--meta"),
        (("-o", "new", "--format", "yaml"), "--format"),
        (("-o", "new", "--json", "--format", "csv"), "contradict"),
        (("-o",), "-o"),
    ],
)
def test_wrong_usage(
    words: tuple[str, ...], message: str, objects: tuple[str, ...], here: Path
) -> None:
    refuse(here, *objects, *words, message=message, lines=2)


@pytest.mark.parametrize("command", ["rename", "prune"])
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere", "nowhere"),
        ("ckpts/ckpt-1", "nearest: "),
        ("model.ckpt-4", "nearest: "),
        ("broken", "broken.index"),
    ],
)
def test_a_source_that_cannot_be_read(command: str, source: str, message: str, here: Path) -> None:
    (here / "broken.index").write_bytes(b"\0" * 100)
    how = {"rename": ("a=b",), "prune": ("--slots",)}[command]
    refuse(here, command, source, *how, "-o", "new", message=message)


def test_plain_is_what_a_script_expects(here: Path) -> None:
    done = run(here, "rename", "model.ckpt-3", "embedding=words", "-o", "new")
    assert done.out == "key\taction\tnew_key\tkind\tbytes\nembedding\trename\twords\tweight\t32\n"
    done = run(here, "prune", "model.ckpt-3", "--drop", "embedding", "-o", "other")
    assert done.out == "key\taction\tnew_key\tkind\tbytes\nembedding\tdrop\t-\tweight\t32\n"


@pytest.mark.parametrize("form", ["plain", "jsonl", "csv", "markdown", "names", "json"])
def test_every_form_has_every_change(form: str, objects: tuple[str, ...], here: Path) -> None:
    plan = renaming(run(here, *objects, "-o", "new", "-n"))
    done = run(here, *objects, "-o", "new", "--format", form)
    text = done.out.replace("\\_", "_") if form == "markdown" else done.out
    for key in plan:
        by_key = form in ("jsonl", "names", "json")
        assert (key if by_key else object_path(key) or key) in text
    lines = done.out.splitlines()
    if form == "names":
        assert lines == list(plan)
    elif form == "jsonl":
        assert {row["key"]: row["new_key"] for row in map(json.loads, lines)} == plan


def test_a_table_is_for_people(here: Path) -> None:
    wide = {"COLUMNS": "200"}
    done = run(here, *WORK["prune objects"], "-o", "new", "--format", "table", environ=wide)
    lines = done.out.splitlines()
    assert lines[0].split() == ["dropped", "kind", "tensors", "bytes"]
    assert lines[1].split() == ["**/.OPTIMIZER_SLOT/optimizer/m", "slot", "2", "40", "B"]
    words = (*WORK["prune objects"], "-n", "--format", "table", "-v")
    every = run(here, *words, environ=wide).out.splitlines()
    assert every[0].split() == ["path", "action", "new", "path", "kind", "bytes"]
    assert len(every) == 5
    coloured = run(
        here, *WORK["prune objects"], "-o", "x", "--format", "table", "--color", "always"
    )
    assert "\x1b[" in coloured.out and "\x1b[" not in done.out


def test_options_come_from_the_environment(either: tuple[str, ...], here: Path) -> None:
    name = f"CKPT_{either[0].upper()}"
    environ = {f"{name}_OUTPUT": "new", f"{name}_DRY_RUN": "1", f"{name}_FORMAT": "names"}
    tried = run(here, *either, environ=environ)
    assert not (here / "new.index").exists() and "dry run" in tried.err
    del environ[f"{name}_DRY_RUN"]
    environ |= {f"{name}_DATA": "copy", f"{name}_META": "copy", f"{name}_UPDATE_STATE": "1"}
    assert run(here, *either, environ=environ).out == tried.out
    assert shards(here, "new")[0].stat().st_nlink == 1
    assert (here / "checkpoint").exists()
    assert (here / "new.meta").exists() == (either[1] == "model.ckpt-3")
    typed = run(here, *either, "-o", "typed", environ=environ)
    assert (here / "typed.index").exists() and typed.out == tried.out


def test_a_reader_that_goes_away_harms_nothing(tmp_path: Path) -> None:
    many = bundle("v2/tf2.21/many_keys/many").prefix
    line = '$CKPT rename "$1" --prefix x/ -o new | head -1; exit ${PIPESTATUS[0]}'
    done = shell(line, words=[many], folder=str(tmp_path))
    assert done.out == "key\taction\tnew_key\tkind\tbytes\n"
    assert done.code in (0, 141)
    assert len(values(tmp_path / "new")) == len(bundle("v2/tf2.21/many_keys/many").tensors)
    full = shell('$CKPT prune "$1" --drop 0 -o x > /dev/full; echo $?', words=[many])
    assert full.out == "2\n" and len(full.err.splitlines()) == 1


@pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may write anywhere"
)
def test_a_folder_that_must_not_be_written_to(either: tuple[str, ...], here: Path) -> None:
    before = state(here)
    drop = "setpriv --bounding-set=-dac_override,-dac_read_search -- " if os.geteuid() == 0 else ""
    (here / "closed").mkdir()
    line = f"{drop}$CKPT {shlex.join(either)}"
    for folder, words in ((here / "closed", " -o closed/new"), (here, " --in-place")):
        folder_of = here / prefix_of(either) if words.endswith("place") else folder / "x"
        folder_of.parent.chmod(0o555)
        done = shell(f"{line} {words}", folder=str(here))
        folder_of.parent.chmod(0o755)
        assert (done.code, done.out) == (2, "")
        assert "permission denied" in done.err and len(done.err.splitlines()) == 1
    assert state(here) == before


def test_a_broken_run_can_be_looked_into(here: Path) -> None:
    done = ckpt(*WORK["rename names"], "-o", "model.ckpt-3", "-vv", folder=str(here))
    assert done.code == 2 and "Traceback" in done.err


def each_key(prefix: Path) -> Iterator[str]:
    with ckpttool.open_checkpoint(prefix) as read:
        yield from read


def test_messages_name_odd_paths_printably(tmp_path: Path) -> None:
    for path in SAVER.parent.glob(f"{SAVER.name}.*"):
        shutil.copy2(path, tmp_path / f"a\x1b[31m{path.name[len(SAVER.name) :]}")
    done = run(tmp_path, "rename", "a\x1b[31m", "--prefix", "x/", "-o", "b\nc")
    assert "\x1b" not in done.err and "wrote b\\nc: " in done.err
    assert next(each_key(tmp_path / "b\nc")).startswith("x/")
