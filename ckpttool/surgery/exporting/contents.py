"""The bytes of tensors as other formats have them: little-endian, whole, every byte checked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import UnsupportedError
from ckpttool.interchange.outgoing import Outgoing
from ckpttool.surgery.plan import PlannedTensor
from ckpttool.surgery.values import value_of
from ckpttool.tensor.dtypes import STRING
from ckpttool.tensor.shape import element_count
from ckpttool.tensor.strings import decode_strings

# Only these stand for false and true outside of TensorFlow, which takes any other byte for true.
_TRUTH = b"\0\1"
_AS_TRUTH = bytes([0]) + bytes([1]) * 255
# Strings may take this many bytes once they are all as wide as the widest, or this many times what
# they take now.
_MOST_PADDED = 1 << 30
_MOST_PADDING = 16


def outgoing(source: Checkpoint, tensor: PlannedTensor, name: str, *, strings: bool) -> Outgoing:
    """Return a tensor of a plan for a file of another format.

    Args:
        source: the checkpoint of the plan.
        tensor: the tensor.
        name: in the file.
        strings: whether strings become bytes of one width.

    Raises:
        UnsupportedError: strings cannot have one width.
        CkptError: strings are damaged.
    """
    dtype, shape = tensor.dtype, tensor.shape
    if dtype == STRING and strings:
        elements = _elements(source, tensor)
        width = _width(source, tensor, elements)
        padded = partial(_padded, elements, width)
        return Outgoing(name, dtype, shape, padded, width)
    return Outgoing(name, dtype, shape, partial(_chunks, source, tensor))


def _chunks(source: Checkpoint, tensor: PlannedTensor) -> Iterator[bytes | memoryview]:
    truth = tensor.dtype.name == "bool"
    for chunk in value_of(source, tensor).chunks():
        if truth and bytes(chunk).translate(None, _TRUTH):
            yield bytes(chunk).translate(_AS_TRUTH)
        else:
            yield chunk


def _elements(source: Checkpoint, tensor: PlannedTensor) -> list[bytes]:
    data = b"".join(value_of(source, tensor).chunks())
    count = element_count(tensor.shape)
    return list(decode_strings(memoryview(data), count)[0]) if count else []


def _width(source: Checkpoint, tensor: PlannedTensor, elements: list[bytes]) -> int:
    """Return the width of the longest string, at least 1.

    Raises:
        UnsupportedError: a string ends in NUL, which would be lost, or they differ too much.
    """
    problem = None
    for at, element in enumerate(elements):
        if element.endswith(b"\0"):
            problem = f"string {at} ends in NUL, which NumPy's bytes cannot hold"
            break
    width = max(map(len, elements), default=1) or 1
    padded = width * len(elements)
    if padded > max(_MOST_PADDED, _MOST_PADDING * sum(map(len, elements))):
        problem = f"{len(elements)} strings would take {padded} bytes at the width of the longest"
    if problem is not None:
        raise UnsupportedError(problem, path=source.prefix, key=tensor.source_key)
    return width


def _padded(elements: list[bytes], width: int) -> Iterator[bytes]:
    for element in elements:
        yield element.ljust(width, b"\0")
