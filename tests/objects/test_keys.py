from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.objects.keys import (
    ObjectKey,
    SlotPart,
    attribute_key,
    escape,
    join_path,
    key_of_path,
    object_path,
    slot_path,
    split_key,
    unescape,
)

# As TensorFlow 2.21 names them.
ESCAPES = [
    ("plain", "plain"),
    ("a.b", "a..b"),
    ("c/d", "c.Sd"),
    ("S", "S"),
    (".x", "..x"),
    (".S", "..S"),
    ("..S", "....S"),
    ("k/2", "k.S2"),
    ("", ""),
    ("/", ".S"),
    ("./", "...S"),
    ("/.", ".S.."),
    (".ATTRIBUTES", "..ATTRIBUTES"),
]

PATHS = [
    ("net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE", "net/l1/kernel"),
    ("v/.ATTRIBUTES/VARIABLE_VALUE", "v"),
    ("d/a..b.Sc/.ATTRIBUTES/VARIABLE_VALUE", "d/a..b.Sc"),
    ("/.ATTRIBUTES/VARIABLE_VALUE", ".VARIABLE_VALUE"),
    ("/.ATTRIBUTES/py_state", ".py_state"),
    ("t/.ATTRIBUTES/table-keys", "t/.table-keys"),
    ("t/.ATTRIBUTES/table-values", "t/.table-values"),
    ("it/.ATTRIBUTES/ITERATOR_STATE", "it/.ITERATOR_STATE"),
    ("obj/.ATTRIBUTES/a....b", "obj/.a....b"),
    ("obj/.ATTRIBUTES/a/b", "obj/.a/b"),
    # An edge named "/TATE" has the path obj/.STATE.
    ("obj/.ATTRIBUTES/STATE", "obj/.ATTRIBUTES/STATE"),
    ("obj/.STATE/.ATTRIBUTES/VARIABLE_VALUE", "obj/.STATE"),
    ("obj/.ATTRIBUTES/..x", "obj/.ATTRIBUTES/..x"),
    ("obj/.ATTRIBUTES/ATTRIBUTES/STATE", "obj/.ATTRIBUTES/ATTRIBUTES/STATE"),
    ("obj/.ATTRIBUTES/", "obj/.ATTRIBUTES/"),
    (
        "net/w/.OPTIMIZER_SLOT/opt/m/.ATTRIBUTES/VARIABLE_VALUE",
        "net/w/.OPTIMIZER_SLOT/opt/m",
    ),
    ("w/.OPTIMIZER_SLOT//m/.ATTRIBUTES/VARIABLE_VALUE", "w/.OPTIMIZER_SLOT//m"),
]

FOREIGN = [
    "",
    "dense/kernel",
    "_CHECKPOINTABLE_OBJECT_GRAPH",
    "a.ATTRIBUTES/VARIABLE_VALUE",
    "a/.ATTRIBUTES",
    # A lone dot in front of a letter other than S: no edge is spelled so, and the object path
    # t/.table-keys would be that of an attribute.
    "t/.table-keys/.ATTRIBUTES/VARIABLE_VALUE",
    "a.b/.ATTRIBUTES/VARIABLE_VALUE",
    "a./.ATTRIBUTES/VARIABLE_VALUE",
    "x.OPTIMIZER_SLOT/opt/m/.ATTRIBUTES/VARIABLE_VALUE",
]


@pytest.mark.parametrize(("name", "segment"), ESCAPES)
def test_escape(name: str, segment: str) -> None:
    assert escape(name) == segment
    assert unescape(segment) == name


@given(st.lists(st.text(alphabet="ab./S", max_size=6), max_size=4))
def test_escaping_is_reversible(names: list[str]) -> None:
    assert [unescape(escape(name)) for name in names] == names
    assert len({escape(name) for name in names}) == len(set(names))


def test_unescape_leaves_lone_dots() -> None:
    assert unescape("a.b") == "a.b"
    assert unescape("a.") == "a."


