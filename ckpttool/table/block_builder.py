"""Building one block; `block` draws its bytes."""

from __future__ import annotations

import struct

from ckpttool.coding.varint import encode_varint


class BlockBuilder:
    """Collects entries in key order and returns the block's bytes.

    Args:
        restart_interval: entries between two keys that are spelled in full.
    """

    def __init__(self, restart_interval: int) -> None:
        self._interval = restart_interval
        self.clear()

    def clear(self) -> None:
        """Forget all entries."""
        self._buffer = bytearray()
        self._restarts = [0]
        self._since_restart = 0
        self._last_key = b""

    @property
    def empty(self) -> bool:
        """Whether no entry has been added."""
        return not self._buffer

    @property
    def size(self) -> int:
        """Bytes that the block would have now."""
        return len(self._buffer) + 4 * len(self._restarts) + 4

    def add(self, key: bytes, value: bytes) -> None:
        """Append an entry whose key is above all keys so far."""
        shared = 0
        if self._since_restart < self._interval:
            shared = _common_length(self._last_key, key)
        else:
            self._restarts.append(len(self._buffer))
            self._since_restart = 0
        self._since_restart += 1
        self._last_key = key
        self._buffer += encode_varint(shared)
        self._buffer += encode_varint(len(key) - shared)
        self._buffer += encode_varint(len(value))
        self._buffer += key[shared:]
        self._buffer += value

    def finish(self) -> bytes:
        """Return the block."""
        count = len(self._restarts)
        return bytes(self._buffer) + struct.pack(f"<{count}II", *self._restarts, count)


def _common_length(first: bytes, second: bytes) -> int:
    """Return how many bytes two keys have in common at their start."""
    size = min(len(first), len(second))
    # Compare as numbers: the highest differing bit tells where. Faster than a loop over bytes.
    differing = int.from_bytes(first[:size], "big") ^ int.from_bytes(second[:size], "big")
    return size - (differing.bit_length() + 7) // 8
