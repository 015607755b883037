"""Values that a plan computes, in place of bytes of its source.

A value is bytes on demand: dtype and shape are known when it is planned, and nothing is read before
it is written. `surgery.writing` stores it, with a fresh checksum, in a data shard of its own or
among rewritten ones. A partitioned tensor that gets a value becomes a whole one, which TensorFlow
restores into a partitioned variable as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from ckpttool.errors import CkptError
from ckpttool.storage.work import Progress
from ckpttool.tensor.dtypes import INT64, DType
from ckpttool.tensor.shape import Shape, element_count

if TYPE_CHECKING:
    from ckpttool.checkpoint.open import Checkpoint
    from ckpttool.surgery.plan import PlannedTensor

# What made a value: given by the user; another dtype; a tensor of another checkpoint; the mean of
# several; another order of the elements.
ValueAction: TypeAlias = Literal["set", "cast", "graft", "average", "layout"]


class ValueSource(NamedTuple):
    """A tensor that a value is computed from: an open checkpoint, and a key in it."""

    checkpoint: Checkpoint
    key: str


class NewValue(Protocol):
    """The value of a tensor, computed when it is written.

    Compare values by identity: some hold open checkpoints.
    """

    @property
    def action(self) -> ValueAction:
        """What made it."""

    @property
    def dtype(self) -> DType:
        """Of its elements."""

    @property
    def shape(self) -> Shape:
        """Of the whole tensor."""

    @property
    def sources(self) -> tuple[ValueSource, ...]:
        """The tensors that it is computed from; their checkpoints stay open until it is written."""

    def chunks(self) -> Iterator[memoryview | bytes]:
        """Yield the bytes as a little-endian bundle stores them, in pieces of whole elements.

        Each piece is valid until the next is asked for. Every stored byte that is read was checked
        against its crc32c when the last piece has been yielded.

        Raises:
            CkptError: a source is damaged or cannot be read, or there is no such value.
        """


def value_size(value: NewValue) -> int | None:
    """Return how many bytes a value takes; None for strings and variants."""
    size = value.dtype.size
    return None if size is None else size * element_count(value.shape)


@dataclass(frozen=True, slots=True)
class BytesValue:
    """A value in memory.

    Attributes:
        dtype: of the elements.
        shape: of the tensor.
        data: as a little-endian bundle stores them.
    """

    dtype: DType
    shape: Shape
    data: bytes

    action: ValueAction = "set"
    sources: tuple[ValueSource, ...] = ()

    def chunks(self) -> Iterator[memoryview | bytes]:
        """Yield the bytes."""
        yield self.data


def int64_value(number: int) -> BytesValue:
    """Return an int64 scalar."""
    return BytesValue(INT64, (), number.to_bytes(8, "little", signed=True))


@dataclass(frozen=True, slots=True, eq=False)
class StoredValue:
    """The value that a tensor has in a checkpoint, the slices of a partitioned one joined.

    Attributes:
        checkpoint: the open checkpoint.
        tensor: the tensor, as a plan of that checkpoint has it.
        action: what made it, where it takes another's place.
    """

    checkpoint: Checkpoint
    tensor: PlannedTensor
    action: ValueAction = "graft"

    @property
    def dtype(self) -> DType:
        """Of its elements."""
        return self.tensor.entry.dtype

    @property
    def shape(self) -> Shape:
        """Of the whole tensor."""
        return self.tensor.entry.shape

    @property
    def sources(self) -> tuple[ValueSource, ...]:
        """The tensor itself."""
        return (ValueSource(self.checkpoint, self.tensor.source_key),)

    def chunks(self) -> Iterator[memoryview | bytes]:
        """Yield the stored bytes, checked; those of a large tensor in bounded memory.

        Raises:
            CkptError: they are damaged or cannot be read.
        """
        from ckpttool.surgery.writing.recoding.payloads import payloads  # it needs NumPy

        for payload in payloads(self.checkpoint, self.tensor, join=True):
            yield from payload.chunks


def compute_values(
    values: Iterable[tuple[str, NewValue]], on_progress: Progress | None = None
) -> None:
    """Compute new values and forget them: to know beforehand that each can be computed.

    Args:
        values: the values by key.
        on_progress: called with the bytes computed and their total.

    Raises:
        CkptError: one cannot be.
    """
    every = list(values)
    done, total = 0, sum(value_size(value) or 0 for _, value in every)
    for key, value in every:
        try:
            for chunk in value.chunks():
                done += len(chunk)
                if on_progress is not None:
                    on_progress(done, max(done, total))
        except CkptError as error:
            error.locate(key=key)
            raise


def value_of(source: Checkpoint, tensor: PlannedTensor) -> NewValue:
    """Return what will be written for a tensor of a plan: its value, or that of the source."""
    return StoredValue(source, tensor) if tensor.value is None else tensor.value
