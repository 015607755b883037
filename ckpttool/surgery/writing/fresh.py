"""New values of a plan, written to a data shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpttool.bundle.entry import BundleEntry
from ckpttool.coding.checksum import mask
from ckpttool.errors import CkptError, UnsupportedError
from ckpttool.storage.staged_file import StagedFile
from ckpttool.surgery.values import NewValue, value_size
from ckpttool.surgery.writing.bundle.carry import OnBytes
from ckpttool.tensor.dtypes import STRING
from ckpttool.tensor.shape import element_count
from ckpttool.tensor.verifier import make_verifier


def known_size(values: Iterable[tuple[str, NewValue]]) -> int:
    """Return how many bytes new values take, as far as known before they are computed."""
    return sum(value_size(value) or 0 for _, value in values)


def write_values(
    values: Iterable[tuple[str, NewValue]],
    file: StagedFile,
    shard_id: int,
    *,
    big_endian: bool,
    on_bytes: OnBytes,
) -> dict[str, BundleEntry]:
    """Append new values to a data shard; return the entries by key.

    Args:
        values: the values by key.
        file: the data shard.
        shard_id: its number.
        big_endian: byte order of the bundle.
        on_bytes: called with the bytes written since the last call.

    Raises:
        CkptError: a value cannot be computed; what was staged is of no use then.
    """
    return {
        key: write_value(key, value, file, shard_id, big_endian=big_endian, on_bytes=on_bytes)
        for key, value in values
    }


def write_value(
    key: str,
    value: NewValue,
    file: StagedFile,
    shard_id: int,
    *,
    big_endian: bool,
    on_bytes: OnBytes,
) -> BundleEntry:
    """Append a new value to a data shard; arguments as of `write_values`."""
    offset = file.size
    try:
        count = element_count(value.shape)
        verifier = make_verifier(value.dtype, count, big_endian=big_endian)
        for chunk in _big_endian(value) if big_endian else value.chunks():
            verifier.feed(chunk)
            file.write(chunk)
            on_bytes(len(chunk))
        crc = verifier.finish()
    except CkptError as error:
        error.locate(key=key)
        raise
    size = file.size - offset
    return BundleEntry(value.dtype, value.shape, shard_id, offset, size, mask(crc))


def _big_endian(value: NewValue) -> Iterator[memoryview | bytes]:
    """Yield the bytes of a value as a big-endian bundle stores them."""
    if value.dtype == STRING:
        from ckpttool.tensor.strings import decode_strings, encode_strings

        elements, _ = decode_strings(
            memoryview(b"".join(value.chunks())), element_count(value.shape)
        )
        yield encode_strings(list(elements), big_endian=True)[0]
    elif value.dtype.size is None:
        raise UnsupportedError(f"a value of dtype {value.dtype} in a big-endian checkpoint")
    elif value.dtype.size == 1:
        yield from value.chunks()
    else:
        from ckpttool.tensor.values import swapped_bytes  # it needs NumPy

        for chunk in value.chunks():
            yield swapped_bytes(value.dtype, chunk)
