"""The functions named like those of `tf.train` give the results that those give."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ckpttool
from ckpttool.errors import CkptError
from ckpttool.tensor.dtypes import VARIANT
from tests.interop.corpus import FIXTURES, Fixture, checkpoints, state_files
from tests.interop.values import content

ANY_CHECKPOINT = pytest.mark.parametrize(
    "fixture", checkpoints(), ids=lambda fixture: f"{fixture.generation}:{fixture.name}"
)
STATE_FIELDS = (
    "model_checkpoint_path",
    "all_model_checkpoint_paths",
    "all_model_checkpoint_timestamps",
    "last_preserved_timestamp",
)


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a function's result, or what it complained of: ValueError, or None for others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments)
        except ValueError:
            return ValueError
        except (CkptError, OSError):
            return OSError


def readers(tf: Any, fixture: Fixture) -> tuple[Any, ckpttool.CheckpointReader]:
    """Return both readers of a checkpoint that TensorFlow can open."""
    if "[" in fixture.path or not fixture.tensors:
        pytest.skip("TensorFlow cannot open it by this name, or cannot show its keys")
    return tf.train.load_checkpoint(fixture.path), ckpttool.load_checkpoint(fixture.path)


@ANY_CHECKPOINT
def test_maps(tf: Any, fixture: Fixture) -> None:
    theirs, ours = readers(tf, fixture)
    shapes = ours.get_variable_to_shape_map()
    assert shapes == theirs.get_variable_to_shape_map()
    assert all(type(dim) is int for shape in shapes.values() for dim in shape)
    expected = theirs.get_variable_to_dtype_map()
    dtypes = ours.get_variable_to_dtype_map()
    assert dtypes.keys() == expected.keys()
    for key, dtype in dtypes.items():
        assert dtype.name == expected[key].name, key
        if dtype.name != "variant":  # TensorFlow has no answer there
            assert dtype.as_numpy_dtype == expected[key].as_numpy_dtype, key
    for key in [*expected, "no/such/key"]:
        assert ours.has_tensor(key) is theirs.has_tensor(key), key


@ANY_CHECKPOINT
def test_values(tf: Any, fixture: Fixture) -> None:
    theirs, ours = readers(tf, fixture)
    for key, dtype in ours.get_variable_to_dtype_map().items():
        try:
            expected = theirs.get_tensor(key)
        except (ValueError, tf.errors.OpError, RuntimeError):
            ours.get_tensor(key)  # we read what TensorFlow does not
            assert dtype == VARIANT or fixture.tensors[key].get("refused"), key
            continue
        value = ours.get_tensor(key)
        assert type(value) is type(expected), key
        assert getattr(value, "dtype", None) == getattr(expected, "dtype", None), key
        assert content(value) == content(expected), key


@ANY_CHECKPOINT
def test_list_variables(tf: Any, fixture: Fixture) -> None:
    readers(tf, fixture)
    expected = tf.train.list_variables(fixture.path)
    found = ckpttool.list_variables(fixture.path)
    assert found == expected
    assert [type(row) for row in found] == [type(row) for row in expected]


def test_load_variable(tf: Any) -> None:
    folder = str(FIXTURES / "v2/tf2.21/saver_v2")
    for name in ("global_step", "beta1_power:0"):
        expected = tf.train.load_variable(folder, name)
        found = ckpttool.load_variable(folder, name)
        assert type(found) is type(expected)
        assert content(found) == content(expected)


def test_a_key_that_is_not_there(tf: Any) -> None:
    prefix = str(FIXTURES / "v2/tf2.21/saver_v2/model.ckpt-2")
    with pytest.raises(tf.errors.NotFoundError):
        tf.train.load_checkpoint(prefix).get_tensor("no/such/key")
    with pytest.raises(LookupError):
        ckpttool.load_checkpoint(prefix).get_tensor("no/such/key")


def test_the_header_is_no_tensor(tf: Any) -> None:
    """TensorFlow takes the record of the empty key for one that it has but cannot read."""
    prefix = str(FIXTURES / "v2/tf2.21/saver_v2/model.ckpt-2")
    assert tf.train.load_checkpoint(prefix).has_tensor("")
    ours = ckpttool.load_checkpoint(prefix)
    assert not ours.has_tensor("")
    with pytest.raises(LookupError):
        ours.get_tensor("")


@pytest.mark.parametrize("name", ["nothing/here", "state/tf2.21/quotes/nothing", "meta"])
def test_a_checkpoint_that_is_not_there(tf: Any, name: str) -> None:
    path = str(FIXTURES / name)
    for function in ("load_checkpoint", "list_variables"):
        with pytest.raises((tf.errors.NotFoundError, ValueError)):
            getattr(tf.train, function)(path)
        with pytest.raises(FileNotFoundError):
            getattr(ckpttool, function)(path)
    assert tf.train.latest_checkpoint(path) is None
    assert ckpttool.latest_checkpoint(path) is None


def spellings(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield a working directory, and the folder as it may be named from there."""
    yield "/", str(folder)
    yield "/", str(folder) + "/"
    yield "/", os.path.relpath(folder, "/")
    yield str(folder), "."
    yield str(folder), ""
    yield str(folder), f"../{folder.name}"
    yield str(folder.parent), folder.name
    yield str(folder.parent), f"./{folder.name}/"


