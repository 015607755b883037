"""The JSON Schemas that come with the package."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from ckpttool import schemas


def load_schema(name: str) -> dict[str, Any]:
    """Return a schema by the name that the output carries, such as "ckpt.ls/1"."""
    path = Path(schemas.__path__[0], f"{name.replace('/', '.')}.json")
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def validate(document: Any, name: str, part: str | None = None) -> None:
    """Hold a document to the schema of this name, or to a definition that is a part of it."""
    _validator(name, part).validate(document)


@cache
def _validator(name: str, part: str | None) -> Any:
    """Return what validates; to check a schema itself takes longer than most documents do."""
    schema = load_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    if part is not None:
        schema = {"$ref": f"#/$defs/{part}", "$defs": schema["$defs"]}
    return jsonschema.Draft202012Validator(schema)
