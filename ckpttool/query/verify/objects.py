"""Verifying the object graph of a checkpoint against its index."""

from __future__ import annotations

from ckpttool.bundle.entry import BundleEntry
from ckpttool.errors import CkptError, CorruptError
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.query.verify.extents import Extent, Shard
from ckpttool.query.verify.findings import Finding, finding, finding_of
from ckpttool.query.verify.index import IndexSurvey
from ckpttool.storage.source import RandomAccessFile
from ckpttool.tensor.dtypes import STRING
from ckpttool.tensor.strings import decode_strings


def check_graph(survey: IndexSurvey, shards: list[Shard], *, big_endian: bool) -> list[Finding]:
    """Compare the object graph with the tensors, after the data shards were read.

    Returns:
        The findings; none without a graph, or if its bytes are damaged, which is reported already.
    """
    entry = survey.tensors.get(GRAPH_KEY)
    if entry is None:
        return []
    if entry.dtype != STRING or entry.shape or entry.slices:
        message = f"the object graph is {entry.dtype} {list(entry.shape)}, not a string"
        return [finding("graph-unreadable", message, survey.path, key=GRAPH_KEY)]
    shard = next((each for each in shards if each.number == entry.shard_id), None)
    extent = _sound_extent(shard, entry)
    if shard is None or extent is None:
        return []
    try:
        graph = _read(shard.path, extent, big_endian=big_endian)
    except CkptError as error:
        return [
            finding_of(
                error,
                "graph-unreadable",
                shard.path,
                offset=extent.offset,
                size=extent.size,
                key=GRAPH_KEY,
            )
        ]
    return [
        finding(code, message, survey.path, key=key)
        for code, message, key in _disagreements(graph, survey)
    ]


def _sound_extent(shard: Shard | None, entry: BundleEntry) -> Extent | None:
    if shard is None:
        return None
    for extent in shard.tensors:
        claims = any(claim.key == GRAPH_KEY for claim in extent.claims)
        if claims and extent.offset == entry.offset and extent.error is None:
            return extent
    return None


def _read(path: str, extent: Extent, *, big_endian: bool) -> ObjectGraph:
    with RandomAccessFile(path) as file:
        data = memoryview(file.read_at(extent.offset, extent.size))
        (serialized,), crc = decode_strings(data, 1, big_endian=big_endian)
    if crc != extent.crc:
        raise CorruptError("the object graph changed while it was read", path=path)
    return ObjectGraph.from_bytes(serialized, path=path)


def _disagreements(graph: ObjectGraph, survey: IndexSurvey) -> list[tuple[str, str, str]]:
    claims = graph.claims(survey.tensors.keys())
    found = []
    if survey.complete:
        for node_id, attribute in claims.missing:
            if not attribute.optional_restore:
                found.append(
                    (
                        "graph-key-missing",
                        f"the object graph has it as '{attribute.name}' of node {node_id},"
                        " but there is no such tensor",
                        attribute.checkpoint_key,
                    )
                )
    for key in dict.fromkeys(claims.disputed):
        message = "more than one attribute in the object graph names it"
        found.append(("graph-key-disputed", message, key))
    # No attribute names the tensors of a registered saver.
    if not graph.columns.savers:
        message = "no object in the object graph names it"
        found += [("graph-key-unclaimed", message, key) for key in claims.unclaimed]
    return found
