"""In which line of a lock a tensor stands."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection

# A key is text, or an object that holds its bytes. What precedes is not the end of another name.
_KEY = re.compile(
    r'(?<!\\)"key"\s*:\s*'
    r'(?P<value>"[^"\\]*(?:\\.[^"\\]*)*"|\{\s*"base64"\s*:\s*"(?P<bytes>[^"\\]*)"\s*\})'
)


def find_lines(text: str, keys: Collection[str]) -> dict[str, int]:
    """Return the numbers of the lines, from 1, in which keys stand.

    Args:
        text: the lock, which has been read without complaint.
        keys: what to look for; one that is not found has no number.
    """
    found: dict[str, int] = {}
    line, counted = 1, 0
    for match in _KEY.finditer(text, max(text.find('"tensors"'), 0)):
        if len(found) == len(keys):
            break
        key = _decoded(match)
        if key is not None and key in keys and key not in found:
            line += text.count("\n", counted, match.start())
            counted = match.start()
            found[key] = line
    return found


def _decoded(match: re.Match[str]) -> str | None:
    try:
        if match["bytes"] is not None:
            return base64.b64decode(match["bytes"]).decode("utf-8", "surrogateescape")
        return str(json.loads(match["value"]))
    except ValueError:  # some other member of this name, which nobody has checked
        return None
