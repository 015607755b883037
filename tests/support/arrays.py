"""Files of safetensors and arrays of NumPy, made byte by byte."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple


def safetensors_bytes(header: object, data: bytes = b"", *, pad: bytes = b"") -> bytes:
    """Return a file with this header: text as it is, anything else as JSON."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    raw += pad
    return len(raw).to_bytes(8, "little") + raw + data


def info(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
    """Return the description of a tensor."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def npy_bytes(header: str, data: bytes = b"", *, version: int = 1) -> bytes:
    """Return an array with this header as text."""
    raw = header.encode()
    length = len(raw).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + raw + data


def described(descr: str, shape: str, *, fortran: bool = False) -> str:
    """Return the header of an array as NumPy writes it."""
    return f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


class Member(NamedTuple):
    """A member of an archive, and what its headers say of it; None for the truth."""

    name: bytes
    data: bytes
    method: int = 0
    size: int | None = None
    crc: int | None = None
    flags: int = 0
    offset: int | None = None
    local_method: int | None = None


def zip_bytes(members: Sequence[Member], *, count: int | None = None) -> bytes:
    """Return an archive, made by hand so that it may be wrong."""
    out, directory = b"", b""
    for name, data, method, size, crc, flags, offset, local in members:
        stored = data
        if method == 8:
            packer = zlib.compressobj(9, zlib.DEFLATED, -15)
            stored = packer.compress(data) + packer.flush()
        at = len(out) if offset is None else offset
        crc = zlib.crc32(data) if crc is None else crc
        size = len(data) if size is None else size
        sizes = struct.pack("<3L2H", crc, len(stored), size, len(name), 0)
        told = method if local is None else local
        out += struct.pack("<4s5H", b"PK\3\4", 20, flags, told, 0, 0) + sizes + name + stored
        directory += struct.pack("<4s6H", b"PK\1\2", 20, 20, flags, method, 0, 0) + sizes
        directory += struct.pack("<3H2L", 0, 0, 0, 0, at) + name
    number = len(members) if count is None else count
    end = (b"PK\5\6", 0, 0, number, number, len(directory), len(out), 0)
    return out + directory + struct.pack("<4s4H2LH", *end)
