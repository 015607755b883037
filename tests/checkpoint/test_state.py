from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.checkpoint.state import (
    MAX_SIZE,
    CheckpointState,
    format_state,
    parse_state,
    read_state,
)
from ckpttool.errors import CorruptError, DestinationError, FileAccessError, MissingFileError

FIXTURES = Path(__file__).parents[2] / "fixtures" / "state"
QUOTES = 'it\'s "quoted" back\\slash\nline\ttab\x1b[31m\x7f'
FULL = CheckpointState("ckpt-3", ("ckpt-1", "ckpt-3"), (1.0, 1795181199.8361657), 1e20)

# What TensorFlow was asked to write, by the name of the fixture.
WRITTEN = {
    "relative": CheckpointState("ckpt-3", ("ckpt-2", "ckpt-3")),
    "absolute": CheckpointState(
        "/data/train/run1/model.ckpt-200",
        ("/data/train/run1/model.ckpt-100", "/data/train/run1/model.ckpt-200"),
    ),
    "timestamps": FULL,
    "elsewhere": CheckpointState("../other/ckpt-1", ("deep/er/ckpt-0", "../other/ckpt-1")),
    "non_ascii": CheckpointState("modèle-日本-\U0001f642-1", ("modèle-日本-\U0001f642-1",)),
    "quotes": CheckpointState(QUOTES, (QUOTES,)),
    "sharded_v1": CheckpointState("m.ckpt-7-?????-of-00002", ("m.ckpt-7-?????-of-00002",)),
    "not_listed": CheckpointState("ckpt-9", ("ckpt-1", "ckpt-9")),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_text_is_tensorflows(name: str) -> None:
    text = (FIXTURES / "tf2.21" / name / "checkpoint").read_bytes()
    assert parse_state(text) == WRITTEN[name]
    assert format_state(WRITTEN[name]).encode() == text


@pytest.mark.parametrize("release", ["tf0.12", "tf1.4", "tf1.15"])
@pytest.mark.parametrize("name", ["relative", "absolute", "non_ascii", "sharded_v1"])
def test_texts_of_older_releases(release: str, name: str) -> None:
    assert read_state(str(FIXTURES / release / name)) == WRITTEN[name]


@pytest.mark.parametrize("release", ["tf0.12", "tf1.4", "tf1.15"])
def test_quotes_of_older_releases(release: str) -> None:
    text = QUOTES.replace("quoted", "q")
    assert read_state(str(FIXTURES / release / "quotes")).model_checkpoint_path == text


# What TensorFlow 2.21 makes of these texts.
ACCEPTED = [
    (b'model_checkpoint_path: "a"\r\nall_model_checkpoint_paths: "b"\r\n', ("a", ("b",), 0.0)),
    (b"model_checkpoint_path: 'a'\n", ("a", (), 0.0)),
    (b'model_checkpoint_path: "a" "b"\n', ("ab", (), 0.0)),
    (b'# note\nmodel_checkpoint_path: "a" # note\n', ("a", (), 0.0)),
    (
        b'model_checkpoint_path: "a"\nall_model_checkpoint_paths: ["x","y"]\n',
        ("a", ("x", "y"), 0.0),
    ),
    (b'model_checkpoint_path: "a"; last_preserved_timestamp: 1\n', ("a", (), 1.0)),
    (b'model_checkpoint_path: "\\x41\\u00e9"\n', ("Aé", (), 0.0)),
    (b'model_checkpoint_path: "\\1012"', ("A2", (), 0.0)),
    (b'model_checkpoint_path: "mod\\303\\250le"', ("modèle", (), 0.0)),
    (b'model_checkpoint_path: "a" last_preserved_timestamp: inf', ("a", (), float("inf"))),
    (b'model_checkpoint_path: "a"\rlast_preserved_timestamp: 1.5f', ("a", (), 1.5)),
    (b'model_checkpoint_path: "tab\there \x1b"\n', ("tab\there \x1b", (), 0.0)),
    (b'last_preserved_timestamp: 2.5e+3\nmodel_checkpoint_path: "a"\n', ("a", (), 2500.0)),
    (b"", ("", (), 0.0)),
    (b'model_checkpoint_path: ""\n', ("", (), 0.0)),
]


@pytest.mark.parametrize(("text", "state"), ACCEPTED)
def test_accepted_texts(text: bytes, state: tuple[str, tuple[str, ...], float]) -> None:
    latest, paths, preserved = state
    assert parse_state(text) == CheckpointState(latest, paths, (), preserved)


def test_a_byte_order_mark_is_told() -> None:
    text = b'\xef\xbb\xbfmodel_checkpoint_path: "a"\r\n'
    assert parse_state(text) == CheckpointState("a", marked=True)
    assert parse_state(text + b"# end\n") == CheckpointState("a", marked=True)
    assert not parse_state(text[3:]).marked


REFUSED = [
    (b'\xef\xbb\xbf\xef\xbb\xbfmodel_checkpoint_path: "a"\n', "line 1"),
    (b'model_checkpoint_path: "\xe9"\n', "not UTF-8"),
    (b'model_checkpoint_path: "\\351"\n', "tensorflow.CheckpointState"),
    (b'model_checkpoint_path: "a"\nmodel_checkpoint_path: "b"\n', "line 2"),
    (b"last_preserved_timestamp: 1.0\nlast_preserved_timestamp: 1.0\n", "line 2"),
    (b'model_checkpoint_path: "a"\nsize: 1\n', "size"),
    (b'all_model_checkpoint_path: "a"\n', "all_model_checkpoint_path"),
    (b'model_checkpoint_path "a"', "line 1"),
    (b'model_checkpoint_path: "a\nb"', "line 1"),
    (b'model_checkpoint_path: "a\\"', "line 1"),
    (b"model_checkpoint_path: {", "line 1"),
    (b"\x00\x01\x02", "tensorflow.CheckpointState"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused_texts(text: bytes, message: str) -> None:
    with pytest.raises(CorruptError, match=message) as caught:
        parse_state(text, path="some/checkpoint")
    assert caught.value.path == "some/checkpoint"


@given(st.binary(max_size=60))
def test_any_bytes_give_a_state_or_an_error(text: bytes) -> None:
    try:
        state = parse_state(text)
    except CorruptError:
        return
    # A byte order mark is not written again.
    assert parse_state(format_state(state).encode()) == replace(state, marked=False)


_TIMES = st.floats(min_value=0, allow_infinity=False)
_PATHS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_STATES = st.builds(
    CheckpointState,
    _PATHS,
    st.lists(_PATHS, max_size=3).map(tuple),
    st.lists(_TIMES, max_size=3).map(tuple),
    _TIMES,
)


@given(_STATES)
def test_round_trip(state: CheckpointState) -> None:
    assert parse_state(format_state(state).encode()) == state


@given(_STATES)
def test_both_parsers_agree(state: CheckpointState) -> None:
    text = format_state(state).encode()
    # A comment is beyond the lines that are read without protobuf.
    assert parse_state(text) == parse_state(b"#\n" + text)


def test_plain_texts_need_no_protobuf(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("protobuf is not needed for this")

    monkeypatch.setattr("ckpttool.pb.convert.from_text", refuse)
    text = (FIXTURES / "tf2.21" / "timestamps" / "checkpoint").read_bytes()
    assert parse_state(text) == FULL


def test_a_path_that_is_not_utf8_cannot_be_written() -> None:
    with pytest.raises(DestinationError, match="not UTF-8"):
        format_state(CheckpointState(os.fsdecode(b"ckpt-\xff")))


def test_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with path.open("wb") as file:
        file.truncate(MAX_SIZE + 1)
    with pytest.raises(CorruptError, match="too large"):
        read_state(str(path))
    with pytest.raises(CorruptError, match="too large"):
        parse_state(b" " * (MAX_SIZE + 1))


def test_read_state_takes_folder_or_file(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text(format_state(FULL))
    (tmp_path / "best").write_text('model_checkpoint_path: "b"\n')
    assert read_state(str(tmp_path)) == FULL
    assert read_state(str(tmp_path / "checkpoint")) == FULL
    assert read_state(str(tmp_path / "best")).model_checkpoint_path == "b"


def test_read_state_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError) as caught:
        read_state(str(tmp_path))
    assert caught.value.path == str(tmp_path / "checkpoint")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileAccessError, match="not a regular file"):
        read_state(str(tmp_path / "pipe"))


def test_joined_to() -> None:
    state = CheckpointState("ckpt-3", ("../x/ckpt-1", "/abs/ckpt-2", "ckpt-*"), (1.0,), 2.0)
    assert state.joined_to("some/dir") == CheckpointState(
        "some/dir/ckpt-3",
        ("some/dir/../x/ckpt-1", "/abs/ckpt-2", "some/dir/ckpt-*"),
        (1.0,),
        2.0,
    )
    assert CheckpointState().joined_to("dir") == CheckpointState()
