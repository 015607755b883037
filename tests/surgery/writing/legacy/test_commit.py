"""Plans written as checkpoints of format V1."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.errors import (
    CkptError,
    CorruptError,
    DestinationError,
    InvalidTensorError,
    SurgeryError,
)
from ckpttool.legacy import writer as writer_module
from ckpttool.legacy.writer import _MOST_BYTES
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.pruning import drop_tensors
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import parse_move
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.recoding.spread import Recoding
from ckpttool.tensor.dtypes import dtype_of_name
from tests.faults.checkpoints import names
from tests.legacy.handmade import LegacyFixture, legacy_fixtures
from tests.support.conversions import (
    COLUMNS,
    ROWS,
    SHARDED,
    convert,
    copy_v1,
    elements,
    everything,
    findings,
    write_v1,
)
from tests.support.fixtures import BundleFixture, bundle, bundles, read_bytes
from tests.support.refusals import refused
from tests.support.surgery import spoil

NAME_BASED = [
    each
    for each in bundles()
    if "_CHECKPOINTABLE_OBJECT_GRAPH" not in each.tensors
    and all(facts.dtype in _MOST_BYTES for facts in each.tensors.values())
]


def dtypes(fixture: BundleFixture) -> set[str]:
    return {facts.dtype for facts in fixture.tensors.values()}


UNKNOWN = sorted({name for each in bundles() for name in dtypes(each)} - set(_MOST_BYTES))


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Return a V1 file in a folder of its own."""
    (tmp_path / "src").mkdir()
    arrays = {
        "a": np.arange(4, dtype=np.float32),
        "s": np.array([b"one", b""], object),
        "w": elements(dtype_of_name("int64"), (3, 4)),
    }
    return write_v1(tmp_path / "src" / "m", arrays, slices={"w": ROWS})


@pytest.mark.parametrize("fixture", legacy_fixtures(), ids=lambda fixture: fixture.name)
def test_there_and_back(fixture: LegacyFixture, tmp_path: Path) -> None:
    convert(fixture.address, tmp_path / "v2")
    receipt = convert(tmp_path / "v2", tmp_path / "v1", "v1")
    assert everything(receipt.address) == everything(fixture.address)
    assert not findings(receipt.address)
    assert len(receipt.shards) == len(fixture.paths)
    with open_checkpoint(tmp_path / "v2") as ckpt, open_checkpoint(fixture.address) as before:
        joined = any(
            entry.slices and not ckpt.entries[key].slices for key, entry in before.entries.items()
        )
    if len(fixture.paths) == 1 and not joined:
        # What TensorFlow wrote, byte for byte.
        assert read_bytes(receipt.shards[0].path) == read_bytes(fixture.paths[0])


@pytest.mark.sweep(6)
@pytest.mark.parametrize("fixture", NAME_BASED, ids=lambda fixture: fixture.name)
@pytest.mark.parametrize("how", [Recoding(), Recoding(shards=3), Recoding(join_slices=True)])
def test_bundles(fixture: BundleFixture, how: Recoding, tmp_path: Path) -> None:
    prefix = fixture.prefix
    receipt = convert(prefix, tmp_path / "v1", "v1", how)
    with open_checkpoint(receipt.address) as ckpt:
        assert ckpt.generation == "V1"
        assert not how.join_slices or not any(entry.slices for entry in ckpt.entries.values())
    assert everything(receipt.address) == everything(prefix)
    assert not findings(receipt.address)


def test_enough_bundles_are_tried() -> None:
    assert len(NAME_BASED) > 10
    assert len(UNKNOWN) > 10


@pytest.mark.parametrize("specs", [ROWS, COLUMNS], ids=str)
@pytest.mark.parametrize("dtype_name", sorted(_MOST_BYTES))
def test_slices_stay_slices(dtype_name: str, specs: tuple[str, ...], tmp_path: Path) -> None:
    """Of any dtype: the operations of TensorFlow put those of format V1 together again."""
    value = elements(dtype_of_name(dtype_name), (3, 4))
    source = write_v1(
        tmp_path / "a", {"w": value}, slices={"w": specs}, dtypes={"w": dtype_name}, shards=2
    )
    with open_checkpoint(source) as ckpt:
        receipt = prepare(Plan.of(ckpt), str(tmp_path / "b")).write()
    assert everything(receipt.address) == everything(source)
    with open_checkpoint(receipt.address) as ckpt:
        assert sorted(map(str, ckpt.entries["w"].slices)) == sorted(specs)


