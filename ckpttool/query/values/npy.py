"""Tensors as `.npy` files, the same that `numpy.save` makes of them.

    93 "NUMPY"  version  header length  header: dtype, order, shape  |  elements in C order

NumPy's format names only NumPy's own dtypes; what `numpy.save` makes of some others cannot be
loaded again. Those of ml_dtypes (bfloat16, float8, int4 and such) are stored under a void dtype of
their size: `numpy.load(path).view(ml_dtypes.bfloat16)` is what was stored, bit by bit. A void can,
unlike an integer of that size, not be taken for numbers by mistake. Strings become bytes of one
width, filled up with NULs.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import DestinationError, UnsupportedError
from ckpttool.query.values.parts import ML_DTYPES, Part
from ckpttool.query.values.targets import Target
from ckpttool.storage.staging import StagedFiles
from ckpttool.tensor.dtypes import STRING
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.values import Array, encode_array

# Strings may take this many bytes once they are all as wide as the widest, or this many times what
# they take now.
_MOST_PADDED = 1 << 30
_MOST_PADDING = 16


@dataclass(frozen=True, slots=True)
class NpyFile:
    """A file that has been written.

    Attributes:
        path: where it is.
        key: the tensor it was made from.
        dtype: name of the tensor's dtype.
        shape: of the array.
        bytes: size of the file.
        view: the dtype of ml_dtypes that the array must be viewed as; None if NumPy knows it.
        verified: whether the elements were checked against their crc32c.
    """

    path: str
    key: str
    dtype: str
    shape: Shape
    bytes: int
    view: str | None
    verified: bool


def write_npy(ckpt: Checkpoint, target: Target, path: str, *, force: bool = False) -> NpyFile:
    """Write a tensor, or a part of one, as a `.npy` file, in bounded memory.

    The file appears when it is complete; a tensor that turns out to be damaged leaves none.

    Args:
        ckpt: the checkpoint.
        target: what to write.
        path: where to; the folder must exist. Nothing is appended to the name.
        force: replace a file that exists.

    Raises:
        DestinationError: the file exists, or is one of the checkpoint's own.
        UnsupportedError: NumPy's format has nothing for the tensor: it is a variant, or strings
            that end in NUL or differ too much in length.
        CorruptError: stored bytes are damaged.
    """
    _check_destination(ckpt, path, force=force)
    part = Part(ckpt, target.key, target.index)
    view = None
    if part.dtype == STRING:
        array = _padded(part)
        numpy_dtype, blocks = array.dtype, iter([array])
    elif part.dtype.size is None:
        raise UnsupportedError(
            f"a tensor of dtype {part.dtype} has no place in a .npy file",
            path=ckpt.prefix,
            key=part.key,
        )
    else:
        numpy_dtype, blocks = part.dtype.numpy_dtype, part.blocks()
        if part.dtype.name in ML_DTYPES:
            numpy_dtype, view = np.dtype(f"V{part.dtype.size}"), part.dtype.name
    with StagedFiles() as files:
        staged = files.create(path)
        staged.write(_header(numpy_dtype, part.shape))
        for data in _data(part, blocks):
            staged.write(data)
        size = staged.size
        files.commit(replace_last=force)
    return NpyFile(
        path=path,
        key=part.key,
        dtype=part.dtype.name,
        shape=part.shape,
        bytes=size,
        view=view,
        verified=part.verified,
    )


def _data(part: Part, blocks: Iterator[Array]) -> Iterator[memoryview]:
    for block in blocks:
        if part.dtype == STRING:
            yield memoryview(block.tobytes())
        else:
            yield encode_array(part.dtype, block)[0]


def _header(dtype: np.dtype[Any], shape: Shape) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out,
        {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape},
    )
    return out.getvalue()


def _padded(part: Part) -> Array:
    """Return strings as an array of bytes of one width."""
    array = part.read()
    elements: list[bytes] = array.reshape(-1).tolist()
    for at, element in enumerate(elements):
        if element.endswith(b"\0"):
            raise UnsupportedError(
                f"string {at} ends in NUL, which NumPy's bytes cannot hold",
                path=part.ckpt.prefix,
                key=part.key,
            )
    width = max(map(len, elements), default=1) or 1
    padded = width * len(elements)
    if padded > max(_MOST_PADDED, _MOST_PADDING * sum(map(len, elements))):
        raise UnsupportedError(
            f"{len(elements)} strings would take {padded} bytes at the width of the longest",
            path=part.ckpt.prefix,
            key=part.key,
        )
    out: Array = np.array(elements, f"S{width}").reshape(array.shape)
    return out


def _check_destination(ckpt: Checkpoint, path: str, *, force: bool) -> None:
    location = ckpt.location
    own = [ckpt.reader.path, *(file.path for file in ckpt.reader.shard_files())]
    own += filter(None, (location.meta_path, location.state_path))
    for file in own:
        with suppress(OSError):
            if os.path.samefile(file, path):
                raise DestinationError("it is a file of the checkpoint itself", path=path)
    if os.path.lexists(path) and not force:
        raise DestinationError("already exists; use --force to replace it", path=path)
    if os.path.isdir(path):
        raise DestinationError("it is a folder", path=path)
