"""What programs do that nobody thought of: odd arguments, copies, threads, interrupts."""

from __future__ import annotations

import inspect
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool as ct
from ckpttool import surgery
from man import examples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("odd")
    examples.make(path)
    return path


def test_rules_in_every_form(folder: Path, tmp_path: Path) -> None:
    source = folder / "tf_ckpts"
    (tmp_path / "map.json").write_text('{"net": "model", "step": "count"}')
    pairs = {"net": "model", "step": "count"}
    wanted = ct.rename(source, rules=pairs, dry_run=True)
    assert len(wanted.changes) == 7
    for rules in (
        list(pairs.items()),
        [["net", "model"], "step=count"],
        ["net=model", "step=count"],
    ):
        found = ct.rename(source, rules=rules, dry_run=True)  # type: ignore[arg-type]
        assert found.changes == wanted.changes, rules
    found = ct.rename(source, map=tmp_path / "map.json", dry_run=True)
    assert found.changes == wanted.changes
    by_text = ct.rename(source, sub={"^net/": "model/", "^step": "count"}, dry_run=True)
    assert by_text.changes == wanted.changes


Call = Callable[..., object]
ARGUMENTS: list[tuple[Call, dict[str, Any], type[Exception], str]] = [
    (ct.rename, {"rules": "net=model"}, TypeError, "a mapping or a list"),
    (ct.rename, {"rules": {"net": 3}}, TypeError, "not ('net', 3)"),
    (ct.rename, {"rules": {"net": ""}}, ct.SelectionError, "'net='"),
    (ct.rename, {"rules": {"nett": "a"}}, ct.SelectionError, "nearest: 'net'"),
    (ct.rename, {"sub": ("l1", "l2")}, TypeError, "not 'l1'"),
    (ct.prune, {"slots": True, "data": "symlink"}, ct.SelectionError, "'reflink'"),
    (ct.prune, {"slots": True, "meta": "keep"}, ct.SelectionError, "'drop'"),
    (ct.prune, {"slots": True, "dryrun": True}, TypeError, "'dryrun'"),
    (ct.prune, {"slots": True, "dry_run": False}, ct.DestinationError, "destination or in_place"),
    (ct.convert_legacy, {"to": "v3"}, ct.SelectionError, "to is 'v3'"),
    (ct.convert_legacy, {"shards": 0}, ct.SurgeryError, "0 data shards are not"),
    (ct.convert_legacy, {"max_shard_size": -1}, ct.SurgeryError, "the size -1"),
    (ct.export_meta_json, {"to": "xml"}, ct.SelectionError, "'pbtxt'"),
    (ct.diff, {"rtol": -1}, ct.SelectionError, "0 or more"),
    (ct.diff, {"atol": float("nan")}, ct.SelectionError, "0 or more"),
    (
        ct.diff,
        {"exact": True, "rtol": 1e-3},
        ct.SelectionError,
        "exact cannot be combined with rtol",
    ),
    (ct.check, {"finite": True, "allow_extra": True}, ct.SelectionError, "allow_extra need lock"),
    (ct.check, {"lock": "-", "update": True}, ct.SelectionError, "needs a file to write"),
    (ct.open_checkpoint, {"path": None}, TypeError, "not NoneType"),
    (ct.open_checkpoint, {"path": "/tf_ckpt"}, ct.MissingFileError, "no such checkpoint"),
    (ct.diff, {"a": "/", "b": None}, ct.SelectionError, "no folder of several"),
    (surgery.Plan.of, {}, TypeError, "an open checkpoint"),
]


@pytest.mark.parametrize(
    ("call", "given", "told"),
    [
        (ct.rename, {"destination": "x", "rules": {"a": "b"}, "in_place": True}, "give either"),
        (ct.prune, {"slots": True, "in_place": True, "force": True}, "force and data need"),
        (ct.prune, {"dry_run": True}, "nothing to drop"),
        (ct.diff, {"b": "gone", "exact": True, "atol": 1}, "exact cannot be combined"),
        (ct.check, {"lock": "x", "update": True, "graph": True}, "update checks nothing"),
    ],
)
def test_arguments_are_looked_at_before_paths(
    call: Callable[..., object], given: dict[str, object], told: str
) -> None:
    with pytest.raises(ct.CkptError, match=told):
        call("no such checkpoint", **given)


