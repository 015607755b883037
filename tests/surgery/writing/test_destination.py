"""Where checkpoints may be written, and where not."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.checkpoint.generation import Generation
from ckpttool.errors import CkptError, DestinationError, MissingFileError
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.destination import check_destination, destination_prefix
from ckpttool.surgery.writing.legacy.old_files import old_files
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from tests.faults.checkpoints import names
from tests.support.conversions import SHARDED, copy_v1, everything, write_v1
from tests.support.handmade import Bundle
from tests.support.refusals import refused

GENERATIONS: tuple[Generation, ...] = ("V1", "V2")


@pytest.fixture(params=GENERATIONS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a checkpoint of either format, in a folder of its own."""
    (tmp_path / "src").mkdir()
    if request.param == "V1":
        return write_v1(tmp_path / "src" / "m", {"w": np.zeros(2, np.float32)})
    return Bundle().add(b"w", 1, [2], bytes(8)).write(tmp_path / "src" / "m")


def check(source: str, prefix: str, generation: Generation, *, force: bool = False) -> None:
    with open_checkpoint(source) as ckpt:
        check_destination(Plan.of(ckpt), prefix, generation=generation, force=force)


@pytest.mark.parametrize(
    ("typed", "prefix"),
    [("a/m", "a/m"), ("a/m.index", "a/m"), ("m.index.index", "m.index"), ("m.data", "m.data")],
)
def test_what_may_be_typed(typed: str, prefix: str) -> None:
    assert destination_prefix(typed) == prefix


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("name", "error", "reason"),
    [
        ("new", None, ""),
        ("made/new", None, ""),
        ("src/new", None, ""),
        ("no/such/new", MissingFileError, "no such folder"),
        ("src", DestinationError, "add a name for the checkpoint"),
        ("made/", DestinationError, "add a name for the checkpoint"),
        ("file/new", DestinationError, "not a folder"),
    ],
)
def test_places(
    name: str,
    error: type[CkptError] | None,
    reason: str,
    force: bool,
    generation: Generation,
    source: str,
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_bytes(b"")
    prefix = os.path.join(str(tmp_path), name)
    if error is None:
        check(source, prefix, generation, force=force)
        return
    with refused(error, reason):
        check(source, prefix, generation, force=force)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_no_name(generation: Generation, source: str) -> None:
    with refused(DestinationError, "the path is empty"):
        check(source, "", generation)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    "there", ["q.index", "q.data-00001-of-00003", "q.meta", "q", "q-00000-of-00001"]
)
def test_what_is_there(there: str, generation: Generation, source: str, tmp_path: Path) -> None:
    made = write_v1(tmp_path / "old", {"w": np.zeros(2, np.float32)})
    os.rename(made, tmp_path / there)
    prefix = str(tmp_path / "q")
    with refused(DestinationError, "already exists") as caught:
        check(source, prefix, generation)
    assert caught.value.path == str(tmp_path / there)
    bundle = there.startswith(("q.index", "q.data"))
    if generation == "V1" and bundle:
        with refused(DestinationError, "find a checkpoint of format V2 instead"):
            check(source, prefix, generation, force=True)
    else:
        check(source, prefix, generation, force=True)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", ["src/m", "src/../src/m", "linked/m", "other/l", "other/h"])
def test_the_source(
    name: str, generation: Generation, force: bool, source: str, tmp_path: Path
) -> None:
    os.symlink("src", tmp_path / "linked")
    (tmp_path / "other").mkdir()
    for path in sorted((tmp_path / "src").iterdir()):
        ending = path.name[1:]
        os.symlink(path, tmp_path / "other" / f"l{ending}")
        os.link(path, tmp_path / "other" / f"h{ending}")
    prefix = os.path.join(str(tmp_path), name)
    with open_checkpoint(source) as ckpt:
        mixed = ckpt.generation == "V1" and generation == "V2"
    if mixed and (force or name != "other/h"):
        check(source, prefix, generation, force=force)  # its files have other names
    else:
        with refused(DestinationError, "shares a file with the source|already exists"):
            check(source, prefix, generation, force=force)


def test_a_bundle_under_the_name_of_its_v1_source(tmp_path: Path) -> None:
    source = write_v1(tmp_path / "m", {"w": np.arange(3.0)})
    before = everything(source), Path(source).read_bytes()
    with open_checkpoint(source) as ckpt:
        for options in (WriteOptions(generation="V2"), WriteOptions(generation="V2", force=True)):
            prepare(Plan.of(ckpt), source, options).write()
    assert names(tmp_path)[0] == "m"
    with open_checkpoint(source) as ckpt:
        assert ckpt.generation == "V2"
    assert (everything(source), Path(source).read_bytes()) == before


@pytest.mark.parametrize("shards", [None, 1, 2])
def test_a_bundle_in_place_of_another_v1_checkpoint(shards: int | None, tmp_path: Path) -> None:
    """Else the old values would come back with the removal of the bundle."""
    source = write_v1(tmp_path / "m", {"w": np.arange(3.0)})
    write_v1(tmp_path / "q", {"a": np.zeros(2), "b": np.ones(2)}, shards=shards)
    with open_checkpoint(source) as ckpt:
        plan = Plan.of(ckpt)
        assert len(old_files(plan, str(tmp_path / "q")).files) == (shards or 1)
        assert old_files(plan, source).files == []
        prepare(plan, str(tmp_path / "q"), WriteOptions(generation="V2", force=True)).write()
    assert names(tmp_path) == ["m", "q.data-00000-of-00001", "q.index"]
    assert everything(tmp_path / "q") == everything(source)


def test_names_that_a_trainer_will_take(tmp_path: Path) -> None:
    source = copy_v1(SHARDED, tmp_path / "src")
    assert source.endswith("model.ckpt-7")
    later = str(tmp_path / "src" / "model.ckpt-8")
    for generation in GENERATIONS:
        how = WriteOptions(generation=generation)
        with open_checkpoint(source) as ckpt:
            plan = Plan.of(ckpt)
            for options in (how, replace(how, update_state=True)):
                with refused(
                    DestinationError, "a program that saves checkpoints after 'model.ckpt-7"
                ):
                    prepare(plan, later, options)
            prepare(plan, later, replace(how, force=True))
            prepare(plan, str(tmp_path / "src" / "model.ckpt-6"), how)
