"""The facts about a checkpoint that every answer contains."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.nearest import quoted
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Listed, N, Selector
from ckpttool.errors import SelectionError
from ckpttool.objects.keys import object_path
from ckpttool.query.rows import BundleRows

if TYPE_CHECKING:
    from ckpttool.checkpoint.selection.graph_names import GraphNames


def select_rows(ckpt: Checkpoint, selector: Selector, rows: Sequence[N]) -> Sequence[N]:
    """Return the rows of a checkpoint that are selected.

    Raises:
        SelectionError: a pattern selects nothing; the message names missing files that might have
        it.
    """
    if selector.selects_all:
        return rows
    try:
        return selector.choose([Listed(rows, ckpt)]).chosen
    except SelectionError as error:
        if ckpt.missing_files:
            error.message += f"; not looked for in what is missing: {quoted(ckpt.missing_files)}"
        raise


class Names(NamedTuple):
    """The names of a tensor, as a `TensorRow` has them."""

    key: str
    object_path: str | None
    name: str | None


class TensorNames:
    """The names of tensors besides their keys, found when they are first asked for.

    Args:
        ckpt: the checkpoint; without one, nothing is known.
    """

    def __init__(self, ckpt: Checkpoint | None = None) -> None:
        self._ckpt = ckpt

    def __getstate__(self) -> dict[str, object]:
        # A copy opens no file.
        known = {"object_based": self.object_based, "_variables": self._variables}
        return {"_ckpt": None, "_graph": self._graph, **known}

    def settled(self) -> TensorNames:
        """Return the same without the checkpoint, which may be closed then."""
        copy = TensorNames()
        copy.__dict__.update(self.__getstate__())
        return copy

    @cached_property
    def object_based(self) -> bool:
        """Whether keys have object paths."""
        return self._ckpt is not None and self._ckpt.style == "object"

    @cached_property
    def _variables(self) -> Mapping[str, str]:
        return {} if self._ckpt is None else self._ckpt.variable_names

    @cached_property
    def _graph(self) -> GraphNames | None:
        return None if self._ckpt is None else self._ckpt.described_names

    def variable(self, key: str) -> str | None:
        """Return the full name of a variable in its program, if known."""
        return self._variables.get(key)

    def paths(self, key: str) -> tuple[str, ...]:
        """Return the object paths of a tensor, the one in its key first.

        Others are known if the object graph is not larger than 16 MiB and can be read. A path
        passes no object twice; of many, the shortest are returned.
        """
        if self._graph is not None:
            return self._graph.paths_of(key)
        path = object_path(key) if self.object_based else None
        return () if path is None else (path,)

    def row(self, key: str) -> Names:
        """Return the names of a tensor."""
        path = object_path(key) if self.object_based else None
        return Names(key, path, self.variable(key))

    def members(self, key: str) -> dict[str, object]:
        """Return the members of a tensor's JSON object that name it."""
        return {
            "object_path": object_path(key) if self.object_based else None,
            "name": self.variable(key),
            "paths": self.paths(key),
        }


@dataclass(frozen=True, slots=True)
class Source:
    """The facts about a checkpoint, without its values.

    Attributes:
        path: what was typed.
        prefix: of the checkpoint.
        generation: `"V1"` or `"V2"`; of files of arrays
            `"safetensors"`, `"npz"`, `"npy"` or `"h5"`.
        style: `"object"` or `"name"`.
        shards: number of data shards by the index; where there is none, the number of files.
        byte_order: `"little"` or `"big"`; None for anything but V2, where it has no meaning.
        index_bytes: size of the index; None for anything but V2, which has none.
        data_bytes: size of the existing data shards, or files.
        missing_shards: names of the missing ones with tensors.
        names: of the tensors; they are no part of its JSON.
    """

    path: str
    prefix: str
    generation: str
    style: str
    shards: int
    byte_order: str | None
    index_bytes: int | None
    data_bytes: int
    missing_shards: tuple[str, ...]
    names: TensorNames = field(default_factory=TensorNames, repr=False, compare=False)

    @classmethod
    def of(cls, ckpt: Checkpoint, rows: Sequence[object] = ()) -> Source:
        """Describe an open checkpoint without opening its shards; known rows save time."""
        reader = ckpt.reader
        bundle = reader if isinstance(reader, BundleReader) else None
        if bundle is not None and isinstance(rows, BundleRows):
            files = bundle.shard_files(rows.shards())
        else:
            files = reader.shard_files()
        return cls(
            path=ckpt.location.typed,
            prefix=ckpt.prefix,
            generation=ckpt.generation,
            style=ckpt.style,
            shards=reader.num_shards,
            byte_order=("big" if bundle.big_endian else "little") if bundle else None,
            index_bytes=bundle.index.size if bundle else None,
            data_bytes=sum(file.size or 0 for file in files),
            missing_shards=tuple(os.path.basename(f.path) for f in files if f.size is None),
            names=TensorNames(ckpt),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the `source` member of a JSON document."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.repr}
