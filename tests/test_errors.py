from __future__ import annotations

import copy
import pickle

import pytest

from ckpttool import errors
from ckpttool.errors import ChecksumError, CkptError, CorruptError

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, CkptError) and value is not CkptError
]

TEXTS = [
    ("message alone", {}, "it is bad"),
    ("path", {"path": "a/b.index"}, "a/b.index: it is bad"),
    ("path and offset", {"path": "a/b.index", "offset": 7}, "a/b.index:7: it is bad"),
    ("offset 0 is an offset", {"path": "p", "offset": 0}, "p:0: it is bad"),
    ("offset alone", {"offset": 7}, "offset 7: it is bad"),
    ("key", {"key": "k"}, "key 'k': it is bad"),
    ("all", {"path": "p", "offset": 1, "key": "k"}, "p:1: key 'k': it is bad"),
    ("odd key", {"key": "k\x1b[2J\n"}, "key 'k\\x1b[2J\\n': it is bad"),
    ("odd path", {"path": "a\u202eb\udcff"}, "a\\u202eb\\xff: it is bad"),
]


@pytest.mark.parametrize(
    ("place", "text"), [row[1:] for row in TEXTS], ids=[row[0] for row in TEXTS]
)
def test_text(place: dict[str, object], text: str) -> None:
    assert str(CkptError("it is bad", **place)) == text  # type: ignore[arg-type]


def test_a_message_becomes_one_printable_line() -> None:
    error = CorruptError("two\nlines\x1b[2J\u2028three", path="p")
    assert str(error) == "p: two lines\\x1b[2J three"


def test_locate_fills_in_only_what_is_missing() -> None:
    error = CorruptError("m", offset=3)
    assert error.locate(path="p", offset=9, key="k") is error
    assert (error.path, error.offset, error.key) == ("p", 3, "k")
    error.locate(path="other", key="other")
    assert (error.path, error.offset, error.key) == ("p", 3, "k")


def test_checksum_error_tells_both_values() -> None:
    error = ChecksumError("damaged", stored=0x1F, computed=0xABCDEF01, path="p", offset=4, key="k")
    assert str(error) == "p:4: key 'k': damaged: crc32c 0xabcdef01, stored 0x0000001f"
    assert (error.stored, error.computed) == (0x1F, 0xABCDEF01)


@pytest.mark.parametrize("error_class", CLASSES, ids=lambda c: c.__name__)
def test_every_class_says_the_same_way_where(error_class: type[CkptError]) -> None:
    error = _make(error_class)
    assert str(error).startswith("p:1: key 'k': m")
    assert error.message.startswith("m")


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("MissingFileError", FileNotFoundError),
        ("MissingKeyError", LookupError),
        ("FileAccessError", OSError),
        ("SelectionError", ValueError),
        ("InvalidTensorError", ValueError),
    ],
)
def test_callers_who_know_only_python_can_catch_it(name: str, builtin: type[Exception]) -> None:
    with pytest.raises(builtin, match=r"^p: m$"):
        raise getattr(errors, name)("m", path="p")


def test_damage_is_told_from_what_is_merely_not_understood() -> None:
    assert issubclass(errors.TruncatedError, CorruptError)
    assert issubclass(ChecksumError, CorruptError)
    for other in ("UnsupportedError", "NotFoundError", "FileAccessError", "DestinationError"):
        assert not issubclass(getattr(errors, other), CorruptError)


@pytest.mark.parametrize("error_class", CLASSES, ids=lambda c: c.__name__)
def test_an_error_survives_the_way_to_another_process(error_class: type[CkptError]) -> None:
    error = _make(error_class)
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is error_class
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def _make(error_class: type[CkptError]) -> CkptError:
    if error_class is ChecksumError:
        return ChecksumError("m", stored=1, computed=2, path="p", offset=1, key="k")
    return error_class("m", path="p", offset=1, key="k")
