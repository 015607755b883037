"""The bytes of a variant tensor.

    per element:  varint(size)   VariantTensorDataProto   masked crc u32

One crc runs through the whole tensor. For each element it covers the size as a 64-bit number and
the message; its value is stored after the message, and then covers those four bytes too.

An element is a serialized message of any type: a list of tensors, an optional, the state of an
iterator. It is carried unchanged.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpttool.coding.checksum import crc32c, mask, unmask
from ckpttool.coding.varint import decode_varint, encode_varint
from ckpttool.errors import ChecksumError, TruncatedError

if TYPE_CHECKING:
    from ckpttool.pb import VariantTensorDataProto

_CRC_SIZE = 4
# An empty message still takes its size byte and its crc.
_MIN_ELEMENT = 1 + _CRC_SIZE


@dataclass(frozen=True, slots=True)
class VariantElement:
    """One element of a variant tensor.

    Attributes:
        serialized: the bytes of its VariantTensorDataProto.
    """

    serialized: bytes

    @property
    def message(self) -> VariantTensorDataProto:
        """The decoded message: `type_name`, `metadata` and the inner `tensors`.

        Raises:
            CorruptError: the bytes are not such a message.
        """
        from ckpttool import pb
        from ckpttool.pb.convert import parse

        return parse(pb.VariantTensorDataProto, self.serialized, path=None)

    @property
    def type_name(self) -> str:
        """The name under which the type's decoder is registered in TensorFlow."""
        return self.message.type_name


def decode_variants(
    data: memoryview, count: int, *, big_endian: bool = False
) -> tuple[list[VariantElement], int]:
    """Decode the elements of a variant tensor.

    Args:
        data: the tensor's bytes.
        count: number of elements.
        big_endian: byte order of the writer.

    Returns:
        The elements, and the crc32c that the tensor's entry should have, unmasked.

    Raises:
        CorruptError: sizes and bytes disagree, or an element is damaged.
    """
    order = ">" if big_endian else "<"
    if count * _MIN_ELEMENT > len(data):
        raise TruncatedError(f"{len(data)} bytes are too few for {count} variants")
    elements = []
    pos, end = 0, len(data)
    crc = 0
    for at in range(count):
        start = pos
        size, pos = decode_varint(data, pos, end)
        stop = pos + size
        if stop + _CRC_SIZE > end:
            raise TruncatedError(f"variant element {at} runs past the tensor", offset=start)
        serialized = bytes(data[pos:stop])
        crc = crc32c(serialized, crc32c(struct.pack(f"{order}Q", size), crc))
        pos = stop + _CRC_SIZE
        stored = unmask(struct.unpack_from(f"{order}I", data, stop)[0])
        if stored != crc:
            raise ChecksumError(
                f"variant element {at} is damaged", stored=stored, computed=crc, offset=start
            )
        crc = crc32c(data[stop:pos], crc)
        elements.append(VariantElement(serialized))
    if pos != end:
        raise TruncatedError(f"{end - pos} bytes follow the last variant element", offset=pos)
    return elements, crc


def encode_variants(elements: Sequence[VariantElement]) -> tuple[bytes, int]:
    """Encode elements; return the tensor's bytes and its crc32c, unmasked."""
    out: list[bytes] = []
    crc = 0
    for element in elements:
        size = len(element.serialized)
        crc = crc32c(element.serialized, crc32c(struct.pack("<Q", size), crc))
        stored = struct.pack("<I", mask(crc))
        crc = crc32c(stored, crc)
        out += (encode_varint(size), element.serialized, stored)
    return b"".join(out), crc
