"""VersionDef: which readers may read a file, as its writer says.

    VersionDef    producer=1 int32   min_consumer=2 int32   bad_consumers=3 repeated int32

The repeated numbers may be packed or not.
"""

from __future__ import annotations

from typing import NamedTuple

from ckpttool.coding import wire
from ckpttool.coding.varint import decode_varint
from ckpttool.errors import CorruptError, UnsupportedError


class Version(NamedTuple):
    """A decoded VersionDef.

    Attributes:
        producer: version of the format that the writer had.
        min_consumer: oldest version whose readers may read it.
        bad_consumers: versions whose readers must not.
    """

    producer: int = 0
    min_consumer: int = 0
    bad_consumers: tuple[int, ...] = ()

    def check(self, known: int, what: str) -> None:
        """Check that readers of version `known` may read the file.

        Args:
            known: our version of the format.
            what: the kind of file, for messages.

        Raises:
            CorruptError: the producer's version is negative.
            UnsupportedError: such readers must not read it.
        """
        if self.producer < 0:
            raise CorruptError(f"the {what} names format version {self.producer}")
        if self.min_consumer > known:
            raise UnsupportedError(
                f"the {what} needs readers of format version {self.min_consumer}; known is {known}"
            )
        if known in self.bad_consumers:
            raise UnsupportedError(f"the {what} bars readers of format version {known}")


def decode_version(data: bytes) -> Version:
    """Decode a VersionDef; `CorruptError` if it is malformed."""
    producer = min_consumer = 0
    bad: list[int] = []
    for number, kind, value, _ in wire.decode_fields(data):
        if number in (1, 2) and isinstance(value, int):
            if number == 1:
                producer = wire.signed64(value)
            else:
                min_consumer = wire.signed64(value)
        elif number == 3 and isinstance(value, int):
            bad.append(wire.signed64(value))
        elif number == 3 and kind == wire.BYTES:
            packed, pos = bytes(value), 0
            while pos < len(packed):
                one, pos = decode_varint(packed, pos, len(packed))
                bad.append(wire.signed64(one))
    return Version(producer, min_consumer, tuple(bad))
