"""Opening a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING

from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.generation import Generation, SourceFormat
from ckpttool.checkpoint.locate import NO_VARIABLES, Location, locate
from ckpttool.checkpoint.nearest import listed, nearest_names, quoted
from ckpttool.display import Displayed
from ckpttool.errors import CkptError, MissingKeyError, UnsupportedError
from ckpttool.objects.keys import GRAPH_KEY, key_of_path, object_path
from ckpttool.printable import printable, unprintable
from ckpttool.storage.paths import StrPath
from ckpttool.tensor.region import Index

if TYPE_CHECKING:
    from typing_extensions import Self

    from ckpttool.bundle.entry import BundleEntry, EntryHead
    from ckpttool.checkpoint.kinds.averages import Average
    from ckpttool.checkpoint.selection.graph_names import GraphNames
    from ckpttool.checkpoint.state import CheckpointState
    from ckpttool.interchange.entry import ArrayEntry
    from ckpttool.interchange.reader import ArrayReader
    from ckpttool.legacy.reader import LegacyReader
    from ckpttool.legacy.records import LegacyEntry
    from ckpttool.metagraph.facts import MetaGraph
    from ckpttool.objects.graph import ObjectGraph
    from ckpttool.tensor.values import Array


# A larger graph is not read just to describe tensors: a MetaGraph, and an object graph.
MAX_GRAPH_FOR_KINDS = 64 << 20
_MAX_OBJECTS_TO_DESCRIBE = 16 << 20


class Checkpoint(Displayed, Mapping[str, "Array"]):
    """An open checkpoint: a mapping from key, or object path, to value.

    Iterating gives the keys in the order of their bytes. Values are read when they are asked for,
    and their crc32c is checked; each is a copy, independent of later changes of the files.
    `ckpttool.open_checkpoint` makes them for programs.

    Attributes:
        location: how it was addressed and where it lies.
        reader: what reads its format; all have entries, `read`, `read_region`, `chunks` and
            `shard_files`.

    Args:
        location: where it lies.
        index_only: whether kinds and names come from the keys alone, so that no data shard is
            opened for them.
    """

    def __init__(self, location: Location, *, index_only: bool = False) -> None:
        self.location = location
        self._index_only = index_only
        self.reader: BundleReader | LegacyReader | ArrayReader
        if location.generation == "V2" and not location.bare:
            self.reader = BundleReader(location.prefix)
        elif location.generation != "V1" and location.generation != "V2":
            from ckpttool.interchange.reader import ArrayReader

            self.reader = ArrayReader(location.prefix, location.generation)
        else:
            # Without variables there are no files to read, of either format.
            from ckpttool.legacy.reader import LegacyReader

            self.reader = LegacyReader(location.prefix, location.files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; arrays read before stay valid."""
        self.reader.close()

    def __getitem__(self, key: str) -> Array:
        return self.read(key)

    def read(self, name: str, *, copy: bool = True) -> Array:
        """Return the value of a tensor, its crc32c checked.

        Args:
            name: its key or object path, as `resolve` takes it.
            copy: False for a map of the data shard if the stored bytes allow that, which takes no
                memory of its own. It is checked once, here. Later changes of the file show in the
                values, and if it is cut short, or its disk fails, touching the array ends the
                process by a signal (SIGBUS). Use it only on files that nobody writes to.

        Raises:
            MissingKeyError: there is no such tensor.
            CorruptError: the stored bytes are damaged.
        """
        return self.reader.read(self.resolve(name), copy=copy)

    def __iter__(self) -> Iterator[str]:
        return iter(self.reader.entries)

    def __len__(self) -> int:
        return len(self.reader.entries)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(key) is not None

    def _ipython_key_completions_(self) -> list[str]:
        """Return the names that IPython and notebooks offer inside of square brackets."""
        try:
            return [printable(self.object_path(key) or key) for key in self]
        except CkptError:
            return []

    @property
    def prefix(self) -> str:
        """The path of the checkpoint without the endings of its files."""
        return self.location.prefix

    @property
    def generation(self) -> SourceFormat:
        """The format: `"V1"` or `"V2"`; of others `"safetensors"`, `"npz"`, `"npy"`, `"h5"`."""
        return self.location.generation

    @property
    def bundle(self) -> BundleReader:
        """The reader of a bundle, for what V1 does not have.

        Raises:
            UnsupportedError: the checkpoint is of another format.
        """
        if self.location.bare:
            raise UnsupportedError(NO_VARIABLES, path=self.location.typed)
        if not isinstance(self.reader, BundleReader):
            raise UnsupportedError(
                f"a checkpoint of format {self.generation}; this works only with V2",
                path=self.prefix,
            )
        return self.reader

    @property
    def entries(self) -> Mapping[str, BundleEntry | LegacyEntry | ArrayEntry]:
        """The entry of every tensor, by key, without its value."""
        return self.reader.entries

    @property
    def damaged(self) -> Mapping[str, CkptError]:
        """Key -> error, for tensors with damaged entries; all others can be read."""
        reader = self.reader
        return reader.index.damaged if isinstance(reader, BundleReader) else reader.damaged

    @property
    def metadata(self) -> Mapping[str, str]:
        """Text by name, which the writer of a safetensors file left in it."""
        if self.generation != "safetensors":
            return {}
        from ckpttool.interchange.reader import ArrayReader

        return self.reader.metadata if isinstance(self.reader, ArrayReader) else {}

    @property
    def _described(self) -> Mapping[str, EntryHead | LegacyEntry | ArrayEntry]:
        """Dtype and shape of every tensor, as far as known."""
        return self.reader.entries.described()

    @cached_property
    def style(self) -> str:
        """`"object"` with an object graph, else `"name"`."""
        return "object" if GRAPH_KEY in self.reader.entries else "name"

    @cached_property
    def object_graph(self) -> ObjectGraph | None:
        """The object graph; None in a name-based checkpoint.

        Raises:
            CkptError: its bytes are missing or damaged.
        """
        if self.style == "name":
            return None
        from ckpttool.objects.graph import ObjectGraph

        entry = self.reader.entries[GRAPH_KEY]
        if entry.dtype.name != "string" or entry.shape != ():
            raise UnsupportedError(
                f"the object graph is {entry.dtype} {list(entry.shape)}, not a string",
                path=self.prefix,
                key=GRAPH_KEY,
            )
        (data,) = (
            self.reader.read_strings(GRAPH_KEY)  # without NumPy
            if isinstance(self.reader, BundleReader)
            else self.reader.read(GRAPH_KEY).flat
        )
        # The index holds the keys already.
        shared = dict(zip(*repeat(self.reader.entries, 2), strict=True))
        return ObjectGraph.from_bytes(data, path=self.prefix, key=GRAPH_KEY, shared=shared)

    @property
    def _reads_graph(self) -> bool:
        """Whether the object graph is read just to describe tensors."""
        if self.style == "name" or self._index_only:
            return False
        return (self.reader.entries[GRAPH_KEY].size or 0) <= _MAX_OBJECTS_TO_DESCRIBE

    @cached_property
    def variable_names(self) -> Mapping[str, str]:
        """The full names of variables in their program by key, as far as the graph records them.

        None are known if the graph is larger than 16 MiB or cannot be read.
        """
        graph = None
        if self._reads_graph:
            with suppress(CkptError):
                graph = self.object_graph
        return {} if graph is None else graph.full_names()

    @property
    def described_names(self) -> GraphNames | None:
        """The `graph_names`, unless the object graph is larger than 16 MiB."""
        return self.graph_names if self._reads_graph else None

    @cached_property
    def graph_names(self) -> GraphNames | None:
        """The names of the tensors by the object graph.

        None in a name-based checkpoint, and if the graph is missing or damaged.
        """
        if self.style == "name" or self._index_only:
            return None
        from ckpttool.checkpoint.selection.graph_names import GraphNames

        try:
            graph = self.object_graph
        except CkptError:
            return None
        return None if graph is None else GraphNames(graph, self.reader.entries.keys())

    def names_of(self, key: str) -> tuple[str, ...]:
        """Return the names of a tensor: its key, its object path, then short ones by the graph."""
        if self.graph_names is not None:
            return self.graph_names.names_of(key)
        path = self.object_path(key)
        return (key,) if path is None else (key, path)

    @cached_property
    def state(self) -> CheckpointState | None:
        """The state file of the checkpoint's folder, if any."""
        if self.location.state_path is None:
            return None
        from ckpttool.checkpoint.state import read_state

        return read_state(self.location.state_path)

    @cached_property
    def metagraphs(self) -> tuple[MetaGraph, ...]:
        """The MetaGraphs of the `.meta` file or the SavedModel.

        Raises:
            CkptError: the file cannot be read.
        """
        path = self.location.meta_path
        if path is None:
            return ()
        from ckpttool.metagraph.facts import read_metagraphs

        return read_metagraphs(path)

    @property
    def metagraph(self) -> MetaGraph | None:
        """The first of `metagraphs`, if any."""
        return self.metagraphs[0] if self.metagraphs else None

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each tensor by key, found without reading values.

        In an object-based checkpoint by the object graph, or by the keys if that is larger than
        16 MiB or cannot be read; in a name-based one by the collections of its MetaGraph, or by the
        names if there is none, or none that can be read.
        """
        from ckpttool.checkpoint.kinds.names import kinds_from_metagraph, kinds_from_names

        described = self._described
        if self.style == "object":
            if self._reads_graph:
                with suppress(CkptError):
                    return self.graph_kinds
            return self.kinds_by_key
        if self.generation == "h5":
            from ckpttool.checkpoint.kinds.datasets import kinds_from_datasets

            return kinds_from_datasets(described)
        path = self.location.meta_path
        try:
            # Reading a graph with weights as constants would take too long.
            if path is not None and os.stat(path).st_size <= MAX_GRAPH_FOR_KINDS:
                return kinds_from_metagraph(described, self.metagraphs[0])
        except (CkptError, OSError, IndexError):
            pass
        return kinds_from_names(described)

    @cached_property
    def kinds_by_key(self) -> Mapping[str, str]:
        """What each tensor of an object-based checkpoint is by its key alone: kind by key."""
        from ckpttool.checkpoint.kinds.objects import kinds_from_keys

        return kinds_from_keys(self._described)

    @cached_property
    def graph_kinds(self) -> Mapping[str, str]:
        """The kind of each tensor by key, from the object graph if there is one.

        Raises:
            CkptError: the object graph is missing or damaged.
        """
        from ckpttool.checkpoint.kinds.objects import kinds_from_graph

        graph = self.object_graph
        return self.kinds if graph is None else kinds_from_graph(self._described, graph)

    @cached_property
    def averages(self) -> tuple[Average, ...]:
        """The moving averages, each with its weight if known.

        Raises:
            CkptError: the object graph is missing or damaged.
        """
        from ckpttool.checkpoint.kinds.averages import find_averages

        return find_averages(self._described, self.graph_kinds, self.object_graph)

    def object_path(self, key: str) -> str | None:
        """Return the object path for a key; None in a name-based checkpoint."""
        return object_path(key) if self.style == "object" else None

    @cached_property
    def missing_files(self) -> tuple[str, ...]:
        """The missing files of a checkpoint without an index, which may have unknown tensors."""
        if isinstance(self.reader, BundleReader):
            return ()
        return self.reader.missing_files

    def resolve(self, name: str) -> str:
        """Return the key that a name stands for.

        Args:
            name: a key; an object path along any edges of the object graph; the full name of one
                variable; or any of these as printed.

        Raises:
            MissingKeyError: there is no such tensor; near misses are named.
        """
        if not isinstance(name, str):
            raise TypeError(f"the name of a tensor must be str, not {type(name).__name__}")
        key = self._find(name)
        if key is None:
            called = self.graph_names.variables_called(name) if self.graph_names else []
            if called:
                raise MissingKeyError(
                    f"the name of several variables; say which is meant: {listed(called)}",
                    path=self.prefix,
                    key=name,
                )
            names = [
                *self.reader.entries,
                *filter(None, map(self.object_path, self.reader.entries)),
            ]
            names += self.graph_names.variable_names.values() if self.graph_names else ()
            near = nearest_names(name, names)
            hint = f"; nearest: {quoted(near)}" if near else ""
            if self.missing_files:
                hint += f"; not looked for in what is missing: {quoted(self.missing_files)}"
            raise MissingKeyError(f"no such tensor{hint}", path=self.prefix, key=name)
        return key

    def read_region(self, key: str, index: Index) -> Array:
        """Return part of a tensor, reading only the bytes it needs and not checking its crc32c.

        Args:
            key: the key, as `resolve` gives it.
            index: a number or a slice for each dimension, as `tensor.region.fit_index` gives.
        """
        return self.reader.read_region(key, index)

    def _find(self, name: str) -> str | None:
        for spelling in dict.fromkeys((name, unprintable(name))):
            if spelling in self.reader.entries:
                return spelling
            if self.style == "object":
                key = key_of_path(spelling)
                if key is not None and key in self.reader.entries:
                    return key
        if self.graph_names is None:
            return None
        for spelling in dict.fromkeys((name, unprintable(name))):
            key = self.graph_names.exactly(spelling) or self._only_tensor_of(spelling)
            if key is not None:
                return key
        called = self.graph_names.variables_called(name)
        return called[0] if len(called) == 1 else None

    def _only_tensor_of(self, path: str) -> str | None:
        """Return the key of an object's only tensor, of whatever attribute."""
        graph = self.object_graph
        node_id = graph.node_at(path) if graph is not None else None
        key = graph.key_of_node(node_id) if graph is not None and node_id is not None else None
        return key if key in self.reader.entries else None


def require_checkpoint(source: Checkpoint) -> Generation:
    """Return the format of a checkpoint that TensorFlow wrote.

    Raises:
        UnsupportedError: it is a file of arrays.
    """
    found = source.generation
    if found == "V1" or found == "V2":
        return found
    raise UnsupportedError(
        f"{found} is no checkpoint of TensorFlow; `ckpt import` makes one of it",
        path=source.prefix,
    )


def opened(
    source: StrPath | Checkpoint, *, within: bool = False
) -> AbstractContextManager[Checkpoint]:
    """Return a context with an open checkpoint; one that is open already stays open after it.

    Args:
        source: anything that names a checkpoint, or an open one.
        within: as in `locate`.
    """
    if isinstance(source, Checkpoint):
        return nullcontext(source)
    return Checkpoint(locate(source, within=within))
