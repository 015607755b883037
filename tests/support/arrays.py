"""Files of safetensors, made byte by byte."""

from __future__ import annotations

import json


def safetensors_bytes(header: object, data: bytes = b"", *, pad: bytes = b"") -> bytes:
    """Return a file with this header: text as it is, anything else as JSON."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    raw += pad
    return len(raw).to_bytes(8, "little") + raw + data


def info(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
    """Return the description of a tensor."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
