"""A checkpoint made of a file of another program."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import TextIO

from ckpttool.api.transfer import Transfer
from ckpttool.checkpoint.open import Checkpoint, opened
from ckpttool.errors import DestinationError, SelectionError, in_arguments
from ckpttool.interchange.entry import ArrayEntry
from ckpttool.interchange.naming import format_by_name
from ckpttool.query.source import Source, TensorNames
from ckpttool.render.transfers import (
    TransferFile,
    Transferred,
    TransferredTensor,
    import_line,
)
from ckpttool.storage.locks import LOCK_TIMEOUT, Patience
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.work import Progress
from ckpttool.surgery.importing import plan_import
from ckpttool.surgery.maps.reading import inverted, read_map
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.values import value_size
from ckpttool.surgery.writing.bundle.carry import DataMode
from ckpttool.surgery.writing.destination import destination_prefix, unused_place
from ckpttool.surgery.writing.prepare import ADOPTED, WriteOptions, prepare
from ckpttool.surgery.writing.receipt import Receipt
from ckpttool.surgery.writing.recoding.spread import Recoding

_NUMBER = re.compile(r"-([0-9]{1,18})\Z")
_NO_PLACE = "there is no place for it in the reference"


class Import(Transfer):
    """What became of the tensors of a file, or would; made by `ckpttool.import_checkpoint`.

    `str()` is the table of the command.
    """

    _command = "import"

    @property
    def destination(self) -> str | None:
        """Prefix of the checkpoint; None where it was not said."""
        return self._done.destination

    @property
    def receipt(self) -> Receipt | None:
        """What was written; None in a dry run."""
        return self._done.receipt

    @property
    def summary(self) -> str:
        """In one line what was done, or would be."""
        return import_line(self._done)

    def __repr__(self) -> str:
        return f"<Import of {self.source.path!r}: {self.summary}>"


def import_checkpoint(
    source: StrPath | Checkpoint,
    destination: StrPath | None = None,
    *,
    like: StrPath | Checkpoint | None = None,
    map: StrPath | Iterable[StrPath] = (),
    accept_order: bool = False,
    write_map: StrPath | TextIO | None = None,
    cast: Mapping[str, str] | None = None,
    saturate: bool = False,
    data: DataMode = "auto",
    compact: bool = False,
    dry_run: bool = False,
    force: bool = False,
    update_state: bool = False,
    follow_links: bool = False,
    lock_timeout: float = LOCK_TIMEOUT,
    on_wait: Callable[[str], None] | None = None,
    on_progress: Progress | None = None,
) -> Import:
    """Make a checkpoint of a safetensors, npz, npy or HDF5 file, as `ckpt import` does.

    A safetensors file becomes a data shard as it is: the index points behind its header. Without
    `like` the checkpoint is name-based, and its keys are the names in the file.

    Args:
        source: the file, the index of several safetensors files, or one of them that is open.
        destination: prefix of the new checkpoint. None goes with `dry_run`.
        like: an object-based checkpoint of the program that is to restore the result. A tensor
            goes to the variable that has its name, its object path or its key. Layers of a
            `.weights.h5` file of Keras are paired by names and shapes instead.
        map: a file, or several, with names and layouts, as `export` takes them: they are undone.
        accept_order: pair layers of Keras with the same shapes by their order.
        write_map: with `dry_run`, a file for the map of these pairs, or an open one.
        cast: other dtypes, by patterns of names in the file, as `surgery.cast` takes them.
        saturate: whether what is out of range of such a dtype becomes the nearest that it has.
        data: how a safetensors file becomes a data shard: "reflink", "hardlink", "copy", or "auto"
            for a reflink if possible, else a copy. A hard link shows what other programs write
            into the file later.
        compact: store the tensors alone, without the header of the file and unused bytes.
        dry_run: write nothing.
        force: replace an existing checkpoint.
        update_state: record the result as the latest in its folder's state file.
        follow_links: accept files that are links out of the folder of their index.
        lock_timeout: seconds to wait for another writer in the folder.
        on_wait: told, in words, whom it waits for.
        on_progress: told bytes read and bytes to read.

    Raises:
        SelectionError: a pattern or a map selects nothing, or arguments contradict each other.
        SurgeryError: nothing fits the reference, or the source is a checkpoint already.
        UnsupportedError: TensorFlow has no such dtype.
        DestinationError: there is something at the destination.
        CkptError: something cannot be read or written. Nothing is left behind.

    >>> done = ckpttool.import_checkpoint("net.safetensors", "out/net-1", like="tf_ckpts")
    >>> [tensor.stored_name for tensor in done.tensors], done.receipt.shards[0].bytes
    (['net/l1/bias', 'net/l1/kernel'], 232)
    """
    misuse = import_misuse(
        destination is not None,
        dry_run=dry_run,
        saturate=saturate and not cast,
        carried=data != "auto",
        compact=compact,
    )
    maps = [map] if isinstance(map, (str, os.PathLike)) else list(map)
    misuse = misuse or pairing_misuse(
        like=like is not None,
        mapped=bool(maps),
        accept_order=accept_order,
        kept=write_map is not None,
        dry_run=dry_run,
    )
    if misuse is not None:
        raise SelectionError(in_arguments(misuse))
    prefix = None if destination is None else destination_prefix(path_text(destination))
    if prefix is not None and format_by_name(prefix) is not None:
        problem = "the name of a file; a prefix such as out/model-1 is wanted"
        raise DestinationError(problem, path=prefix)
    number = _NUMBER.search(prefix or "")
    rules = inverted([rule for each in maps for rule in read_map(each)])
    with opened(source) as file, nullcontext() if like is None else opened(like) as reference:
        if file.generation != "h5" and (accept_order or write_map is not None):
            what = "accept_order" if accept_order else "write_map"
            problem = f"{{{what}}} is for layers of Keras, in files of HDF5"
            raise SelectionError(in_arguments(problem), path=file.prefix)
        plan, draft = plan_import(
            file,
            like=reference,
            rules=rules,
            dtypes=cast,
            saturate=saturate,
            number=int(number[1]) if number else 1,
            accept_order=accept_order or write_map is not None,
        )
        if draft is not None and write_map is not None:
            from ckpttool.api.draft_file import save_draft

            plan = plan.with_notes(*save_draft(draft, write_map, force=force))
        adopts = file.generation in ADOPTED and not compact
        if data != "auto" and not adopts:
            problem = "only safetensors can be carried over as it is"
            raise DestinationError(problem, path=file.prefix)
        how = WriteOptions(
            data=data,
            force=force,
            update_state=update_state,
            meta="drop",
            follow_links=follow_links,
            patience=Patience(lock_timeout, on_wait),
            generation="V2",
            recoding=None if adopts else Recoding(),
        )
        prepared = prepare(plan, prefix or unused_place(file.prefix), how)
        receipt = prepared.receipt() if dry_run else prepared.write(on_progress=on_progress)
        names = TensorNames(reference)
        return Import(_transferred(plan, names, prefix, receipt, dry_run=dry_run))


def import_misuse(
    destination: bool, *, dry_run: bool, saturate: bool, carried: bool, compact: bool
) -> str | None:
    """Return why arguments of `import_checkpoint` do not go together, their names in braces.

    Args:
        destination: whether there is one.
        dry_run: whether nothing is written.
        saturate: whether a cast is to saturate that is not asked for.
        carried: whether it is said how files are carried over.
        compact: whether they are not.
    """
    if not destination and not dry_run:
        return "give {destination}, or {dry_run}"
    if saturate:
        return "{saturate} needs {cast}"
    if carried and compact:
        return "{compact} carries no file over; it goes without {data}"
    return None


def pairing_misuse(
    *, like: bool, mapped: bool, accept_order: bool, kept: bool, dry_run: bool
) -> str | None:
    """Return why arguments about pairs of layers do not go together, their names in braces.

    Args:
        like: whether there is a reference.
        mapped: whether a map is given.
        accept_order: whether layers are paired by their order.
        kept: whether the pairs go to a file.
        dry_run: whether nothing else is written.
    """
    if accept_order and not like:
        return "{accept_order} needs {like}"
    if kept and not (like and dry_run):
        return "{write_map} needs {like} and {dry_run}"
    if mapped and (accept_order or kept):
        return "the map says what goes where; {accept_order} and {write_map} pair without {map}"
    return None


def _transferred(
    plan: Plan, names: TensorNames, prefix: str | None, receipt: Receipt, *, dry_run: bool
) -> Transferred:
    """Return what was done, or would be, as data."""
    source = plan.source
    paths = [file.path for file in source.reader.shard_files()]
    placed = {tensor.source_key for tensor in plan.tensors}
    counts = [0] * len(paths)
    tensors = []
    for tensor in plan.tensors:
        entry = tensor.entry
        assert isinstance(entry, ArrayEntry)
        counts[entry.shard_id] += 1
        tensors.append(
            TransferredTensor(
                tensor.key,
                tensor.source_key,
                tensor.dtype.name,
                tensor.shape,
                plan.kinds[tensor.source_key],
                entry.size if tensor.value is None else value_size(tensor.value),
                paths[entry.shard_id],
            )
        )
    files = (
        TransferFile(path, os.stat(path).st_size, count)
        for path, count in zip(paths, counts, strict=True)
    )
    return Transferred(
        Source.of(source),
        names,
        source.generation,
        tuple(files),
        None,
        tuple(tensors),
        tuple((key, _NO_PLACE) for key in source.entries if key not in placed),
        dry_run,
        receipt.notes,
        prefix,
        None if dry_run else receipt,
    )
