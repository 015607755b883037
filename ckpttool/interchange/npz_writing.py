"""Tensors as `.npz` files: stored, not compressed, with ZIP64 sizes, written in one pass.

Sizes and checksums stand behind each member and in the directory at the end, so that nothing has
to be known beforehand and the same bytes can go into a pipe. Times are those of no day: equal
tensors give equal bytes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence

from ckpttool.coding.text import encode_text
from ckpttool.interchange.npy_writing import npy_size, write_npy_file
from ckpttool.interchange.outgoing import Outgoing, Write

_SUFFIX = ".npy"
_NO_DAY = (1980, 1, 1, 0, 0, 0)
_MAX_NAME = 0xFFFF


def npz_name_obstacle(name: str) -> str | None:
    """Return why a tensor in a `.npz` file cannot have a name; None if it can.

    A member is a file for whoever unpacks it.
    """
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        return "the member of a .npz file cannot be called that, because it could be unpacked"
    if len(encode_text(name)) + len(_SUFFIX) > _MAX_NAME:
        return "the name is too long for a .npz file"
    return None


def same_member(names: Iterable[str]) -> tuple[str, str] | None:
    """Return two names that NumPy would take for one: it adds and drops the ending `.npy`."""
    known = set(names)
    for name in sorted(known):
        if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX) in known:
            return name.removesuffix(_SUFFIX), name
    return None


def write_npz_file(tensors: Sequence[Outgoing], write: Write) -> None:
    """Write tensors as a `.npz` file, by the bytes of their names.

    Args:
        tensors: without obstacles, each with a name of its own.
        write: where to.
    """
    sink = _Sink(write)
    # A member and the directory are written as they come: the sink cannot go back.
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for tensor in sorted(tensors, key=lambda each: encode_text(each.name)):
            member = zipfile.ZipInfo(tensor.name + _SUFFIX, _NO_DAY)
            with archive.open(member, "w", force_zip64=True) as out:
                write_npy_file(tensor, out.write)


def npz_reads_back(path: str, tensors: Sequence[Outgoing]) -> bool:
    """Tell whether the directory of a file has a member of the right size for each tensor."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = {(each.filename, each.file_size) for each in archive.infolist()}
    except zipfile.BadZipFile:
        return False
    return found == {(each.name + _SUFFIX, npy_size(each)) for each in tensors}


class _Sink:
    """What `zipfile` takes for a file that can only be written to."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def write(self, data: bytes | memoryview) -> int:
        self._write(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """Whoever opened the file closes it."""
