from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ckpttool.printable import printable, unprintable

SPELLINGS = [
    ("plain", "dense/kernel:0", "dense/kernel:0"),
    ("empty", "", ""),
    ("space", "a b", "a b"),
    ("tilde is the last plain one", "~", "~"),
    ("accents stay", "modèle", "modèle"),
    ("scripts stay", "重み", "重み"),
    ("emoji stay", "🙂", "🙂"),
    ("backslash", "a\\b", "a\\\\b"),
    ("what looks like a spelling", "\\x1b", "\\\\x1b"),
    ("tab newline return", "\t\n\r", "\\t\\n\\r"),
    ("NUL", "\0", "\\x00"),
    ("escape", "\x1b[2J", "\\x1b[2J"),
    ("delete", "\x7f", "\\x7f"),
    ("C1 control", "\x9b2J", "\\u009b2J"),
    ("next line", "\x85", "\\u0085"),
    ("byte that is not UTF-8", "\udcff", "\\xff"),
    ("lowest such byte", "\udc80", "\\x80"),
    ("surrogate of another kind", "\ud800", "\\ud800"),
    ("soft hyphen", "\xad", "\\u00ad"),
    ("right to left override", "\u202e", "\\u202e"),
    ("zero width space", "\u200b", "\\u200b"),
    ("byte order mark", "\ufeff", "\\ufeff"),
    ("line separator", "\u2028", "\\u2028"),
    ("paragraph separator", "\u2029", "\\u2029"),
    ("unassigned", "\u0378", "\\u0378"),
    ("tag above U+FFFF", "\U000e0001", "\\U000e0001"),
]


@pytest.mark.parametrize(
    ("text", "spelled"), [row[1:] for row in SPELLINGS], ids=[row[0] for row in SPELLINGS]
)
def test_spelling_and_back(text: str, spelled: str) -> None:
    assert printable(text) == spelled
    assert unprintable(spelled) == text


@pytest.mark.parametrize(
    "text",
    ["a", "\\", "\\q", "\\x1", "\\xg0", "\\xFF", "\\u12", "\\U00110000", "C:\\data", "\\u00AD"],
)
def test_what_is_no_spelling_stays(text: str) -> None:
    assert unprintable(text) == text


def test_a_long_plain_name_with_one_bad_character_at_its_end() -> None:
    assert printable("k" * 100_000 + "\x07") == "k" * 100_000 + "\\x07"


def test_a_plain_name_must_be_plain_to_its_very_end() -> None:
    assert printable("name\n") == "name\\n"


@given(st.text(st.characters(exclude_categories=())))
@example("\\\udc5c\\")
@example("\\\\x41\udcff")
def test_every_text_survives_and_can_be_printed(text: str) -> None:
    spelled = printable(text)
    assert unprintable(spelled) == text
    assert not [c for c in spelled if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    spelled.encode("utf-8")


@given(st.binary())
def test_every_byte_string_survives(raw: bytes) -> None:
    spelled = printable(raw.decode("utf-8", "surrogateescape"))
    assert unprintable(spelled).encode("utf-8", "surrogateescape") == raw