@pytest.mark.parametrize("number", range(len(ARGUMENTS)))
def test_arguments_that_are_refused(number: int, folder: Path) -> None:
    call, given, error, told = ARGUMENTS[number]
    first = next(iter(inspect.signature(call).parameters))
    given = {first: folder / "tf_ckpts", **given}
    if call in (ct.rename, ct.prune, ct.convert_legacy):
        given = {"dry_run": True, **given}
    before = sorted(folder.rglob("*"))
    with pytest.raises(error) as caught:
        call(**given)
    assert told in str(caught.value)
    assert sorted(folder.rglob("*")) == before


def test_names_that_are_no_text(folder: Path) -> None:
    with ct.open_checkpoint(folder / "tf_ckpts") as ckpt:
        name: Any
        for name in (3, b"net/l1/kernel", None):
            assert name not in ckpt and name not in ckpt.entries
            for look in (ckpt.__getitem__, ckpt.tensor, ckpt.entries.__getitem__):
                with pytest.raises(TypeError, match="the name of a tensor must be str"):
                    look(name)
        assert ckpt.get("nothing") is None
        with pytest.raises(KeyError, match="nearest: 'net/l1/kernel'"):
            ckpt["net/l1/kernl"]


def test_tensors_as_arrays(folder: Path) -> None:
    with ct.open_checkpoint(folder / "tf_ckpts") as ckpt:
        tensor = ckpt.tensor("net/l1/bias")
        assert [float(each) for each in tensor] == ckpt["net/l1/bias"].tolist()
        assert (tensor.ndim, tensor.size, len(tensor)) == (1, 5, 5)
        assert np.mean(tensor) == ckpt["net/l1/bias"].mean()
        assert np.array(tensor, dtype="f8").dtype == "f8"
        step = ckpt.tensor("step")
        assert (step.ndim, step.size, step[()].item()) == (0, 1, 100)
        with pytest.raises(TypeError, match="no length"):
            iter(step)
        with pytest.raises(ValueError, match="makes a copy"):
            tensor.__array__(copy=False)
        for mask in ([0, 1], np.array([True] * 5)):
            with pytest.raises(TypeError, match="made of numbers"):
                tensor[mask]


def test_tensors_can_be_saved(folder: Path, tmp_path: Path) -> None:
    with ct.open_checkpoint(folder / "tf_ckpts") as ckpt:
        ct.save_checkpoint(tmp_path / "a", {each.name: each for each in ckpt.select("net")})
    found = ct.diff(tmp_path / "a", folder / "tf_ckpts", "net")
    assert (found.verdict, found.counts["equal"]) == ("equal", 6)  # by object paths


def test_after_close(folder: Path) -> None:
    ckpt = ct.open_checkpoint(folder / "tf_ckpts")
    tensor = ckpt.tensor("net/l1/kernel")
    before = tensor.read()
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        ckpt.close()
        ckpt.close()
        assert np.array_equal(tensor.read(), before) and tensor.stats() is not None
        assert [each.key for each in ckpt.select("net/l1/kernel", kinds="weight")] == [tensor.key]
    ckpt.close()
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    plan = surgery.rename(surgery.Plan.of(ckpt), {"net": "model"})
    assert surgery.write(plan, dry_run=True).tensors == len(ckpt)


