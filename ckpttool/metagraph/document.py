"""A graph file as a whole: choosing parts of it, writing it as JSON, text or bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ckpttool.errors import CorruptError, NotFoundError, SelectionError
from ckpttool.metagraph.collections import MESSAGES
from ckpttool.metagraph.file import GraphKind, read_graph_file
from ckpttool.storage.source import RandomAccessFile, open_input

if TYPE_CHECKING:
    from google.protobuf.message import Message

SAVED_MODEL_NAMES = ("saved_model.pb", "saved_model.pbtxt")
_SCHEMA_VERSION = 1  # of a SavedModel, the only one there is
# JSON with one of these members is a SavedModel.
_SAVED_MODEL_MEMBERS = {
    "savedModelSchemaVersion",
    "saved_model_schema_version",
    "metaGraphs",
    "meta_graphs",
}


@dataclass(frozen=True, slots=True)
class Loss:
    """Something of a graph that its JSON or text form lacks, or has in another form.

    Attributes:
        what: it is.
        place: its first place: a path of field names.
        count: the number of places.
        dropped: whether it is left out.
    """

    what: str
    place: str
    count: int
    dropped: bool


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How to write a graph as JSON.

    Attributes:
        indent: blanks for each level; None for one line.
        elide: leave out the values of tensors of more bytes than this; None for none.
        decode_collections: write the serialized messages in collections as messages.
    """

    indent: int | None = 2
    elide: int | None = None
    decode_collections: bool = False


class GraphDocument:
    """A MetaGraph, a SavedModel or a fingerprint.

    Attributes:
        path: of the file.
        kind: which of the three.
    """

    def __init__(self, path: str, kind: GraphKind, message: Message) -> None:
        self.path = path
        self.kind = kind
        self._message: Any = message

    @property
    def tag_sets(self) -> tuple[tuple[str, ...], ...]:
        """The tags of each MetaGraph."""
        if self.kind == "FingerprintDef":
            return ()
        graphs = self._message.meta_graphs if self.kind == "SavedModel" else [self._message]
        return tuple(tuple(graph.meta_info_def.tags) for graph in graphs)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its possible fields."""
        return tuple(field.name for field in self._message.DESCRIPTOR.fields)

    def choose(self, tags: Iterable[str] | None) -> GraphDocument:
        """Return the one MetaGraph with these tags.

        Args:
            tags: in any order; None takes the only MetaGraph.

        Raises:
            SelectionError: there are several and no tags, or none or several with such tags.
            NotFoundError: it has no MetaGraph.
        """
        if self.kind == "FingerprintDef":
            if tags is not None:
                raise SelectionError("a fingerprint has no tags", path=self.path)
            return self
        sets = self.tag_sets
        if not sets:
            raise NotFoundError("a SavedModel without MetaGraphs", path=self.path)
        if tags is None:
            found = list(range(len(sets)))
            problem = f"it has {len(sets)} MetaGraphs"
        else:
            wanted = set(tags)
            found = [index for index, each in enumerate(sets) if set(each) == wanted]
            problem = f"{len(found) or 'no'} MetaGraph with the tags {_tags(sorted(wanted))}"
        if len(found) != 1:
            there = "; ".join(map(_tags, sets))
            raise SelectionError(f"{problem}; the tag sets are: {there}", path=self.path)
        if self.kind == "MetaGraphDef":
            return self
        return GraphDocument(self.path, "MetaGraphDef", self._message.meta_graphs[found[0]])

    def select(self, names: Sequence[str]) -> GraphDocument:
        """Return a copy with only some of the fields.

        Args:
            names: of the fields, as in the message or in JSON.

        Raises:
            SelectionError: its type has no such field.
        """
        known = {field.name: field.name for field in self._message.DESCRIPTOR.fields}
        known |= {field.json_name: field.name for field in self._message.DESCRIPTOR.fields}
        chosen = type(self._message)()
        for name in names:
            if name not in known:
                there = ", ".join(self.fields)
                raise SelectionError(
                    f"a {self.kind} has no field '{name}'; it may have {there}", path=self.path
                )
            value = getattr(self._message, known[name])
            if known[name] in _present(self._message):
                _copy(chosen, known[name], value)
        return GraphDocument(self.path, self.kind, chosen)

    def as_saved_model(self) -> GraphDocument:
        """Return a SavedModel with only this MetaGraph."""
        if self.kind != "MetaGraphDef":
            return self
        from ckpttool import pb

        model = pb.SavedModel(saved_model_schema_version=_SCHEMA_VERSION)
        model.meta_graphs.add().CopyFrom(self._message)
        return GraphDocument(self.path, "SavedModel", model)

    def write_json(self, write: Callable[[str], object], form: JsonForm) -> tuple[Loss, ...]:
        """Write it in protobuf's JSON mapping, in ASCII, piece by piece.

        Returns:
            What the JSON lacks, or has in another form than in the mapping.
        """
        from ckpttool.pb.json.printer import JsonStyle, write_message

        packed = MESSAGES if form.decode_collections else None
        style = JsonStyle(indent=form.indent, elide=form.elide, packed=packed)
        found = write_message(self._message, write, style)
        return tuple(Loss(one.what, one.place, one.count, one.dropped) for one in found)

    def json_losses(self, form: JsonForm) -> tuple[Loss, ...]:
        """Return what `write_json` would, without writing."""
        return self.write_json(lambda piece: None, form)

    def text(self) -> str:
        """Return protobuf's text form, as TensorFlow writes it."""
        from ckpttool.pb.convert import to_text

        return to_text(self._message)

    def text_losses(self) -> tuple[Loss, ...]:
        """Return what the text form lacks."""
        from ckpttool.pb.convert import unknown_fields

        found: dict[str, Loss] = {}
        for field in unknown_fields(self._message):
            what = f"field {field.number} of {field.message}, which is not in the schema"
            before = found.get(what)
            count = 1 if before is None else before.count + 1
            found[what] = Loss(what, before.place if before else field.path, count, dropped=True)
        return tuple(found.values())

    def data(self) -> bytes:
        """Return its bytes, in a fixed order, unknown fields included."""
        data: bytes = self._message.SerializeToString(deterministic=True)
        return data


