"""What an element of a variant tensor is: the types that TensorFlow itself stores, taken apart.

    tensorflow::TensorList              metadata: varints: how many elements are unset, their
                                        indices, the dtype, the most elements (-1 for no limit);
                                        then a TensorShapeProto. tensors: the elements that are set
    tensorflow::data::Optional          metadata: one byte, whether it has a value. tensors: that
    tensorflow::Iterator                metadata: prefix@@key@@key. tensors: a value for each key,
                                        or one variant with them all
    tensorflow.data.CompressedElement   metadata: a CompressedElement message with Snappy data

Of any other type the name, the size of its metadata and its tensors are told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ckpttool.coding.text import decode_text
from ckpttool.coding.varint import decode_varint
from ckpttool.coding.wire import signed64
from ckpttool.errors import CorruptError
from ckpttool.query.values.texts import Formatter, nested
from ckpttool.tensor.dtypes import STRING, VARIANT, DType, dtype_of_name, dtype_of_number
from ckpttool.tensor.shape import element_count
from ckpttool.tensor.values import Array, object_array
from ckpttool.tensor.variants import VariantElement

if TYPE_CHECKING:
    from ckpttool.pb import TensorProto, TensorShapeProto, VariantTensorDataProto

# A dimension that is not known is None; so is a shape of unknown rank.
PartialShape = tuple[int | None, ...] | None

# Inner tensors of more elements are described without their values.
_MAX_VALUES = 64
_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int32": "int_val",
    "int16": "int_val",
    "int8": "int_val",
    "uint8": "int_val",
    "uint16": "int_val",
    "int64": "int64_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "bool": "bool_val",
    "string": "string_val",
    # As the 16 bits that they are.
    "float16": "half_val",
    "bfloat16": "half_val",
}


@dataclass(frozen=True, slots=True, eq=False)
class InnerTensor:
    """A tensor inside of a variant.

    Attributes:
        name: what its owner calls it, such as the key of an iterator's state; empty if nothing.
        dtype: name of the dtype.
        shape: its shape.
        values: its elements, where they are few and lie open.
        variants: its elements, if it is a variant tensor.
    """

    name: str
    dtype: str
    shape: PartialShape
    values: Array | None = None
    variants: tuple[VariantDetail, ...] = ()

    def texts(self) -> Iterator[str]:
        """Yield the elements as texts that line up, where there are values."""
        array = self.values
        if array is not None:
            yield from Formatter(dtype_of_name(self.dtype), lambda: [array]).texts(array)

    def nested(self) -> object:
        """Return the elements as nested lists; None where there are no values."""
        return None if self.values is None else nested(self.values)


@dataclass(frozen=True, slots=True, eq=False)
class VariantDetail:
    """An element of a variant tensor.

    Attributes:
        type_name: the name under which TensorFlow knows its type.
        facts: what its metadata say: names and values.
        tensors: what it holds.
        metadata: the bytes that say the rest, where they are not understood.
    """

    type_name: str
    facts: tuple[tuple[str, object], ...]
    tensors: tuple[InnerTensor, ...]
    metadata: bytes = b""


def describe_variant(element: VariantElement) -> VariantDetail:
    """Take an element of a variant tensor apart.

    Raises:
        CorruptError: its bytes are not a message of a variant.
    """
    return _describe(element.message)


def _describe(message: VariantTensorDataProto) -> VariantDetail:
    tensors = tuple(map(_inner_tensor, message.tensors))
    known = _KNOWN.get(message.type_name)
    detail = known(message.metadata, tensors) if known is not None else None
    if detail is None:
        return VariantDetail(message.type_name, (), tensors, message.metadata)
    return replace(detail, type_name=message.type_name)


def _tensor_list(metadata: bytes, tensors: tuple[InnerTensor, ...]) -> VariantDetail | None:
    from ckpttool.pb import TensorShapeProto
    from ckpttool.pb.convert import parse

    end = len(metadata)
    try:
        unset_count, pos = decode_varint(metadata, 0, end)
        unset = []
        for _ in range(min(unset_count, end)):
            index, pos = decode_varint(metadata, pos, end)
            unset.append(index)
        dtype, pos = decode_varint(metadata, pos, end)
        most, pos = decode_varint(metadata, pos, end)
        shape = parse(TensorShapeProto, metadata[pos:], path=None)
    except CorruptError:
        return None
    facts: list[tuple[str, object]] = [
        ("elements", len(tensors) + len(unset)),
        ("dtype", dtype_of_number(dtype).name),
        ("shape", _shape(shape)),
    ]
    if unset:
        facts.append(("unset", tuple(unset)))
    if signed64(most) >= 0:
        facts.append(("most", most))
    # Elements keep their places between those that are unset.
    absent = set(unset)
    places = (at for at in range(len(tensors) + len(absent)) if at not in absent)
    named = (replace(inner, name=str(at)) for inner, at in zip(tensors, places, strict=False))
    return VariantDetail("", tuple(facts), tuple(named))


def _optional(metadata: bytes, tensors: tuple[InnerTensor, ...]) -> VariantDetail | None:
    if metadata not in (b"\0", b"\1"):
        return None
    return VariantDetail("", (("value", metadata == b"\1"),), tensors)


def _iterator(metadata: bytes, tensors: tuple[InnerTensor, ...]) -> VariantDetail | None:
    prefix, *keys = decode_text(metadata).split("@@")
    facts = (("of", prefix),) if prefix else ()
    if len(keys) == len(tensors) and not (len(tensors) == 1 and tensors[0].variants):
        return VariantDetail("", facts, _name(tensors, keys))
    if len(tensors) == 1 and len(tensors[0].variants) == 1:
        (packed,) = tensors[0].variants
        if len(packed.tensors) == len(keys):
            packed = replace(packed, tensors=_name(packed.tensors, keys))
            return VariantDetail("", facts, (replace(tensors[0], variants=(packed,)),))
    return VariantDetail("", (*facts, ("keys", tuple(keys))), tensors)


def _compressed(metadata: bytes, tensors: tuple[InnerTensor, ...]) -> VariantDetail | None:
    from ckpttool.pb import CompressedElement
    from ckpttool.pb.convert import parse

    if tensors:
        return None
    try:
        message = parse(CompressedElement, metadata, path=None)
    except CorruptError:
        return None
    parts = message.component_metadata
    facts = (
        ("compressed_bytes", len(message.data)),
        ("bytes", sum(sum(part.uncompressed_bytes) for part in parts)),
        ("version", message.version),
    )
    inner = (
        InnerTensor("", dtype_of_number(part.dtype).name, _shape(part.tensor_shape))
        for part in parts
    )
    return VariantDetail("", facts, tuple(inner))


_KNOWN = {
    "tensorflow::TensorList": _tensor_list,
    "tensorflow::data::Optional": _optional,
    "tensorflow::Iterator": _iterator,
    "tensorflow.data.CompressedElement": _compressed,
}


def _name(tensors: Sequence[InnerTensor], names: Sequence[str]) -> tuple[InnerTensor, ...]:
    return tuple(replace(one, name=name) for one, name in zip(tensors, names, strict=True))


def _inner_tensor(message: TensorProto) -> InnerTensor:
    dtype = dtype_of_number(message.dtype)
    shape = _shape(message.tensor_shape)
    variants: tuple[VariantDetail, ...] = ()
    if dtype == VARIANT:
        variants = tuple(map(_describe, message.variant_val))
    return InnerTensor("", dtype.name, shape, _values(message, dtype, shape), variants)


def _shape(message: TensorShapeProto) -> PartialShape:
    if message.unknown_rank:
        return None
    return tuple(dim.size if dim.size >= 0 else None for dim in message.dim)


def _values(message: TensorProto, dtype: DType, shape: PartialShape) -> Array | None:
    """Return the elements of a message; None if they are many, or not stored as they should be."""
    if shape is None or any(dim is None for dim in shape):
        return None
    full = tuple(dim for dim in shape if dim is not None)
    count = element_count(full)
    if count > _MAX_VALUES or len(full) > 8:
        return None
    if message.tensor_content and dtype.size is not None:
        if len(message.tensor_content) != count * dtype.size:
            return None
        return np.frombuffer(message.tensor_content, dtype.numpy_dtype).reshape(full)
    field = _FIELDS.get(dtype.name)
    if field is None:
        return None
    stored: list[Any] = list(getattr(message, field)[:count])
    if not stored and count:
        return None
    # The last value stands for all that follow it.
    stored += stored[-1:] * (count - len(stored))
    if dtype == STRING:
        return object_array(stored, full)
    if field == "half_val":
        bits = np.array(stored, np.int64)
        if count and (bits.min() < 0 or bits.max() >= 1 << 16):
            return None
        return bits.astype(np.uint16).view(dtype.numpy_dtype).reshape(full)
    given = np.array(stored)
    found = given.astype(dtype.numpy_dtype)
    if found.dtype.kind in "iu" and not np.array_equal(found, given):
        return None  # a number that the dtype does not hold
    return found.reshape(full)