@pytest.mark.parametrize(("key", "path"), PATHS)
def test_object_path(key: str, path: str) -> None:
    assert object_path(key) == path
    assert key_of_path(path) == key


@pytest.mark.parametrize("key", FOREIGN)
def test_foreign_keys_have_no_object_path(key: str) -> None:
    assert object_path(key) is None
    assert split_key(key) is None


@pytest.mark.parametrize("path", ["", "a.b", "/.x", "a/.", "t/.ATTRIBUTES/table-keys", ".S/.S."])
def test_paths_of_no_key(path: str) -> None:
    assert key_of_path(path) is None


_PIECES = st.sampled_from(
    [
        *("a", "b", "S", ".", "/", "..", ".S", "/.", "ATTRIBUTES", "VARIABLE_VALUE", "table-keys"),
        *("/.ATTRIBUTES/", "/.OPTIMIZER_SLOT/", "/.ATTRIBUTES/VARIABLE_VALUE"),
    ]
)


@given(st.lists(_PIECES, max_size=9).map("".join))
def test_no_two_keys_share_an_object_path(key: str) -> None:
    path = object_path(key)
    if path is not None:
        assert path
        assert key_of_path(path) == key


@given(st.lists(_PIECES, max_size=9).map("".join))
def test_key_of_path_is_the_inverse(path: str) -> None:
    key = key_of_path(path)
    if key is not None:
        assert object_path(key) == path


_NAMES = st.text(alphabet="ab./S_", min_size=1, max_size=5)


@given(st.lists(_NAMES, max_size=4), _NAMES)
def test_every_key_of_a_graph_has_a_path(names: list[str], attribute: str) -> None:
    key = attribute_key(join_path(names), attribute)
    assert object_path(key) is not None
    parts = split_key(key)
    assert parts is not None
    assert [unescape(segment) for segment in parts.path] == names
    assert unescape(parts.attribute) == attribute


def test_a_child_never_collides_with_an_attribute() -> None:
    child = attribute_key(join_path(["t", "table-keys"]))
    dotted = attribute_key(join_path(["t", ".table-keys"]))
    paths = {object_path(child), object_path(dotted), object_path("t/.ATTRIBUTES/table-keys")}
    assert paths == {"t/table-keys", "t/..table-keys", "t/.table-keys"}


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("net/w/.ATTRIBUTES/VARIABLE_VALUE", ObjectKey(("net", "w"), None, "VARIABLE_VALUE")),
        ("/.ATTRIBUTES/py_state", ObjectKey((), None, "py_state")),
        ("t/.ATTRIBUTES/table-keys", ObjectKey(("t",), None, "table", "-keys")),
        ("t/.ATTRIBUTES/table-values", ObjectKey(("t",), None, "table", "-values")),
        ("i/.ATTRIBUTES/ITERATOR_STATE", ObjectKey(("i",), None, "ITERATOR", "_STATE")),
        (
            "n/w/.OPTIMIZER_SLOT/t/opts/1/m/.ATTRIBUTES/VARIABLE_VALUE",
            ObjectKey(("n", "w"), SlotPart(("t", "opts", "1"), "m"), "VARIABLE_VALUE"),
        ),
        (
            "w/.OPTIMIZER_SLOT//m/.ATTRIBUTES/VARIABLE_VALUE",
            ObjectKey(("w",), SlotPart((), "m"), "VARIABLE_VALUE"),
        ),
    ],
)
def test_split_key(key: str, parts: ObjectKey) -> None:
    assert split_key(key) == parts


def test_a_slot_without_optimizer_is_not_split() -> None:
    assert split_key("w/.OPTIMIZER_SLOT/m/.ATTRIBUTES/VARIABLE_VALUE") is None


def test_slot_path() -> None:
    assert slot_path("n/w", "opt", "a/b") == "n/w/.OPTIMIZER_SLOT/opt/a.Sb"
    key = attribute_key(slot_path("n/w", "opt", "m"))
    assert key == "n/w/.OPTIMIZER_SLOT/opt/m/.ATTRIBUTES/VARIABLE_VALUE"