def test_copies_of_answers(folder: Path) -> None:
    a, b = folder / "tf_ckpts" / "ckpt-8", folder / "tf_ckpts"
    answers: list[Any] = [
        ct.diff(a, b),
        ct.verify(b),
        ct.check(a, finite=True),
        ct.rename(b, rules={"net": "model"}, dry_run=True),
        ct.prune(b, slots=True, dry_run=True),
        ct.convert_legacy(folder / "old.ckpt-7", dry_run=True),
        ct.export_meta_json(folder / "model.ckpt-3.meta"),
    ]
    for answer in answers:
        copy = pickle.loads(pickle.dumps(answer))
        assert copy.to_dict() == answer.to_dict() and str(copy) == str(answer), answer
        assert repr(copy) == repr(answer)


def test_an_open_checkpoint_goes_wherever_a_path_does(folder: Path) -> None:
    for name in ("tf_ckpts", "old.ckpt-7", "saved_model"):
        path = folder / name
        with ct.open_checkpoint(path) as ckpt:
            assert ct.verify(ckpt).verdict == "ok"
            assert ct.diff(ckpt, path, equal_nan=True).verdict == "equal"
            assert ct.check(ckpt, finite=True).verdict == ct.check(path, finite=True).verdict
            done = ct.prune(ckpt, drop=next(key for key in ckpt if key[0] != "_"), dry_run=True)
            assert len(done.changes) == 1


def test_the_last_two_of_a_folder(folder: Path) -> None:
    found = ct.diff(folder / "tf_ckpts")
    assert [os.path.basename(each.prefix) for each in (found.a, found.b)] == ["ckpt-9", "ckpt-10"]


def test_a_dry_run_counts_what_a_run_writes(folder: Path, tmp_path: Path) -> None:
    source = folder / "tf_ckpts"
    runs: list[Call] = [
        lambda **how: ct.prune(source, tmp_path / "ckpt-1", optimizer=True, **how).receipt,
        lambda **how: ct.rename(source, tmp_path / "ckpt-2", {"net": "model"}, **how).receipt,
    ]
    conversions: dict[str, dict[str, Any]] = {
        "old.ckpt-7": {},
        "tf_ckpts/ckpt-8": {"to": "name-based"},
        "trained.ckpt-9": {"like": source},
        "model.ckpt-3": {"to": "v1"},
    }
    for name, options in conversions.items():

        def convert(name: str = name, options: dict[str, Any] = options, **how: Any) -> object:
            done = ct.convert_legacy(folder / name, tmp_path / name, **options, **how).done
            result: Any = done[0].result
            return result.receipt

        runs.append(convert)
    (tmp_path / "tf_ckpts").mkdir()
    for run in runs:
        planned: Any = run(dry_run=True)
        written: Any = run()
        assert planned.tensors == written.tensors
        assert planned.prefix == written.prefix
        assert set(planned.notes) <= set(written.notes)
        with ct.open_checkpoint(written.prefix) as ckpt:
            assert len(ckpt) == written.tensors


def test_threads(folder: Path) -> None:
    with ct.open_checkpoint(folder / "tf_ckpts") as ckpt, ThreadPoolExecutor(8) as pool:

        def read(_: int) -> tuple[float, tuple[int, ...], int]:
            tensor = ckpt.tensor("net/l1/kernel")
            chosen = ckpt.select("net", kinds="weight")
            return float(ckpt["net/l1/kernel"].sum()), tensor[0, 1:3].shape, len(chosen)

        assert len(set(pool.map(read, range(200)))) == 1


@pytest.mark.parametrize("which", ["new", "in place", "converted"])
def test_an_interrupt_leaves_nothing(which: str, folder: Path, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    ct.rename(folder / "tf_ckpts", tmp_path / "ckpt-1", {"net": "model"}, data="copy")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        if which == "new":
            at = tmp_path / "ckpt-2"
            ct.prune(tmp_path / "ckpt-1", at, slots=True, compact=True, on_progress=interrupt)
        elif which == "in place":
            at = tmp_path / "ckpt-1"
            ct.prune(at, slots=True, compact=True, in_place=True, on_progress=interrupt)
        else:
            old, at = folder / "old.ckpt-7", tmp_path / "model.ckpt-7"
            ct.convert_legacy(old, at, on_progress=interrupt)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
