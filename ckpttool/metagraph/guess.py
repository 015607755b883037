"""What a file looks like that should be a MetaGraph and is not."""

from __future__ import annotations

from typing import Any

from ckpttool.table.format import MAGIC

FINGERPRINT = "fingerprint.pb"
_TEXT_SAMPLE = 4096
_STARTS = (
    (b"\x89HDF\r\n\x1a\n", "HDF5, such as Keras weights"),
    (b"PK\x03\x04", "a ZIP archive, such as a .keras file"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f", "a SavedModel split into chunks (.cpb)"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x7fELF", "a program"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
)
_RIEGELI = 64  # where the first chunk of a Riegeli file begins
_STATE = (b"model_checkpoint_path:", b"all_model_checkpoint_paths:")


def is_text(data: bytes) -> bool:
    """Tell whether a file can be text, from its beginning."""
    return not any(byte < 0x20 and byte not in b"\t\n\r" for byte in data[:_TEXT_SAMPLE])


def says_something(message: Any, kind: str, name: str) -> bool:
    """Tell whether a message of this kind holds anything that only such a one would.

    Any message of a few fields of the right types can be read as one of these.

    Args:
        message: as it was read.
        kind: "MetaGraphDef", "SavedModel" or "FingerprintDef".
        name: of the file.
    """
    if kind == "FingerprintDef":
        # One hash in four thousand millions is as small as the numbers of other messages.
        hashes = [value for _, value in message.ListFields() if isinstance(value, int)]
        return name == FINGERPRINT or all(value >> 32 for value in hashes)
    if kind == "SavedModel":
        named = name.startswith("saved_model.pb")
        return named or any(_has_contents(graph) for graph in message.meta_graphs)
    return _has_contents(message)


def _has_contents(metagraph: Any) -> bool:
    for field, value in metagraph.ListFields():
        if field.name != "meta_info_def":
            if not hasattr(value, "ListFields") or value.ListFields():
                return True
            continue
        # The first field of it is any text.
        if any(inner.number != 1 for inner, _ in value.ListFields()):
            return True
    return False


def describe(data: bytes) -> str:
    """Return what a file that is no MetaGraph looks like, as the end of a sentence.

    Args:
        data: the whole file.
    """
    found = _look(data)
    return f"; it looks like {found}" if found else ""


def _look(data: bytes) -> str:
    if data.endswith(MAGIC):
        return "a table: the index of a checkpoint, or a V1 checkpoint"
    for start, what in _STARTS:
        if data.startswith(start) or data[_RIEGELI : _RIEGELI + len(start)] == start:
            return what
    if data and not data.strip(b"\0"):
        return "a file of zeros"
    head = data[:_TEXT_SAMPLE].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] in (b"{", b"["):
        return "JSON, which --from-json reads"
    if head.startswith(_STATE):
        return "the state file of a folder of checkpoints"
    return _graph(data)


def _graph(data: bytes) -> str:
    """Tell a graph without what belongs to it from anything else."""
    from ckpttool import pb
    from ckpttool.errors import CkptError
    from ckpttool.pb.convert import parse

    if data.lstrip().startswith((b"node {", b"node{")):
        return "the text of a GraphDef, a graph alone"
    try:
        graph = parse(pb.GraphDef, data, path=None)
    except CkptError:
        return ""
    if graph.node and all(node.name and node.op for node in graph.node[:100]):
        return "a GraphDef, such as a frozen graph"
    return ""
