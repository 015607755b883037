"""Tensors as `.npy` files.

    93 "NUMPY"  version  length of the header  header: dtype, order, shape  |  elements in C order

The header is written here and not by NumPy: this part of the package does not need NumPy, and the
bytes do not depend on its version.
"""

from __future__ import annotations

from ckpttool.interchange.outgoing import Outgoing, Write
from ckpttool.storage.source import RandomAccessFile
from ckpttool.tensor.dtypes import STRING
from ckpttool.tensor.shape import Shape

_MAGIC = b"\x93NUMPY"
_ALIGNMENT = 64
# Room that `numpy.save` leaves for a first dimension that grows.
_DIGITS = 21
_MAX_SHORT = 0xFFFF - _ALIGNMENT
_NATIVE = {
    "bool": "|b1",
    "int8": "|i1",
    "uint8": "|u1",
    "int16": "<i2",
    "uint16": "<u2",
    "int32": "<i4",
    "uint32": "<u4",
    "int64": "<i8",
    "uint64": "<u8",
    "float16": "<f2",
    "float32": "<f4",
    "float64": "<f8",
    "complex64": "<c8",
    "complex128": "<c16",
}


def npy_type(tensor: Outgoing) -> str | None:
    """Return the dtype of a tensor as a header spells it; None if NumPy has no name for it.

    Quantised numbers are structures of one field, as TensorFlow has them in NumPy.
    """
    name = tensor.dtype.name
    if tensor.dtype == STRING:
        return None if tensor.width is None else f"'|S{tensor.width}'"
    if name.startswith(("qint", "quint")):
        return f"[('{name}', '{_NATIVE[name[1:]]}')]"
    return f"'{_NATIVE[name]}'" if name in _NATIVE else None


def npy_obstacle(tensor: Outgoing) -> str | None:
    """Return why NumPy's format cannot hold a tensor; None if it can."""
    if npy_type(tensor) is not None:
        return None
    return f"NumPy has no name for the dtype {tensor.dtype}"


def npy_header(spelled: str, shape: Shape) -> bytes:
    """Return the bytes before the elements, as `numpy.save` writes them.

    Args:
        spelled: the dtype, from `npy_type`.
        shape: of the array.
    """
    text = f"{{'descr': {spelled}, 'fortran_order': False, 'shape': {shape}, }}"
    if shape:
        text += " " * (_DIGITS - len(str(shape[0])))
    version, width = (1, 2) if len(text) < _MAX_SHORT else (2, 4)
    start = len(_MAGIC) + 2 + width
    text += " " * (-(start + len(text) + 1) % _ALIGNMENT) + "\n"
    return b"".join(
        (_MAGIC, bytes((version, 0)), len(text).to_bytes(width, "little"), text.encode("latin-1"))
    )


def write_npy_file(tensor: Outgoing, write: Write) -> None:
    """Write a tensor as a `.npy` file.

    Args:
        tensor: one without an `npy_obstacle`.
        write: where to.
    """
    write(_header_of(tensor))
    for chunk in tensor.chunks():
        write(chunk)


def npy_reads_back(path: str, tensor: Outgoing) -> bool:
    """Tell whether a file begins with the header of a tensor, and is as long as it has to be.

    Raises:
        CkptError: it cannot be read.
    """
    header = _header_of(tensor)
    with RandomAccessFile(path) as file:
        if file.size != len(header) + tensor.size:
            return False
        return file.read_at(0, len(header)) == header


def npy_size(tensor: Outgoing) -> int:
    """Return the size of the `.npy` file of a tensor."""
    return len(_header_of(tensor)) + tensor.size


def _header_of(tensor: Outgoing) -> bytes:
    spelled = npy_type(tensor)
    if spelled is None:
        raise ValueError(f"NumPy has no name for the dtype {tensor.dtype}")
    return npy_header(spelled, tensor.shape)
