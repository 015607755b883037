"""Writing checkpoints whose files are links, and folders whose state files lead elsewhere."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

import ckpttool
from tests.support.fixtures import bundle, folder_contents
from tests.support.surgery import refuse, run, values

SAVER = Path(bundle("v2/tf2.21/saver_v2/model.ckpt-3").prefix)
OBJECTS = Path(bundle("v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5").prefix)
LEGACY = SAVER.parents[3] / "v1/tf2.21/single/model.ckpt-7"
DATA = ".data-00000-of-00001"
STORES = {
    "hugging face": lambda digest: f"blobs/{digest}",
    "dvc": lambda digest: f".dvc/cache/files/md5/{digest[:2]}/{digest[2:32]}",
    "git-annex": lambda digest: f".git/annex/objects/{digest[:2]}/Xq/{digest}/{digest}",
}


def plain(folder: Path, source: Path = SAVER) -> Path:
    """Copy a checkpoint; return its prefix."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.parent.glob(f"{source.name}.*"):
        shutil.copy2(path, folder / ("m" + path.name[len(source.name) :]))
    return folder / "m"


def stored(root: Path, store: str, *, only: str = "", source: Path = SAVER) -> Path:
    """Make a checkpoint in `root/in` whose files are links into a store; return its prefix."""
    prefix = plain(root / "in", source)
    for path in sorted((root / "in").iterdir()):
        if path.name.endswith(only):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            blob = root / STORES[store](digest)
            blob.parent.mkdir(parents=True, exist_ok=True)
            path.rename(blob)
            path.symlink_to(os.path.relpath(blob, path.parent))
    return prefix


def blobs(root: Path) -> dict[str, tuple[bytes, int]]:
    """Return contents and mode of all regular files outside of the folders `in` and `out`."""
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {
        str(path): (path.read_bytes(), path.stat().st_mode)
        for path in found
        if path.relative_to(root).parts[0] not in ("in", "out")
    }


@pytest.mark.parametrize("mode", ["auto", "hardlink", "copy"])
@pytest.mark.parametrize("store", STORES)
def test_files_in_a_store_are_carried(tmp_path: Path, store: str, mode: str) -> None:
    prefix = stored(tmp_path, store)
    before = blobs(tmp_path)
    (tmp_path / "out").mkdir()
    run(tmp_path, "rename", "in/m", "--prefix", "x/", "-o", "out/deep/m", "--data", mode)
    made = tmp_path / "out/deep" / ("m" + DATA)
    assert not made.is_symlink()
    assert os.path.samefile(made, f"{prefix}{DATA}") == (mode != "copy") or mode == "auto"
    assert values(tmp_path / "out/deep/m") == {
        f"x/{key}": value for key, value in values(prefix).items()
    }
    assert blobs(tmp_path) == before


@pytest.mark.parametrize("destination", ["m2", "in/deeper/m2"])
def test_a_link_that_would_lead_to_another_file_of_that_size(
    tmp_path: Path, destination: str
) -> None:
    """What is carried is the file that was read, not the text of the link."""
    prefix = stored(tmp_path, "hugging face")
    link = Path(f"{prefix}{DATA}")
    wrong = tmp_path / destination / ".." / os.readlink(link)
    if not os.path.lexists(wrong):
        wrong.parent.resolve().mkdir(parents=True, exist_ok=True)
        wrong.resolve().write_bytes(bytes(link.stat().st_size))
    run(tmp_path, "rename", "in/m", "--prefix", "x/", "-o", destination)
    assert values(tmp_path / destination) == {
        f"x/{key}": value for key, value in values(prefix).items()
    }


