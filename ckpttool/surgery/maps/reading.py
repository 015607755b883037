"""Maps: files that give tensors other names and, for other frameworks, another layout.

    old<tab>new                        two columns
    {"old": "new"}                     a JSON object
    {"schema": "ckpt.map/2", "tensors": [
     {"from": "enc/kernel", "to": "enc.weight", "shape": [768, 3072], "permute": [1, 0]}]}

The first two name tensors or whole scopes. A line of the third names one tensor, and may state the
shape that it has, how its dimensions are permuted, and the shape that it then gets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ckpttool.checkpoint.nearest import nearest_names, quoted
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.coding.json_text import JsonError, line_of, load_json
from ckpttool.coding.text import encode_text
from ckpttool.errors import (
    CkptError,
    KeyCollisionError,
    SelectionError,
    SurgeryError,
    UnsupportedError,
)
from ckpttool.printable import shortened, unprintable
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.source import open_input
from ckpttool.surgery.rules import FirstOf, MoveRule, RenameRule, TensorRule
from ckpttool.tensor.layout import TensorLayout

MAP_SCHEMA = "ckpt.map/2"
_MAX_MAP_SIZE = 64 << 20
_MAP_MEMBERS = ("schema", "table", "tensors", "unmatched")
# The last two are for people: `ckpt export --table` says there how it came to a line.
_MEMBERS = ("from", "to", "shape", "permute", "reshape", "rule", "note")


@dataclass(frozen=True, slots=True)
class MappedTensor:
    """What a map makes of a tensor.

    Attributes:
        name: its new name.
        layout: what becomes of its elements; None if they stay as they are.
    """

    name: str
    layout: TensorLayout | None


@dataclass(frozen=True, slots=True)
class MapFile:
    """A map as it was read.

    Attributes:
        rules: its lines.
        table: the table that drafted it, if it says so.
    """

    rules: tuple[MoveRule, ...]
    table: str | None = None


def read_map(path: StrPath) -> list[MoveRule]:
    """Read rules from a file: two columns, a JSON object from old to new name, or `ckpt.map/2`.

    Columns are separated by a tab or, in a line without one, by spaces. Empty lines and lines that
    begin with `#` are ignored.

    Args:
        path: the file, which may be a pipe; "-" is the standard input.

    Raises:
        MissingFileError, FileAccessError: the file cannot be read.
        SelectionError: it is none of these; the message names the line.
    """
    return list(read_map_file(path).rules)


def read_map_file(path: StrPath) -> MapFile:
    """Read a map, as `read_map` does, with what it says of itself.

    Args:
        path: the file, which may be a pipe; "-" is the standard input.

    Raises:
        MissingFileError, FileAccessError: the file cannot be read.
        SelectionError: it is none of these; the message names the line.
    """
    path = path_text(path)
    with open_input(path) as file:
        data = file.read(_MAX_MAP_SIZE + 1)
    if len(data) > _MAX_MAP_SIZE:
        raise SelectionError("the map is too large", path=path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SelectionError("the map is not UTF-8", path=path, offset=error.start) from error
    if text.lstrip()[:1] != "{":
        return MapFile(tuple(MoveRule(old, new) for old, new in _column_pairs(text, path)))
    found = _json_object(text, path)
    if _has_lines(found):
        table = found.get("table")
        rules = tuple(_tensor_rules(found, text, path))
        return MapFile(rules, table if isinstance(table, str) else None)
    return MapFile(tuple(MoveRule(old, new) for old, new in _json_pairs(found, path)))


def map_text(rules: Iterable[Mapping[str, object]], **more: object) -> str:
    """Return a map of form `ckpt.map/2` as ASCII text, with a line for each tensor.

    Args:
        rules: the members of each line.
        more: further members, for people.
    """
    members = {"schema": MAP_SCHEMA} | more
    head = "".join(f"{json.dumps(name)}: {_rows(value)},\n " for name, value in members.items())
    return f'{{{head}"tensors": {_rows(list(rules))}}}\n'


def _rows(value: object) -> str:
    if not isinstance(value, list):
        return json.dumps(value)
    return "[" + ",".join(f"\n  {json.dumps(each)}" for each in value) + "]"


def inverted(rules: Sequence[MoveRule]) -> list[MoveRule]:
    """Return the rules of a map that lead back, names and layouts.

    Raises:
        SelectionError: two names lead to one.
    """
    olds: dict[str, str] = {}
    for rule in rules:
        other = olds.setdefault(rule.new, rule.old)
        if other != rule.old:
            raise SelectionError(
                f"the map cannot be inverted: '{other}' and '{rule.old}' both become '{rule.new}'"
            )
    return [_inverse(rule) for rule in rules]


def map_tensors(
    ckpt: Checkpoint, rules: Sequence[RenameRule], keys: Iterable[str]
) -> dict[str, MappedTensor]:
    """Return what a map makes of tensors; those that it does not name are left out.

    A rule may name a tensor by any of its names; the first rule that does decides.

    Args:
        ckpt: the checkpoint.
        rules: the map.
        keys: the tensors.

    Raises:
        SelectionError: a rule matches nothing, or a tensor has not the stated shape.
        KeyCollisionError: two tensors would get the same name.
        UnsupportedError: the elements of a tensor have no fixed size, and cannot be permuted.
    """
    first = FirstOf(rules)
    used: set[int] = set()
    found: dict[str, MappedTensor] = {}
    takers: dict[str, str] = {}
    names: list[str] = []
    for key in keys:
        spelled = _names_of(ckpt, key)
        names += spelled[:1]
        matched = [match for match in map(first.rename, spelled) if match is not None]
        if not matched:
            continue
        at, name = min(matched, key=lambda match: match[0])
        used.add(at)
        rule = rules[at]
        layout = rule.layout if isinstance(rule, TensorRule) else None
        found[key] = MappedTensor(name, _checked_layout(ckpt, key, layout))
        other = takers.setdefault(name, key)
        if other != key:
            raise KeyCollisionError(
                f"'{other}' and '{key}' would both be called '{name}'", path=ckpt.prefix
            )
    for at, rule in enumerate(rules):
        if at not in used:
            near = nearest_names(rule.old, names) if isinstance(rule, MoveRule) else []
            hint = f"; nearest: {quoted(near)}" if near else ""
            if isinstance(rule, MoveRule) and rule.new in ckpt:
                hint = "; the map leads to names of this checkpoint, not from them"
            raise SelectionError(f"the rule '{rule.text}' matches nothing{hint}", path=ckpt.prefix)
    return found


def refuse_layouts(source: Checkpoint, rules: Iterable[RenameRule]) -> None:
    """Check rules for what moves no bytes: they permute nothing, and stated shapes are right.

    Raises:
        SurgeryError: a rule permutes or reshapes.
        SelectionError: a tensor has not the stated shape.
    """
    for rule in rules:
        if not isinstance(rule, TensorRule) or rule.layout is None:
            continue
        if rule.layout.moves:
            raise SurgeryError(
                f"'{rule.text}': the map has {rule.layout.text} here, and renaming moves no "
                "bytes; `ckpt export` and `ckpt import` do"
            )
        if rule.old in source:
            _checked_layout(source, source.resolve(rule.old), rule.layout)


def _names_of(ckpt: Checkpoint, key: str) -> list[str]:
    """Return the names of a tensor, those for people first."""
    own, *paths = ckpt.names_of(key)
    variable = ckpt.variable_names.get(key)
    return [*paths, *([] if variable is None else [variable]), own]


def _checked_layout(ckpt: Checkpoint, key: str, layout: TensorLayout | None) -> TensorLayout | None:
    if layout is None or key in ckpt.damaged:
        return layout
    entry = ckpt.entries[key]
    try:
        layout.require(entry.shape)
        if layout.moves and entry.dtype.size is None:
            raise UnsupportedError(f"a tensor of dtype {entry.dtype} cannot be permuted")
    except CkptError as error:
        raise error.locate(path=ckpt.prefix, key=key) from None
    return layout


def _inverse(rule: MoveRule) -> MoveRule:
    if not isinstance(rule, TensorRule):
        return MoveRule(rule.new, rule.old)
    return TensorRule(rule.new, rule.old, rule.layout and rule.layout.inverse())


def _json_object(text: str, path: str) -> dict[str, object]:
    try:
        found = load_json(text)
    except JsonError as error:
        if error.name is not None:
            problem = f"{error.place}: the name occurs twice in the map"
            raise SelectionError(problem, path=path, key=error.name) from error
        problem = f"the map is not JSON: {error.place}: {error.problem}"
        raise SelectionError(problem, path=path) from error
    assert isinstance(found, dict)  # it begins with a brace
    return found


def _json_pairs(found: Mapping[str, object], path: str) -> Iterator[tuple[str, str]]:
    for old, new in found.items():
        if not isinstance(new, str) or not old or not new:
            raise SelectionError("the map must map names to names", path=path, key=old)
        if not (_can_be_a_name(old) and _can_be_a_name(new)):
            raise SelectionError(
                "the map contains a lone surrogate; no name can", path=path, key=old
            )
        yield old, new


def _has_lines(found: Mapping[str, object]) -> bool:
    """Tell a map with a schema from one that gives other names to tensors of those names."""
    schema = found.get("schema")
    return isinstance(found.get("tensors"), list) or (
        isinstance(schema, str) and schema.startswith("ckpt.")
    )


def _tensor_rules(found: Mapping[str, object], text: str, path: str) -> Iterator[TensorRule]:
    seen: dict[str, set[str]] = {"from": set(), "to": set()}
    place: tuple[str | int, ...] = ()
    try:
        for at, line in enumerate(_lines(found)):
            place = "tensors", at
            rule = tensor_rule(line)
            for member, name in (("from", rule.old), ("to", rule.new)):
                if name in seen[member]:
                    raise SelectionError(f"two tensors have '{name}' in '{member}'")
                seen[member].add(name)
            yield rule
    except SelectionError as error:
        problem = f"line {line_of(text, place)}: {error.message}"
        raise SelectionError(problem, path=path) from error


def _lines(found: Mapping[str, object]) -> list[object]:
    schema, lines = found.get("schema"), found.get("tensors")
    if schema != MAP_SCHEMA:
        raise SelectionError(
            f"the schema of a map is '{MAP_SCHEMA}', not {shortened(json.dumps(schema))}"
        )
    if not isinstance(lines, list):
        raise SelectionError("'tensors' must be a list")
    for member in found.keys() - set(_MAP_MEMBERS):
        raise SelectionError(f"a map has no '{shortened(member)}'")
    return lines


def tensor_rule(line: object) -> TensorRule:
    """Return the rule that a line of a map stands for.

    Raises:
        SelectionError: it is malformed.
    """
    if not isinstance(line, dict):
        raise SelectionError("a tensor of a map is an object with 'from' and 'to'")
    for member in line.keys() - set(_MEMBERS):
        raise SelectionError(
            f"a tensor of a map has no '{shortened(member)}', only {', '.join(_MEMBERS)}"
        )
    for member in ("from", "to"):
        name = line.get(member)
        if not isinstance(name, str) or not name:
            raise SelectionError(f"'{member}' must be a name")
        if not _can_be_a_name(name):
            raise SelectionError(f"'{member}' contains a lone surrogate; no name can")
    try:
        return TensorRule(line["from"], line["to"], _layout_of(line))
    except SelectionError as error:
        raise SelectionError(f"'{line['from']}': {error.message}") from error


def _layout_of(line: Mapping[str, object]) -> TensorLayout | None:
    if "shape" not in line:
        if "permute" in line or "reshape" in line:
            raise SelectionError("'permute' and 'reshape' need the 'shape' of the tensor")
        return None
    make: Callable[..., TensorLayout] = TensorLayout.of  # which checks what they are
    return make(*(line.get(member) for member in ("shape", "permute", "reshape")))


def _can_be_a_name(text: str) -> bool:
    """Tell whether a text can be a key: surrogates must be escaped bytes."""
    try:
        encode_text(text)
    except UnicodeEncodeError:
        return False
    return True


def _column_pairs(text: str, path: str) -> Iterator[tuple[str, str]]:
    seen = set()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = line.split("\t") if "\t" in line else line.split()
        if len(columns) != 2 or not all(columns):
            raise SelectionError(f"line {number} does not have two columns", path=path)
        old, new = map(unprintable, columns)
        if old in seen:
            raise SelectionError(f"line {number}: the name occurs twice", path=path, key=old)
        seen.add(old)
        yield old, new