@pytest.mark.parametrize(
    ("how", "files"),
    [
        (Recoding(), ["q"]),
        (Recoding(shards=1), ["q"]),
        (Recoding(shards=2), ["q-00000-of-00002", "q-00001-of-00002"]),
        (Recoding(max_shard_size=40), ["q-00000-of-00003", "q-00001-of-00003", "q-00002-of-00003"]),
        (Recoding(max_shard_size=1000), ["q"]),
    ],
)
def test_files(how: Recoding, files: list[str], source: str, tmp_path: Path) -> None:
    receipt = convert(source, tmp_path / "q", "v1", how, WriteOptions(generation="V1"))
    assert names(tmp_path) == [*files, "src"]
    assert [os.path.basename(shard.path) for shard in receipt.shards] == files
    assert [shard.bytes for shard in receipt.shards] == [
        os.path.getsize(tmp_path / name) for name in files
    ]
    pattern = f"q-?????-of-{len(files):05d}" if files != ["q"] else "q"
    assert receipt.address == str(tmp_path / pattern)
    assert everything(receipt.address) == everything(source)


def test_several_files_made_one(tmp_path: Path) -> None:
    source = copy_v1(SHARDED, tmp_path / "src")
    receipt = convert(source, tmp_path / "q", "v1", Recoding(shards=1))
    assert names(tmp_path) == ["q", "q.meta", "src"]
    assert everything(receipt.address) == everything(source)


def test_one_file_with_a_number(tmp_path: Path) -> None:
    """A sharded Saver with one device numbers its only file."""
    source = write_v1(tmp_path / "m", {"w": np.arange(3.0)}, shards=1)
    with open_checkpoint(source) as ckpt:
        plan = rename(Plan.of(ckpt), [parse_move("w=v")])
        receipt = prepare(plan, str(tmp_path / "q"), WriteOptions(update_state=True)).write()
        assert receipt.address == str(tmp_path / "q-?????-of-00001")
        assert '"q-?????-of-00001"' in (tmp_path / "checkpoint").read_text(encoding="utf-8")
        prepare(plan, None).write()
    assert names(tmp_path) == ["checkpoint", "m-00000-of-00001", "q-00000-of-00001"]
    assert everything(source).keys() == everything(tmp_path / "q").keys() == {"v"}


def test_in_place(source: str, tmp_path: Path) -> None:
    os.chmod(source, 0o640)
    before = everything(source)
    with open_checkpoint(source) as ckpt:
        receipt = prepare(rename(Plan.of(ckpt), [parse_move("w=kernel")]), None).write()
    after = everything(source)
    assert after == {key.replace("w", "kernel"): value for key, value in before.items()}
    assert names(tmp_path / "src") == ["m"]
    assert stat.S_IMODE(os.stat(source).st_mode) == 0o640
    assert receipt.bytes_written == os.path.getsize(source)
    assert receipt.bytes_dead == 0
    with open_checkpoint(source) as ckpt:
        prepare(drop_tensors(Plan.of(ckpt), {"s"}), None).write()
    assert everything(source).keys() == {"a", "kernel"}
    assert not findings(source)


def test_several_files_are_not_changed_in_place(tmp_path: Path) -> None:
    source = copy_v1(SHARDED, tmp_path / "src")
    before = {path: path.read_bytes() for path in (tmp_path / "src").iterdir()}
    with open_checkpoint(source) as ckpt:
        plan = Plan.of(ckpt)
        with refused(SurgeryError, "several files cannot be replaced in one step"):
            prepare(plan, None).write()
        with refused(SurgeryError, "several files cannot be replaced in one step"):
            prepare(plan, None).receipt()
    assert {path: path.read_bytes() for path in (tmp_path / "src").iterdir()} == before


def nothing_written(
    address: str,
    target: Path,
    error: type[CkptError],
    reason: str,
    *,
    options: WriteOptions | None = None,
) -> CkptError:
    """Expect that a plan cannot be written as V1, nor prepared for it; return the error."""
    options = replace(options or WriteOptions(), generation="V1")
    folder = target.parent
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with open_checkpoint(address) as ckpt, refused(error, reason) as caught:
        prepare(Plan.of(ckpt), str(target), options)
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    return caught.value