@pytest.mark.parametrize("command", [("rename", "--prefix", "x/"), ("prune", "--slots")])
def test_a_shard_that_leads_out_of_the_folder_is_refused(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """A tensor without elements would let any file of the reader's be published."""
    prefix = stored(tmp_path, "hugging face", only=DATA)
    name, *words = command
    for more in ([], ["--data", "copy"], ["-n"]):
        message = "leads out of the checkpoint's folder"
        refuse(tmp_path, name, "in/m", *words, "-o", "out/m", *more, message=message)
    run(tmp_path, name, "in/m", *words, "-o", "out/m", "--follow-links")
    assert os.path.samefile(tmp_path / f"out/m{DATA}", f"{prefix}{DATA}")
    run(tmp_path, name, "in/m", *words, "-o", "out/compact", "--compact")


def test_a_graph_file_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    plain(tmp_path / "in")
    private = tmp_path / "private"
    private.write_bytes(b"secret")
    meta = tmp_path / "in/m.meta"
    meta.unlink()
    meta.symlink_to(private)
    words = ("rename", "in/m", "--prefix", "x/", "-o", "out/m", "--meta", "copy")
    refuse(tmp_path, *words, message="leads out of the checkpoint's folder")
    refuse(tmp_path, *words, "-n", message="leads out of the checkpoint's folder")
    run(tmp_path, *words, "--follow-links")
    assert (tmp_path / "out/m.meta").read_bytes() == b"secret"


def test_a_file_in_another_store_than_the_index_is_refused(tmp_path: Path) -> None:
    prefix = stored(tmp_path, "hugging face")
    secret = tmp_path / "elsewhere" / ("0" * 64)
    secret.parent.mkdir()
    shutil.copy(f"{prefix}{DATA}", secret)
    os.unlink(f"{prefix}{DATA}")
    os.symlink(secret, f"{prefix}{DATA}")
    refuse(tmp_path, "rename", "in/m", "--prefix", "x/", "-o", "out/m", message="leads out of")


def test_in_place_a_linked_shard_stays_a_link(tmp_path: Path) -> None:
    prefix = stored(tmp_path, "hugging face", source=OBJECTS)
    old = {Path(f"{prefix}.index").resolve(), Path(f"{prefix}{DATA}").resolve()}
    before, kept = blobs(tmp_path), values(prefix)
    index = os.readlink(f"{prefix}.index")
    done = run(tmp_path, "rename", "in/m", "net=model", "--in-place")
    link = tmp_path / "in/m.data-00000-of-00002"
    assert link.is_symlink()
    assert link.resolve() in old
    assert f"'in/m.index' was a symbolic link to '{index}'" in done.err
    assert not Path(f"{prefix}.index").is_symlink()
    assert blobs(tmp_path) == before
    assert sorted(os.listdir(tmp_path / "in")) == [
        "m.data-00000-of-00002",
        "m.data-00001-of-00002",
        "m.index",
    ]
    assert len(values(prefix)) == len(kept)


@pytest.mark.parametrize("dry", [True, False])
def test_in_place_and_compact_says_that_links_become_files(tmp_path: Path, dry: bool) -> None:
    prefix = stored(tmp_path, "hugging face", source=OBJECTS)
    before = blobs(tmp_path)
    done = run(
        tmp_path, "prune", "in/m", "--slots", "--in-place", "--compact", *(["-n"] if dry else [])
    )
    for name in ("m.index", f"m{DATA}"):
        assert f"'in/{name}' was a symbolic link to" in done.err
    assert blobs(tmp_path) == before
    assert Path(f"{prefix}.index").is_symlink() == dry


def test_in_place_only_the_index_changes_where_it_names_variables(tmp_path: Path) -> None:
    prefix = stored(tmp_path, "hugging face", only=DATA)
    link = os.readlink(f"{prefix}{DATA}")
    run(tmp_path, "rename", "in/m", "--prefix", "x/", "--in-place")
    assert os.readlink(f"{prefix}{DATA}") == link


def test_a_linked_file_of_format_v1(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(LEGACY, tmp_path / "blob")
    (tmp_path / "in/m").symlink_to("../blob")
    before = (tmp_path / "blob").read_bytes()
    run(tmp_path, "convert-legacy", "in/m", "-o", "out/new")
    assert values(tmp_path / "out/new").keys() == values(tmp_path / "blob").keys()
    done = run(tmp_path, "rename", "in/m", "a=alpha", "--in-place")
    assert "'in/m' was a symbolic link to '../blob'" in done.err
    assert (tmp_path / "blob").read_bytes() == before


def test_a_linked_folder_is_the_folder(tmp_path: Path) -> None:
    plain(tmp_path / "real")
    (tmp_path / "alias").symlink_to("real")
    (tmp_path / "real/checkpoint").write_text('model_checkpoint_path: "m"\n')
    run(tmp_path, "rename", "alias", "--prefix", "x/", "--in-place")
    assert all(key.startswith("x/") for key in values(tmp_path / "real/m"))
    run(tmp_path, "rename", "alias/m", "--prefix", "y/", "-o", "out/m")


def test_a_linked_state_file_is_not_written_through(tmp_path: Path) -> None:
    plain(tmp_path / "in")
    text = 'model_checkpoint_path: "old"\n'
    (tmp_path / "theirs").write_text(text)
    (tmp_path / "in/checkpoint").symlink_to("../theirs")
    done = run(tmp_path, "rename", "in/m", "--prefix", "x/", "--in-place", "--update-state")
    assert "'in/checkpoint' was a symbolic link" in done.err
    assert (tmp_path / "theirs").read_text() == text


LEADING_OUT = {
    "above": "../outside/m",
    "absolute": "{}/outside/m",
    "winding": "./../run/../outside/m",
    "linked folder": "sub/m",
}


@pytest.mark.parametrize(
    ("named", "command", "typed"),
    [
        *((each, ("prune", "--slots"), "run") for each in LEADING_OUT),
        ("above", ("rename", "--prefix", "x/"), "run/checkpoint"),
        ("above", ("rename", "--prefix", "x/"), "./run/"),
    ],
)
def test_a_folder_whose_state_file_leads_elsewhere(
    tmp_path: Path, named: str, command: tuple[str, ...], typed: str
) -> None:
    """In place nothing outside of the folder is changed; the file of that name in it may be."""
    plain(tmp_path / "outside")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/sub").symlink_to("../outside")
    state = f'model_checkpoint_path: "{LEADING_OUT[named].format(tmp_path)}"\n'
    (tmp_path / "run/checkpoint").write_text(state)
    name, *words = command
    before = folder_contents(tmp_path / "outside")
    for more in ([], ["-n"]):
        refuse(tmp_path, name, typed, *words, "--in-place", *more, message="outside of its folder")
    plain(tmp_path / "run")
    done = run(tmp_path, name, typed, *words, "--in-place")
    assert "using the checkpoint of that name beside it" in done.err
    assert folder_contents(tmp_path / "outside") == before
    assert values(tmp_path / "run/m") != values(tmp_path / "outside/m")


def test_what_a_state_file_names_in_a_folder_below_may_be_changed(tmp_path: Path) -> None:
    plain(tmp_path / "run/sub")
    (tmp_path / "run/checkpoint").write_text('model_checkpoint_path: "sub/../sub/m"\n')
    run(tmp_path, "rename", "run", "--prefix", "x/", "--in-place")
    assert all(key.startswith("x/") for key in values(tmp_path / "run/sub/m"))


def test_the_engine_does_not_follow_a_state_file_out_of_its_folder_either(tmp_path: Path) -> None:
    from ckpttool.surgery.plan import Plan
    from ckpttool.surgery.writing.prepare import prepare

    plain(tmp_path / "outside")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/checkpoint").write_text('model_checkpoint_path: "../outside/m"\n')
    before = folder_contents(tmp_path / "outside")
    with (
        ckpttool.open_checkpoint(tmp_path / "run") as ckpt,
        pytest.raises(ckpttool.CkptError, match="outside this folder"),
    ):
        prepare(Plan.of(ckpt), None).write()
    assert folder_contents(tmp_path / "outside") == before


@pytest.mark.parametrize("length", [209, 222, 228])
def test_a_long_prefix(tmp_path: Path, length: int) -> None:
    """The longest name is that of a data shard, which has twenty bytes more."""
    plain(tmp_path / "in")
    name = "n" * length
    run(tmp_path, "rename", "in/m", "--prefix", "x/", "-o", f"out/{name}")
    assert (tmp_path / f"out/{name}{DATA}").is_file()