def read_graph(path: str) -> GraphDocument:
    """Read a graph file, binary or text.

    Raises:
        MissingFileError: there is no such file.
        CorruptError: it is neither a MetaGraph nor a SavedModel nor a fingerprint.
        UnsupportedError: it is 2 GiB or more.
    """
    found = read_graph_file(path)
    return GraphDocument(path, found.kind, found.message)


def read_graph_json(path: str) -> GraphDocument:
    """Read a graph from its JSON; the path "-" is standard input.

    Raises:
        MissingFileError: there is no such file.
        CorruptError: it is not the JSON of a graph; the message names line and path.
        UnsupportedError: its constants were left out.
    """
    if path == "-":
        with open_input(path) as stdin:
            return graph_from_json(stdin.read(), path)
    with RandomAccessFile(path) as file:
        data = file.read_at(0, file.size)
    return graph_from_json(data, path)


def graph_from_json(data: bytes, path: str) -> GraphDocument:
    """Return the graph of a JSON text in UTF-8; raises as `read_graph_json`."""
    from ckpttool import pb
    from ckpttool.pb.json.parser import load_object, message_from_json

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorruptError(f"line {line}: not JSON: it is not UTF-8", path=path) from error
    members = load_object(text, path=path)
    kind: GraphKind = "MetaGraphDef"
    if _SAVED_MODEL_MEMBERS & set(members):
        kind = "SavedModel"
    elif members and _fingerprint_members() >= set(members):
        kind = "FingerprintDef"
    message_class = cast("type[Message]", getattr(pb, kind))
    message = message_from_json(message_class, members, text=text, path=path)
    return GraphDocument(path, kind, message)


def _fingerprint_members() -> set[str]:
    from ckpttool import pb

    fields = pb.FingerprintDef.DESCRIPTOR.fields
    return {field.name for field in fields} | {field.json_name for field in fields}


def is_saved_model_name(path: str) -> bool:
    """Tell whether TensorFlow reads a file of this name as a SavedModel."""
    return os.path.basename(path) in SAVED_MODEL_NAMES


def _tags(tags: Iterable[str]) -> str:
    return ",".join(tags) or "(none)"


def _present(message: Any) -> set[str]:
    return {field.name for field, _ in message.ListFields()}


def _copy(into: Any, name: str, value: Any) -> None:
    one = type(into)()
    field = into.DESCRIPTOR.fields_by_name[name]
    if field.message_type is None:
        setattr(one, name, value)
    else:
        getattr(one, name).MergeFrom(value)
    into.MergeFrom(one)
