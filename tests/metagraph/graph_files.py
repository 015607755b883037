"""Object graphs that TensorFlow made: those in the folder graphs/ and those of the fixtures."""

from __future__ import annotations

import base64
import functools
import json
from dataclasses import dataclass
from pathlib import Path

from ckpttool.bundle.entry import BundleEntry
from ckpttool.bundle.reader import BundleReader
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.tensor.dtypes import dtype_of_name
from tests.support.fixtures import bundles

FOLDER = Path(__file__).parent / "graphs"
MADE = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
FIXTURES = tuple(one.name for one in bundles() if GRAPH_KEY in one.tensors)


@dataclass(frozen=True)
class GraphFile:
    """The index of an object-based checkpoint and its object graph, serialized."""

    entries: dict[str, BundleEntry]
    graph: bytes


@functools.cache
def load(name: str) -> GraphFile:
    """Return the graph of this name, from the folder or from a fixture."""
    if name in MADE:
        content = json.loads((FOLDER / f"{name}.json").read_text())
        entries = {
            key: BundleEntry(dtype_of_name(dtype), tuple(shape))
            for key, dtype, shape in content["tensors"]
        }
        return GraphFile(entries, base64.b64decode(content["graph"]))
    (fixture,) = (one for one in bundles() if one.name == name)
    with BundleReader(fixture.prefix) as reader:
        graph: bytes = reader.read(GRAPH_KEY).item()
        return GraphFile(dict(reader.entries), graph)