@pytest.mark.parametrize("dtype_name", UNKNOWN)
def test_dtypes_that_it_does_not_have(dtype_name: str, tmp_path: Path) -> None:
    fixture = next(each for each in bundles() if dtype_name in dtypes(each))
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        only = tuple(each for each in plan.tensors if each.entry.dtype.name == dtype_name)
        plan = replace(plan, tensors=only, graph=None)
        with refused(InvalidTensorError, f"format V1 has no dtype {dtype_name}") as caught:
            prepare(plan, str(tmp_path / "q"), WriteOptions(generation="V1"))
        assert caught.value.key == only[0].key
    assert names(tmp_path) == []


def test_records_that_are_too_large(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_MAX_RECORD", 1024 + 8 * 10 - 1)
    error = nothing_written(
        source, tmp_path / "q", InvalidTensorError, "more than the 1103 of format V1"
    )
    assert error.key == "w"
    with open_checkpoint(source) as ckpt:
        plan = drop_tensors(Plan.of(ckpt), {"w"})
        prepare(plan, str(tmp_path / "q")).write()
        # How long strings are is only known when they are read.
        monkeypatch.setattr(writer_module, "_MAX_RECORD", 1024 + 25)
        with refused(InvalidTensorError, "more than the 1049 of format V1") as caught:
            prepare(plan, str(tmp_path / "r")).write()
        assert caught.value.key == "s"
    assert names(tmp_path) == ["q", "src"]


def test_slices_make_a_large_tensor_possible(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_MAX_RECORD", 1024 + 8 * 10)
    with open_checkpoint(source) as ckpt:
        plan = replace(Plan.of(ckpt), tensors=Plan.of(ckpt).tensors[2:])
        prepare(plan, str(tmp_path / "q")).write()
        with refused(InvalidTensorError, "it has to be partitioned"):
            how = WriteOptions(generation="V1", recoding=Recoding(join_slices=True))
            prepare(plan, str(tmp_path / "r"), how).write()


def test_object_graphs(tmp_path: Path) -> None:
    prefix = bundle("v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5").prefix
    nothing_written(prefix, tmp_path / "q", SurgeryError, "V1 has no object graph")


def test_nothing_left(source: str, tmp_path: Path) -> None:
    with open_checkpoint(source) as ckpt:
        plan = replace(Plan.of(ckpt), tensors=())
        with refused(SurgeryError, "nothing would be left"):
            prepare(plan, str(tmp_path / "q"))
    assert names(tmp_path) == ["src"]


@pytest.mark.parametrize("mode", ["hardlink", "reflink"])
def test_links_are_impossible(mode: str, source: str, tmp_path: Path) -> None:
    options = WriteOptions(mode)  # type: ignore[arg-type]
    nothing_written(
        source, tmp_path / "q", DestinationError, f"so a {mode} cannot make it", options=options
    )


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("q-00000-of-00002", "name of one file of several; name the checkpoint 'q'"),
        ("q-?????-of-00002", "name of one file of several; name the checkpoint 'q'"),
        ("src/m", "shares a file with the source"),
        ("./src/../src/m", "shares a file with the source"),
        ("linked/m", "shares a file with the source"),
    ],
)
def test_names_that_cannot_be(
    name: str, reason: str, force: bool, source: str, tmp_path: Path
) -> None:
    os.symlink("src", tmp_path / "linked")
    options = WriteOptions(force=force)
    nothing_written(source, tmp_path / name, DestinationError, reason, options=options)


def test_a_file_of_a_source_in_several_files(tmp_path: Path) -> None:
    source = copy_v1(SHARDED, tmp_path / "src")
    nothing_written(
        source,
        Path(f"{source}-00000-of-00002"),
        DestinationError,
        "name of one file of several",
        options=WriteOptions(force=True, recoding=Recoding(shards=1)),
    )


@pytest.mark.parametrize(
    ("there", "count", "force", "reason"),
    [
        (None, 1, False, "already exists"),
        (None, 1, True, None),
        (None, 2, True, None),
        (1, 1, True, None),
        (2, 2, False, "already exists"),
        (2, 2, True, None),
        (2, 1, True, None),
        (2, 3, True, None),
    ],
)
def test_over_another(
    there: int | None, count: int, force: bool, reason: str | None, source: str, tmp_path: Path
) -> None:
    write_v1(tmp_path / "q", {"old": np.zeros(2)}, shards=there)
    options = WriteOptions(force=force, recoding=Recoding(shards=count))
    if reason is not None:
        nothing_written(source, tmp_path / "q", DestinationError, reason, options=options)
        return
    with open_checkpoint(source) as ckpt:
        receipt = prepare(Plan.of(ckpt), str(tmp_path / "q"), options).write()
    assert everything(tmp_path / "q") == everything(source)
    # A whole set is never replaced name by name: the new one has another count.
    written = count + (there == count == 2)
    files = ["q"] if count == 1 else [f"q-{n:05d}-of-{written:05d}" for n in range(written)]
    assert [os.path.basename(shard.path) for shard in receipt.shards] == files
    assert names(tmp_path) == [*files, "src"]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("left", ["last only", "claimed", "claim only", "first only"])
