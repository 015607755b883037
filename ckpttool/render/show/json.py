"""The values of tensors as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TextIO

from ckpttool.objects.graph import Node
from ckpttool.query.source import Source, TensorNames
from ckpttool.query.values.detail import GraphDetail, TensorDetail, Values, Variants
from ckpttool.query.values.statistics import Statistics
from ckpttool.query.values.variants import InnerTensor, VariantDetail
from ckpttool.render.jsonout import source_document, write_json, write_jsonl

SCHEMA = "ckpt.show/1"


def write_details_json(source: Source, details: Iterable[TensorDetail], stream: TextIO) -> None:
    """Write tensors as one JSON object, each as it comes."""
    document = {
        "schema": SCHEMA,
        "source": source_document(source),
        "tensors": (detail_document(each, source.names) for each in details),
    }
    write_json(document, stream)


def write_details_jsonl(source: Source, details: Iterable[TensorDetail], stream: TextIO) -> None:
    """Write each tensor as a JSON object on a line of its own."""
    write_jsonl((detail_document(each, source.names) for each in details), stream)


def detail_document(detail: TensorDetail, names: TensorNames) -> dict[str, object]:
    """Return a tensor as its JSON object."""
    document: dict[str, object] = {
        "key": detail.key,
        **names.members(detail.key),
        "dtype": detail.dtype,
        "shape": detail.shape,
        "kind": detail.kind,
        "bytes": detail.bytes,
    }
    if detail.index is not None:
        document |= {"index": detail.index, "part": detail.part}
    content = detail.content
    if content is not None:
        elided = not content.complete
        document["value"] = None if elided else value_document(content)
        document["elided"] = elided
    document["stats"] = (
        None if detail.statistics is None else statistics_document(detail.statistics)
    )
    document["verified"] = detail.verified
    return document


def index_text(detail: TensorDetail) -> str:
    """Return the index of a part in brackets; nothing for a whole tensor."""
    return "" if detail.index is None else f"[{detail.index}]"


def statistics_document(summary: Statistics) -> dict[str, object]:
    """Return statistics as their JSON object."""
    document: dict[str, object] = asdict(summary)
    if summary.true is not None:
        document["true"] = summary.true
    return document


def value_document(content: Values | Variants | GraphDetail) -> object:
    """Return what a tensor holds as JSON has it."""
    if isinstance(content, Values):
        return content.nested()
    if isinstance(content, Variants):
        return _nest([_variant(element) for element in content.elements], content.shape)
    return {
        "nodes": [_node(node, content.graph.paths) for node in content.nodes],
        "total": len(content.graph.nodes),
        "slots": len(content.graph.slots),
    }


def _node(node: Node, paths: Sequence[str | None]) -> dict[str, object]:
    return {
        "id": node.id,
        "path": paths[node.id],
        "children": [{"name": edge.name, "node_id": edge.node_id} for edge in node.children],
        "attributes": [
            {
                "name": one.name,
                "full_name": one.full_name,
                "key": one.checkpoint_key,
                "optional": one.optional_restore,
            }
            for one in node.attributes
        ],
        "slots": [
            {
                "name": slot.slot_name,
                "variable_id": slot.variable_id,
                "variable": paths[slot.variable_id],
                "node_id": slot.slot_id,
            }
            for slot in node.slots
        ],
        "saver": None if node.saver is None else node.saver.name,
    }


def _variant(detail: VariantDetail) -> dict[str, object]:
    document: dict[str, object] = {
        "type_name": detail.type_name,
        "facts": dict(detail.facts),
        "tensors": [_inner_tensor(inner) for inner in detail.tensors],
    }
    if detail.metadata:
        document["metadata"] = detail.metadata
    return document


def _inner_tensor(inner: InnerTensor) -> dict[str, object]:
    document: dict[str, object] = {
        "name": inner.name,
        "dtype": inner.dtype,
        "shape": inner.shape,
    }
    if inner.values is not None:
        document["value"] = inner.nested()
    if inner.variants:
        document["variants"] = [_variant(each) for each in inner.variants]
    return document


def _nest(flat: list[dict[str, object]], shape: Sequence[int]) -> object:
    """Return elements in C order as nested lists; a scalar's as the element itself."""
    nested: list[object] = list(flat)
    for dim in reversed(shape):
        nested = [nested[at : at + dim] for at in range(0, len(nested), dim)] if dim else []
    return nested[0] if nested else []
