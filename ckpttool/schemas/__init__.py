"""The JSON Schemas of what the commands print as JSON.

One file for each, named like the `schema` member of the output: `ckpt.ls/1` is `ckpt.ls.1.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


def load_schema(name: str) -> dict[str, Any]:
    """Return a schema by the name that the output carries, such as "ckpt.ls/1".

    Raises:
        KeyError: there is none of that name.
    """
    path = _FOLDER / f"{name.replace('/', '.')}.json"
    if not path.is_file():
        raise KeyError(name)
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema
