"""The formats in which tensors leave a checkpoint, by name and by the ending of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ckpttool.interchange.npy_writing import npy_obstacle, npy_reads_back, write_npy_file
from ckpttool.interchange.npz_writing import npz_name_obstacle, npz_reads_back, write_npz_file
from ckpttool.interchange.outgoing import Outgoing, Write
from ckpttool.interchange.safetensors_writing import (
    is_young,
    safetensors_name_obstacle,
    safetensors_obstacle,
    safetensors_reads_back,
    write_safetensors_file,
)


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format for tensors.

    Attributes:
        name: as it is asked for.
        ending: of its files.
        obstacle: returns why it cannot hold a tensor, or None.
        name_obstacle: returns why a tensor cannot have a name in it, or None.
        write: writes a file: tensors, where to, and metadata if it has a place for them.
        reads_back: tells whether a file has these tensors, as far as it says so without their
            values.
        young: tells whether only recent readers know the dtype of a tensor.
        one: whether a file holds one tensor and no name.
        metadata: whether it has a place for text by name.
        shards: whether several files with an index can stand for one.
    """

    name: str
    ending: str
    obstacle: Callable[[Outgoing], str | None]
    name_obstacle: Callable[[str], str | None]
    write: Callable[[Sequence[Outgoing], Write, Mapping[str, str]], None]
    reads_back: Callable[[str, Sequence[Outgoing]], bool]
    young: Callable[[Outgoing], bool]
    one: bool = False
    metadata: bool = False
    shards: bool = False


def _write_npy(tensors: Sequence[Outgoing], write: Write, metadata: Mapping[str, str]) -> None:
    (tensor,) = tensors
    write_npy_file(tensor, write)


def _npy_reads_back(path: str, tensors: Sequence[Outgoing]) -> bool:
    (tensor,) = tensors
    return npy_reads_back(path, tensor)


def _write_npz(tensors: Sequence[Outgoing], write: Write, metadata: Mapping[str, str]) -> None:
    write_npz_file(tensors, write)


def _any_name(name: str) -> str | None:
    return None


def _never(tensor: Outgoing) -> bool:
    return False


SAFETENSORS = FileFormat(
    "safetensors",
    ".safetensors",
    safetensors_obstacle,
    safetensors_name_obstacle,
    write_safetensors_file,
    safetensors_reads_back,
    is_young,
    metadata=True,
    shards=True,
)
NPZ = FileFormat("npz", ".npz", npy_obstacle, npz_name_obstacle, _write_npz, npz_reads_back, _never)
NPY = FileFormat(
    "npy", ".npy", npy_obstacle, _any_name, _write_npy, _npy_reads_back, _never, one=True
)
FILE_FORMATS: Mapping[str, FileFormat] = {each.name: each for each in (SAFETENSORS, NPZ, NPY)}


def format_of_path(path: str) -> FileFormat | None:
    """Return the format that the ending of a file's name tells; None if it tells none."""
    return next((each for each in FILE_FORMATS.values() if path.endswith(each.ending)), None)
