"""The facts about a checkpoint that every answer contains."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.nearest import quoted
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Listed, N, Selector
from ckpttool.errors import SelectionError
from ckpttool.query.rows import BundleRows


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


@dataclass(frozen=True, slots=True)
class Source:
    """The facts about a checkpoint, without its values.

    Attributes:
        path: what was typed.
        prefix: of the checkpoint.
        generation: `"V1"` or `"V2"`.
        style: `"object"` or `"name"`.
        shards: number of data shards by the index; of V1 the number of files.
        byte_order: `"little"` or `"big"`; None for V1, where it has no meaning.
        index_bytes: size of the index; None for V1, which has none.
        data_bytes: size of the existing data shards, or files.
        missing_shards: names of the missing ones with tensors.
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
        )
