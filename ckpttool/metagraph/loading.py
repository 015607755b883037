"""Changes to MetaGraphs of old writers that the loaders of TensorFlow 2 need.

    tensorflow_version   "0.12.head" is not a version for them; it becomes "0.12+head"
    Placeholder          before version 22 of the format the shape of a scalar meant any shape; the
                         loader ignores the version of a graph and takes it for a scalar

Neither changes what a graph computes, nor how older releases read it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ckpttool.errors import CorruptError
from ckpttool.metagraph.file import read_graph_file
from ckpttool.metagraph.saver import update_saver

if TYPE_CHECKING:
    from ckpttool import pb

# From this version of the format on, a placeholder with the shape of a scalar is a scalar.
SCALAR_PLACEHOLDERS = 22
# The loaders compare versions by the rules of Python packages (PEP 440).
_VERSION = re.compile(
    r"""\s*v?
    (?:[0-9]+!)?
    [0-9]+(?:\.[0-9]+)*
    (?:[._-]?(?:alpha|a|beta|b|preview|pre|c|rc)[._-]?[0-9]*)?
    (?:-[0-9]+|[._-]?(?:post|rev|r)[._-]?[0-9]*)?
    (?:[._-]?dev[._-]?[0-9]*)?
    (?:\+[a-z0-9]+(?:[._-][a-z0-9]+)*)?
    \s*\Z""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_RELEASE = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)?", re.IGNORECASE | re.ASCII)
_WORD = re.compile(r"[a-z0-9]+", re.IGNORECASE | re.ASCII)


def updated_metagraph(path: str) -> tuple[bytes, tuple[str, ...]]:
    """Read a MetaGraph and bring it up to date, for today's Savers and loaders.

    Returns:
        Its bytes, and the changes in words.

    Raises:
        CkptError: the file cannot be read, or holds no MetaGraph.
    """
    from ckpttool import pb

    metagraph = read_graph_file(path).message
    if not isinstance(metagraph, pb.MetaGraphDef):
        raise CorruptError("not a MetaGraph of one program", path=path)
    update_saver(metagraph)
    notes = make_loadable(metagraph)
    return metagraph.SerializeToString(deterministic=True), notes


def make_loadable(metagraph: pb.MetaGraphDef) -> tuple[str, ...]:
    """Change a MetaGraph, in place, so that TensorFlow 2 loads it; return notes for the user."""
    _free_placeholders(metagraph.graph_def)
    said = metagraph.meta_info_def.tensorflow_version
    version = loadable_version(said)
    if version == said:
        return ()
    metagraph.meta_info_def.tensorflow_version = version
    return (
        f"the version of its writer, '{said}', became '{version}': TensorFlow 2 loads no graph "
        "whose version it cannot read",
    )


def loadable_version(said: str) -> str:
    """Return the version of a writer in a form that today's loaders can read."""
    if not said or _VERSION.match(said):
        return said
    match = _RELEASE.match(said)
    release = match[1] if match and match[1] else "0"
    rest = ".".join(_WORD.findall(said[match.end() if match else 0 :])).lower()
    return f"{release}+{rest}" if rest else release


def _free_placeholders(graph: pb.GraphDef) -> None:
    if graph.versions.producer >= SCALAR_PLACEHOLDERS:
        return
    for node in graph.node:
        if node.op == "Placeholder" and "shape" in node.attr:
            shape = node.attr["shape"].shape
            if not shape.dim:
                shape.unknown_rank = True