def test_a_torn_set_is_mended(left: str, count: int, source: str, tmp_path: Path) -> None:
    """Where there is nothing whole, the names that are asked for are the ones that are given."""
    write_v1(tmp_path / "q", {"old": np.zeros(2), "older": np.ones(2)}, shards=2)
    first, last = (tmp_path / f"q-{number:05d}-of-00002" for number in range(2))
    if left == "first only":
        last.unlink()
    else:
        first.unlink()
    if left.startswith("claim"):
        first.touch()
    if left == "claim only":
        last.unlink()
    options = WriteOptions(recoding=Recoding(shards=count))
    nothing_written(source, tmp_path / "q", DestinationError, "already exists", options=options)
    with open_checkpoint(source) as ckpt:
        prepare(Plan.of(ckpt), str(tmp_path / "q"), replace(options, force=True)).write()
    assert everything(tmp_path / "q") == everything(source)
    assert names(tmp_path) == [*(f"q-{n:05d}-of-{count:05d}" for n in range(count)), "src"]


def test_files_of_that_name_that_hold_something_else(source: str, tmp_path: Path) -> None:
    """Records of a data set are called like that too."""
    write_v1(tmp_path / "q", {"old": np.zeros(2), "older": np.ones(2)}, shards=2)
    (tmp_path / "q-00001-of-00002").write_bytes(b"records")
    options = WriteOptions(force=True, recoding=Recoding(shards=2))
    nothing_written(
        source, tmp_path / "q", DestinationError, "is not a checkpoint", options=options
    )
    with open_checkpoint(source) as ckpt:
        prepare(Plan.of(ckpt), str(tmp_path / "q"), WriteOptions(force=True)).write()
    assert (tmp_path / "q-00001-of-00002").read_bytes() == b"records"


@pytest.mark.parametrize("force", [False, True])
def test_over_what_is_no_checkpoint(force: bool, source: str, tmp_path: Path) -> None:
    (tmp_path / "q").write_bytes(b"a letter")
    options = WriteOptions(force=force)
    nothing_written(source, tmp_path / "q", DestinationError, "already exists", options=options)


@pytest.mark.parametrize("force", [False, True])
def test_a_bundle_of_that_name(force: bool, source: str, tmp_path: Path) -> None:
    convert(source, tmp_path / "q")
    nothing_written(
        source,
        tmp_path / "q",
        DestinationError,
        "find a checkpoint of format V2 instead" if force else "already exists",
        options=WriteOptions(force=force),
    )


@pytest.mark.parametrize("count", [1, 2])
def test_damage_leaves_nothing(count: int, source: str, tmp_path: Path) -> None:
    write_v1(
        tmp_path / "large", {"s": np.array([b"one" * 199999, b"two"], object), "w": np.zeros(3)}
    )
    os.replace(tmp_path / "large", source)
    spoil(Path(source), Path(source).read_bytes().index(b"oneone"))
    with open_checkpoint(source) as ckpt, refused(CorruptError, "") as caught:
        how = WriteOptions(recoding=Recoding(shards=count))
        prepare(Plan.of(ckpt), str(tmp_path / "made" / "q"), how).write()
    assert caught.value.path == source
    assert names(tmp_path) == ["src"]
    with open_checkpoint(source) as ckpt, refused(CorruptError, ""):
        prepare(rename(Plan.of(ckpt), [parse_move("s=t")]), None).write()
    assert names(tmp_path / "src") == ["m"]


def test_a_source_that_changes_meanwhile(source: str, tmp_path: Path) -> None:
    with open_checkpoint(source) as ckpt:
        plan = Plan.of(ckpt)

        def touch(done: int, total: int) -> None:
            os.utime(source)

        with refused(SurgeryError, "changed while it was read"):
            prepare(plan, str(tmp_path / "q")).write(on_progress=touch)
    assert names(tmp_path) == ["src"]


def test_progress_reaches_its_end(source: str, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with open_checkpoint(source) as ckpt:
        prepare(Plan.of(ckpt), str(tmp_path / "q")).write(
            on_progress=lambda *done: told.append(done)
        )
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] > 0
