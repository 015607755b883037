"""Tensors as safetensors files, streamed, and the index of several files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from ckpttool.interchange.outgoing import Outgoing, Write
from ckpttool.interchange.safetensors import (
    METADATA,
    SAFETENSORS_CODES,
    YOUNG_CODES,
    build_header,
    read_header,
)
from ckpttool.storage.source import RandomAccessFile

# As others name the files of one model: model-00001-of-00003.safetensors.
_SHARD = "{stem}-{number:05d}-of-{count:05d}{ending}"
INDEX_ENDING = ".index.json"


def safetensors_obstacle(tensor: Outgoing) -> str | None:
    """Return why a safetensors file cannot hold a tensor; None if it can."""
    if tensor.dtype.name not in SAFETENSORS_CODES:
        return f"safetensors has no dtype for {tensor.dtype}"
    return None


def is_young(tensor: Outgoing) -> bool:
    """Tell whether only recent readers know the dtype of a tensor."""
    return SAFETENSORS_CODES.get(tensor.dtype.name) in YOUNG_CODES


def safetensors_name_obstacle(name: str) -> str | None:
    """Return why a tensor in a safetensors file cannot have a name; None if it can."""
    if name == METADATA:
        return "the name belongs to the metadata of a safetensors file"
    return None


def write_safetensors_file(
    tensors: Sequence[Outgoing], write: Write, metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors as a safetensors file; equal tensors give equal bytes, whatever their order.

    Args:
        tensors: without obstacles, each with a name of its own.
        write: where to.
        metadata: text by name.
    """
    by_name = {tensor.name: tensor for tensor in tensors}
    header = build_header(((each.name, each.dtype, each.shape) for each in tensors), metadata)
    write(header.data)
    for stored in header.tensors:
        for chunk in by_name[stored.name].chunks():
            write(chunk)


def safetensors_reads_back(path: str, tensors: Sequence[Outgoing]) -> bool:
    """Tell whether the header of a file describes these tensors.

    Raises:
        CkptError: it is not a safetensors file.
    """
    with RandomAccessFile(path) as file:
        found = {(each.name, each.dtype, each.shape) for each in read_header(file).tensors}
    return found == {(each.name, each.dtype, each.shape) for each in tensors}


def shard_names(name: str, ending: str, count: int) -> list[str]:
    """Return the names of the files into which one is split.

    Args:
        name: of the file, with its ending.
        ending: the same.
        count: how many there are.
    """
    stem = name.removesuffix(ending)
    return [
        _SHARD.format(stem=stem, number=number, count=count, ending=ending)
        for number in range(1, count + 1)
    ]


def is_shard_name(name: str, whole: str, ending: str) -> bool:
    """Tell whether a name is that of one of several files, whatever their number.

    Args:
        name: the name.
        whole: of the file that is split, with its ending.
        ending: the same.
    """
    stem = re.escape(whole.removesuffix(ending))
    return re.fullmatch(rf"{stem}-[0-9]{{5}}-of-[0-9]{{5}}{re.escape(ending)}", name) is not None


def index_document(weight_map: Mapping[str, str], total_size: int) -> bytes:
    """Return the index that says in which file each tensor lies.

    Args:
        weight_map: names of files by names of tensors.
        total_size: bytes of all tensors.
    """
    document = {"metadata": {"total_size": total_size}, "weight_map": dict(weight_map)}
    return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
