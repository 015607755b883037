"""An open checkpoint as programs use it; its tensors read values on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ckpttool.checkpoint.folder import step_of
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Listed, Selector
from ckpttool.printable import printable
from ckpttool.query.source import Source
from ckpttool.render import humanize
from ckpttool.storage.paths import StrPath
from ckpttool.tensor.region import as_index, fit_index

if TYPE_CHECKING:
    from ckpttool.bundle.entry import BundleEntry
    from ckpttool.interchange.entry import ArrayEntry
    from ckpttool.legacy.records import LegacyEntry
    from ckpttool.query.values.statistics import Statistics
    from ckpttool.tensor.dtypes import DType
    from ckpttool.tensor.values import Array


class _Name(NamedTuple):
    key: str
    object_path: str | None
    kind: str


class Tensor:
    """A tensor of an open checkpoint; its values are read on demand.

    Made by `OpenCheckpoint.tensor` and `OpenCheckpoint.select`. An index reads only the bytes it
    needs and cannot check them, since the crc32c covers the whole tensor. `numpy.asarray` and
    `read` return the whole tensor, checked.

    Attributes:
        key: the name in the file.
    """

    __slots__ = ("_checkpoint", "key")

    def __init__(self, checkpoint: Checkpoint, key: str) -> None:
        self._checkpoint = checkpoint
        self.key = key

    @property
    def name(self) -> str:
        """The object path in an object-based checkpoint, else the key."""
        return self.object_path or self.key

    @property
    def object_path(self) -> str | None:
        """The path of objects to the tensor; None in a name-based checkpoint."""
        return self._checkpoint.object_path(self.key)

    @property
    def variable_name(self) -> str | None:
        """The full name of the variable in its program, if the object graph records it.

        It is the `name` of the commands' JSON.
        """
        return self._checkpoint.variable_names.get(self.key)

    @property
    def dtype(self) -> DType:
        """The dtype; it has `name` and `as_numpy_dtype`."""
        return self._checkpoint.entries[self.key].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self._checkpoint.entries[self.key].shape

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @property
    def kind(self) -> str:
        """Its kind: "weight", "slot", "step" ..."""
        return self._checkpoint.kinds[self.key]

    def read(self) -> Array:
        """Return all values, checked by their crc32c.

        Raises:
            CorruptError: the stored bytes are damaged.
        """
        return self._checkpoint.read(self.key)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("values are read from a file, which makes a copy")
        value = self.read()
        return value if dtype is None else value.astype(dtype)

    def __getitem__(self, index: object) -> Array:
        """Return part of the values; the index has numbers, slices and `...`, as in NumPy."""
        return self._checkpoint.read_region(self.key, fit_index(as_index(index), self.shape))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return (self[at] for at in range(len(self)))

    def stats(self) -> Statistics | None:
        """Return statistics of the values, read in bounded memory; None for variants.

        Raises:
            CorruptError: the stored bytes are damaged.
            UnsupportedError: the dtype is not known.
        """
        from ckpttool.query.values.parts import Part
        from ckpttool.query.values.statistics import statistics

        return statistics(Part(self._checkpoint, self.key))

    def __repr__(self) -> str:
        about = f"{self.dtype.name} {humanize.shape(self.shape)} {self.kind}"
        return f"<Tensor {printable(self.name)!r} {about}>"


class Entries(Mapping[str, "BundleEntry | LegacyEntry | ArrayEntry"]):
    """The entry of each tensor by key, in the order of the key bytes; no values are read.

    Names other than keys work as in the checkpoint itself.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._known: Mapping[str, BundleEntry | LegacyEntry | ArrayEntry] = (
            checkpoint.reader.entries
        )

    def __getitem__(self, name: str) -> BundleEntry | LegacyEntry | ArrayEntry:
        if name in self._known:
            return self._known[name]
        return self._known[self._checkpoint.resolve(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._checkpoint

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"<Entries of {printable(self._checkpoint.prefix)!r}: {len(self):,} tensors>"


class OpenCheckpoint(Checkpoint):
    """An open checkpoint: a mapping from names to values; made by `ckpttool.open_checkpoint`.

    A name is a key, an object path, or a variable name. Iteration, `keys()` and `entries`
    go by key, in the order of the key bytes. Reading after `close` opens the files again.
    """

    @property
    def entries(self) -> Mapping[str, BundleEntry | LegacyEntry | ArrayEntry]:
        """Dtype, shape, size and place of each tensor, without its values.

        It takes the same names as the checkpoint, and iterates by key.
        """
        return Entries(self)

    @property
    def step(self) -> int | None:
        """The number at the end of its name, as in `ckpt ls -d`; None if there is none."""
        return step_of(self.prefix)

    def tensor(self, name: str) -> Tensor:
        """Return a tensor without reading its values.

        Args:
            name: its key, object path or variable name.

        Raises:
            MissingKeyError: there is no such tensor; near misses are named.

        >>> with ckpttool.open_checkpoint("tf_ckpts") as ckpt:
        ...     kernel = ckpt.tensor("net/l1/kernel")
        ...     kernel.shape, kernel.dtype.name, kernel.kind, kernel[0, :3].shape
        ((1, 5), 'float32', 'weight', (3,))
        """
        return Tensor(self, self.resolve(name))

    def select(
        self,
        patterns: str | Iterable[str] = (),
        *,
        exclude: str | Iterable[str] = (),
        kinds: str | Iterable[str] = (),
    ) -> list[Tensor]:
        """Return tensors by patterns and kinds, in the order of the key bytes; no values are read.

        Args:
            patterns: names, scopes, globs or regular expressions, as in `ckpt ls`; by default all
                tensors.
            exclude: patterns of tensors to leave out.
            kinds: words such as "weight" and "slot"; by default all.

        Raises:
            SelectionError: a pattern selects nothing, or there is no such kind.

        >>> with ckpttool.open_checkpoint("tf_ckpts") as ckpt:
        ...     [tensor.name for tensor in ckpt.select("net", kinds="weight")]
        ['net/l1/bias', 'net/l1/kernel']
        """
        selector = Selector.from_patterns(patterns, exclude=exclude, kinds=kinds)
        kinds_of = self.kinds
        rows = [_Name(key, self.object_path(key), kinds_of[key]) for key in self]
        if not selector.selects_all:
            rows = list(selector.choose([Listed(rows, self)]).chosen)
        return [Tensor(self, row.key) for row in rows]

    def __repr__(self) -> str:
        source = Source.of(self)
        tensors = humanize.stored(len(self), graph=source.style == "object")
        about = f"{source.generation}, {source.style}-based, {tensors}"
        return (
            f"<Checkpoint {printable(self.prefix)!r}: {about}, {humanize.size(source.data_bytes)}>"
        )


def open_checkpoint(path: StrPath) -> OpenCheckpoint:
    """Open a checkpoint for reading.

    Args:
        path: anything that names one: its prefix, one of its files, its folder, the folder's state
            file, a SavedModel.

    Raises:
        MissingFileError: there is no such checkpoint.
        CorruptError: its index is damaged.
        UnsupportedError: its form or version is unknown.
        TypeError: the path is bytes.

    >>> with ckpttool.open_checkpoint("tf_ckpts") as ckpt:
    ...     ckpt["net/l1/kernel"].shape, ckpt.entries["net/l1/kernel"].dtype.name, ckpt.step
    ((1, 5), 'float32', 10)
    """
    return OpenCheckpoint(locate(path))
