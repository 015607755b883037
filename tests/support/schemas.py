"""The JSON Schemas that come with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ckpttool import schemas


def load_schema(name: str) -> dict[str, Any]:
    """Return a schema by the name that the output carries, such as "ckpt.ls/1"."""
    path = Path(schemas.__path__[0], f"{name.replace('/', '.')}.json")
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema
