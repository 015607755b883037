"""A MetaGraph as JSON, text or bytes, and back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from ckpttool.checkpoint.nearest import require_one_of
from ckpttool.errors import SelectionError, UnsupportedError, in_arguments
from ckpttool.metagraph.document import (
    GraphDocument,
    JsonForm,
    Loss,
    read_graph,
    read_graph_json,
)
from ckpttool.query.metagraph.document import (
    GRAPH_FORMS,
    GraphForm,
    choose_graph,
    find_graph,
    losses,
    save_graph,
    write_graph,
)
from ckpttool.render.metajson import loss_lines
from ckpttool.storage.paths import StrPath, path_text

_SUFFIXES: dict[str, GraphForm] = {
    ".json": "json",
    ".pbtxt": "pbtxt",
    ".pb": "pb",
    ".meta": "pb",
}


class GraphExport:
    """A graph in the form that was asked for; made by `ckpttool.export_meta_json`.

    Attributes:
        path: the graph file that was read.
        form: "json", "pbtxt" or "pb".
        destination: the file that was written; None if none was.
        losses: what this form does not have, or has in another way; known when it is written.
        warnings: what the user should know about the way the file was found.
    """

    def __init__(
        self,
        document: GraphDocument,
        form: GraphForm,
        json_form: JsonForm,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.path = document.path
        self.form = form
        self.destination: str | None = None
        self.losses: tuple[Loss, ...] = ()
        self.warnings = warnings
        self._document = document
        self._json_form = json_form

    @property
    def notes(self) -> tuple[str, ...]:
        """What is lost, in words."""
        return tuple(loss_lines(self.losses, self.form))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON that the command prints, parsed; of all forms."""
        pieces: list[str] = []
        self._document.write_json(pieces.append, self._json_form)
        found: dict[str, Any] = json.loads("".join(pieces))
        return found

    def to_bytes(self) -> bytes:
        """Return what the command writes, in the form that was asked for."""
        pieces: list[bytes] = []
        self.write_to(pieces.append)
        return b"".join(pieces)

    def __str__(self) -> str:
        return self.to_bytes().decode("utf-8", "backslashreplace")

    def __repr__(self) -> str:
        to = f" written to {self.destination!r}" if self.destination is not None else ""
        return f"<GraphExport {self.path!r}: {self._document.kind} as {self.form}{to}>"

    def write_to(self, write: Callable[[bytes], object]) -> None:
        """Write it piece by piece."""
        self.losses = write_graph(self._document, self.form, write, self._json_form)

    def save(self, path: str, *, force: bool) -> None:
        """Write it to a file, which appears when it is complete."""
        self.losses = save_graph(self._document, self.form, path, self._json_form, force=force)
        self.destination = path

    def refuse_losses(self) -> None:
        """Refuse a form that cannot hold all.

        Raises:
            UnsupportedError: something would be lost.
        """
        found = losses(self._document, self.form, self._json_form)
        dropped = [loss for loss in found if loss.dropped]
        if dropped:
            raise UnsupportedError("; ".join(loss_lines(dropped, self.form)), path=self.path)


def output_form(to: GraphForm | None, output: str | None, *, from_json: bool) -> GraphForm:
    """Return the form to write: the one asked for, else what the name of the output ends in."""
    if to is not None:
        require_one_of("to", to, GRAPH_FORMS)
        return to
    suffix = os.path.splitext(output)[1] if output is not None else ""
    return _SUFFIXES.get(suffix, "pb" if from_json else "json")


def export_meta_json(
    meta: StrPath,
    output: StrPath | None = None,
    *,
    to: GraphForm | None = None,
    from_json: bool = False,
    force: bool = False,
    tag_set: Iterable[str] | None = None,
    saved_model: bool = False,
    select: str | Iterable[str] = (),
    decode_collections: bool = False,
    elide_constants: int | None = None,
    indent: int | None = 2,
    strict: bool = False,
) -> GraphExport:
    """Read a MetaGraph as JSON, in protobuf's mapping, with nothing lost.

    Args:
        meta: a `.meta` file, `saved_model.pb`, `fingerprint.pb` or the text of one, the folder of
            a SavedModel or SessionBundle export, or a checkpoint that has a graph.
        output: the file to write, if any.
        to: "json", "pbtxt" or "pb"; by default as the name of the output ends, else JSON.
        from_json: `meta` is JSON of such a file; "-" is the standard input.
        force: replace the file if it exists.
        tag_set: the tags of the MetaGraph of a SavedModel, in any order; a text has commas between
            them.
        saved_model: export the whole SavedModel.
        select: only these fields of the MetaGraph; a text has commas between them.
        decode_collections: decode the messages in collections.
        elide_constants: replace larger constants, in bytes, by their size and digest.
        indent: spaces for each level of JSON; None: JSON on one line.
        strict: fail if the output form would lose something.

    Raises:
        MissingFileError: there is no such file.
        NotFoundError: the checkpoint has no graph.
        SelectionError: there is no such MetaGraph or field, or more than one MetaGraph.
        UnsupportedError: with `strict`, something would be lost.
        DestinationError: the output exists.
        CkptError: a file cannot be read or written.

    >>> graph = ckpttool.export_meta_json("model.ckpt-3.meta", select="meta_info_def,saver_def")
    >>> sorted(graph.to_dict()), graph.to_dict()["saverDef"]["version"]
    (['metaInfoDef', 'saverDef'], 'V2')
    """
    target = None if output is None else path_text(output)
    form = output_form(to, target, from_json=from_json)
    misuse = export_misuse(
        form,
        target,
        force=force,
        for_json=decode_collections or elide_constants is not None,
        saved_model=saved_model,
        part=bool(select) or tag_set is not None,
    )
    if misuse is not None:
        raise SelectionError(in_arguments(misuse))
    typed = path_text(meta)
    warnings: tuple[str, ...] = ()
    if not from_json:
        address = find_graph(typed)
        warnings = address.warnings
        document = read_graph(address.path)
    else:
        document = read_graph_json(typed)
    document = choose_graph(
        document,
        tags=None if tag_set is None else _words(tag_set),
        whole=saved_model or (from_json and tag_set is None and not select),
        fields=_words(select),
    )
    json_form = JsonForm(indent, elide_constants, decode_collections)
    export = GraphExport(document, form, json_form, warnings)
    if strict:
        export.refuse_losses()
    if target is not None:
        export.save(target, force=force)
    return export


def export_misuse(
    form: GraphForm,
    output: str | None,
    *,
    force: bool,
    for_json: bool,
    saved_model: bool,
    part: bool,
) -> str | None:
    """Return why arguments of `export_meta_json` do not go together, their names in braces.

    Args:
        form: the form to write.
        output: the file to write, if any.
        force: whether it may be replaced.
        for_json: whether collections are to be decoded, or constants elided.
        saved_model: whether the SavedModel is meant as a whole.
        part: whether a MetaGraph or fields of it are chosen.
    """
    if form != "json" and for_json:
        return "{decode_collections} and {elide_constants} need JSON"
    if saved_model and part:
        return "{saved_model} cannot be combined with {tag_set} or {select}"
    if force and output is None:
        return "{force} needs {output}"
    return None


def _words(text: str | Iterable[str]) -> tuple[str, ...]:
    words = text.split(",") if isinstance(text, str) else text
    return tuple(filter(None, (word.strip() for word in words)))