def assert_same_state(tf: Any, folder: Path, filename: str, change: Callable[[str], None]) -> None:
    """Compare what both say of a state file, from several working directories."""
    for directory, name in spellings(folder):
        change(directory)
        label = f"{name!r} from {directory}"
        expected = outcome(tf.train.get_checkpoint_state, name, filename)
        found = outcome(ckpttool.get_checkpoint_state, name, filename)
        if expected is None or expected is ValueError:
            assert found is expected, label
        else:
            for field in STATE_FIELDS:
                value, wanted = getattr(found, field), getattr(expected, field)
                same = list(value) == list(wanted) if field.startswith("all") else value == wanted
                assert same, f"{label}: {field}"
        latest = outcome(ckpttool.latest_checkpoint, name, filename)
        wanted = outcome(tf.train.latest_checkpoint, name, filename)
        if wanted is None and latest is not None:  # of a folder that was moved
            assert os.path.realpath(os.path.dirname(latest)) == os.path.realpath(folder), label
            assert os.path.basename(latest) in found.model_checkpoint_path.replace("\\", "/")
        else:
            assert latest == wanted, label


@pytest.mark.parametrize("name", state_files())
def test_state_files_of_the_fixtures(tf: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = FIXTURES / name
    assert_same_state(tf, path.parent, path.name, monkeypatch.chdir)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Return a folder with checkpoints of two prefixes and a V1 file, and no state file."""
    folder = tmp_path / "run"
    folder.mkdir()
    source = FIXTURES / "v2/tf2.21/saver_v2"
    for member in source.iterdir():
        if member.name != "checkpoint":
            shutil.copy(member, folder)
            shutil.copy(member, folder / member.name.replace("model.ckpt", "odd [1] ü"))
    shutil.copy(FIXTURES / "v1/tf2.21/single/model.ckpt-7", folder / "old.ckpt")
    return folder


STATES = {
    "relative": 'model_checkpoint_path: "model.ckpt-3"\n',
    "absolute": 'model_checkpoint_path: "{folder}/model.ckpt-3"\n',
    "above": 'model_checkpoint_path: "../run/model.ckpt-2"',
    "v1": 'model_checkpoint_path: "old.ckpt"',
    "gone": 'model_checkpoint_path: "model.ckpt-9"\nall_model_checkpoint_paths: "model.ckpt-2"',
    "stale": 'model_checkpoint_path: "/elsewhere/run/model.ckpt-3"',
    "single_quotes": "model_checkpoint_path: 'model.ckpt-3'",
    "joined_strings": 'model_checkpoint_path: "model" ".ckpt" \'-3\'',
    "one_line": 'all_model_checkpoint_paths: "a"; model_checkpoint_path: "model.ckpt-2",',
    "comment": '# latest\nmodel_checkpoint_path: "model.ckpt-2" # here\n',
    "list": 'model_checkpoint_path: "model.ckpt-2" all_model_checkpoint_paths: ["a", "/b", "c"]',
    "times": 'model_checkpoint_path: "model.ckpt-2"\nall_model_checkpoint_timestamps: 1.5e9\n'
    "all_model_checkpoint_timestamps: -inf\nlast_preserved_timestamp: 12f\n",
    "empty": "",
    "no_path": 'all_model_checkpoint_paths: "model.ckpt-2"\n',
    "empty_path": 'model_checkpoint_path: ""\n',
    "garbage": "\x00\x01 not text",
    "binary": "\n\x0cmodel.ckpt-2",
    "unknown_field": 'model_checkpoint_path: "model.ckpt-2"\nnew_field: 3\n',
    "cut_off": 'model_checkpoint_path: "model.ckpt-2',
    "wrong_type": "model_checkpoint_path: 7",
    "nul": r'model_checkpoint_path: "model.ckpt-2\000"',
}


# To TensorFlow the path in the state file is a pattern, and anything that it matches will do.
PATTERNS = {
    'model_checkpoint_path: "odd [1] ü-3"': (None, "odd [1] ü-3"),
    r'model_checkpoint_path: "odd [1] \303\274-3"': (None, "odd [1] ü-3"),
    'model_checkpoint_path: "model.ckpt-?"': ("model.ckpt-?", None),
    'model_checkpoint_path: "model.ckpt-3.index"': ("model.ckpt-3.index", None),
    'model_checkpoint_path: "."': (".", None),
}


@pytest.mark.parametrize("text", PATTERNS)
def test_a_path_is_no_pattern_to_us(tf: Any, run_folder: Path, text: str) -> None:
    (run_folder / "checkpoint").write_text(text, encoding="utf-8")
    functions = (tf.train.latest_checkpoint, ckpttool.latest_checkpoint)
    for function, name in zip(functions, PATTERNS[text], strict=True):
        assert function(str(run_folder)) == (name and f"{run_folder}/{name}")


def test_a_path_that_comes_twice_is_no_path_to_us(tf: Any, run_folder: Path) -> None:
    text = 'model_checkpoint_path: "a" model_checkpoint_path: "model.ckpt-2"'
    (run_folder / "checkpoint").write_text(text, encoding="utf-8")
    # TensorFlow takes the last one; which is meant cannot be told.
    assert tf.train.latest_checkpoint(str(run_folder)) == f"{run_folder}/model.ckpt-2"
    with pytest.warns(UserWarning, match="ignored"):
        assert ckpttool.latest_checkpoint(str(run_folder)) is None


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("filename", ["checkpoint", "best"])
def test_state_files_of_all_sorts(
    tf: Any, run_folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, filename: str
) -> None:
    text = STATES[name].replace("{folder}", str(run_folder))
    (run_folder / filename).write_text(text, encoding="utf-8")
    assert_same_state(tf, run_folder, filename, monkeypatch.chdir)


def test_a_state_file_that_is_not_utf8(
    tf: Any, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run_folder / "checkpoint").write_bytes(b'model_checkpoint_path: "model.ckpt-2\xff"\n')
    with pytest.raises(UnicodeDecodeError):
        tf.train.get_checkpoint_state(str(run_folder))
    assert outcome(ckpttool.get_checkpoint_state, str(run_folder)) is None


Iterate = Callable[..., Iterator[str]]


def both(tf: Any) -> list[Iterate]:
    return [tf.train.checkpoints_iterator, ckpttool.checkpoints_iterator]


def test_iterator_ends_at_its_timeout(tf: Any, run_folder: Path) -> None:
    state = run_folder / "checkpoint"
    for iterate in both(tf):
        assert list(iterate(str(run_folder), timeout=0)) == []
    state.write_text('model_checkpoint_path: "model.ckpt-2"')
    for iterate in both(tf):
        assert list(iterate(str(run_folder), timeout=0)) == [str(run_folder / "model.ckpt-2")]


def test_iterator_yields_each_new_checkpoint_once(tf: Any, run_folder: Path) -> None:
    state = run_folder / "checkpoint"
    found = []
    for iterate in both(tf):
        state.write_text('model_checkpoint_path: "model.ckpt-2"')
        paths = []
        for path in iterate(str(run_folder), timeout=0):
            paths.append(path)
            if len(paths) < 4:
                number = 2 if path.endswith("3") else 3
                state.write_text(f'model_checkpoint_path: "model.ckpt-{number}"')
        found.append(paths)
    assert found[1] == found[0]
    assert len(found[0]) == 4


def test_iterator_asks_after_checkpoints_and_timeouts(tf: Any, run_folder: Path) -> None:
    (run_folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"')
    found = []
    for iterate in both(tf):
        asked: list[int] = []

        def enough(asked: list[int] = asked) -> bool:
            asked.append(1)
            return len(asked) == 3

        paths = list(iterate(str(run_folder), timeout=0, timeout_fn=enough))
        found.append((paths, len(asked)))
    assert found[1] == found[0]
    assert found[0] == ([str(run_folder / "model.ckpt-2")], 3)


def test_debug_string(tf: Any) -> None:
    prefix = str(FIXTURES / "v2/tf2.21/saver_v2/model.ckpt-2")
    theirs = tf.train.load_checkpoint(prefix).debug_string()
    ours = ckpttool.load_checkpoint(prefix).debug_string()
    assert type(ours) is type(theirs)
    assert sorted(ours.splitlines()) == sorted(theirs.splitlines())
