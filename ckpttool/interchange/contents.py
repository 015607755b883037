"""The tensors of a file of another program, by its headers alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ckpttool.coding.json_text import JsonError, load_json
from ckpttool.errors import CkptError, CorruptError, MissingFileError, UnsupportedError
from ckpttool.interchange.archive import DEFLATED, ArchiveMember, data_offset, read_directory
from ckpttool.interchange.entry import ArrayEntry, ArrayLayout, Packing
from ckpttool.interchange.inflate import Inflated
from ckpttool.interchange.naming import ArrayFormat
from ckpttool.interchange.npy import MOST_NPY_HEAD, NpyHeader, parse_npy
from ckpttool.interchange.safetensors import MAX_HEADER, read_header
from ckpttool.printable import printable, shortened
from ckpttool.storage.source import Identity, Permissions, RandomAccessFile

# As NumPy calls an array that was given no name.
ONLY_ARRAY = "arr_0"
_NPY = ".npy"
# A header of an array mostly ends within these bytes.
_HEAD = 512


@dataclass(slots=True)
class Contents:
    """What the headers say.

    Attributes:
        entries: by name.
        damaged: the errors of the other tensors, by name.
        paths: of the files with tensors, in the order of their numbers.
        sizes: of these files; None for one that is missing.
        metadata: text by name, of safetensors.
        identities: of all files that were read, by path.
        permissions: of the first of them.
        index_bytes: size of the list of the files, if there is one.
    """

    entries: dict[str, ArrayEntry] = field(default_factory=dict)
    damaged: dict[str, CkptError] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    sizes: list[int | None] = field(default_factory=list)
    metadata: Mapping[str, str] = field(default_factory=dict)
    identities: dict[str, Identity] = field(default_factory=dict)
    permissions: Permissions | None = None
    index_bytes: int | None = None

    def note(self, file: RandomAccessFile) -> None:
        """Take down which file was read."""
        self.identities[file.path] = file.identity
        self.permissions = self.permissions or file.permissions

    def add_file(self, path: str, size: int | None) -> int:
        """Add a file; return its number."""
        self.paths.append(path)
        self.sizes.append(size)
        return len(self.paths) - 1


def read_contents(path: str, format: ArrayFormat) -> Contents:
    """Read the headers of a file.

    Args:
        path: of the file; of several files of safetensors that of the list of them.
        format: what it is.

    Raises:
        CkptError: it cannot be read, is damaged, or is something else.
    """
    out = Contents()
    try:
        if format == "safetensors" and path.endswith(".json"):
            _read_listed(path, out)
        else:
            with RandomAccessFile(path) as file:
                out.note(file)
                number = out.add_file(path, file.size)
                _READERS[format](file, number, out)
    except CkptError as error:
        error.locate(path=path)
        raise
    return out


def _read_safetensors(file: RandomAccessFile, number: int, out: Contents) -> None:
    header = read_header(file)
    out.metadata = out.metadata or header.metadata
    for name, dtype, shape, offset, size in header.tensors:
        code = dtype.name.removeprefix("unknown(").removesuffix(")")
        why = "" if dtype.known else f"TensorFlow has no dtype like {code} of safetensors"
        out.entries[name] = ArrayEntry(dtype, shape, number, offset, size, unreadable=why)


def _read_npy(file: RandomAccessFile, number: int, out: Contents) -> None:
    header = parse_npy(file.read_at(0, min(file.size, MOST_NPY_HEAD)))
    _check_length(header, file.size)
    start = header.data_start
    out.entries[ONLY_ARRAY] = _array_entry(header, number, start, None, file.size - start)


def _read_npz(file: RandomAccessFile, number: int, out: Contents) -> None:
    for member in read_directory(file):
        if member.name.endswith("/") and not member.size:
            continue  # a folder
        key = member.name.removesuffix(_NPY)
        if key in out.entries or key in out.damaged:
            raise CorruptError("two members of this name", offset=member.offset, key=key)
        try:
            out.entries[key] = _member_entry(file, number, member)
        except CkptError as error:
            error.key, error.offset = key, member.offset  # of the header it tells only where in it
            out.damaged[key] = error.locate(path=file.path)


def _member_entry(file: RandomAccessFile, number: int, member: ArchiveMember) -> ArrayEntry:
    """Return the entry of an array in an archive; only its header is unpacked."""
    if member.unreadable:
        raise UnsupportedError(member.unreadable)
    start = data_offset(file, member)
    deflated = member.method == DEFLATED
    packing = Packing(start, member.stored, member.size, member.crc, deflated)
    if not member.name.endswith(_NPY):
        raise UnsupportedError("a member that is no array: its name does not end in .npy")
    header = _header_of(file, packing)
    _check_length(header, member.size)
    offset = None if deflated else start + header.data_start
    return _array_entry(header, number, offset, packing, member.size - header.data_start)


def _header_of(file: RandomAccessFile, packing: Packing) -> NpyHeader:
    source: RandomAccessFile | Inflated = file
    start = packing.offset
    if packing.deflated:
        source, start = Inflated(file, packing.offset, packing.stored, packing.size), 0
    head = source.read_at(start, min(packing.size, _HEAD))
    try:
        return parse_npy(head)
    except CorruptError:
        if packing.size <= _HEAD:
            raise
    return parse_npy(source.read_at(start, min(packing.size, MOST_NPY_HEAD)))


def _check_length(header: NpyHeader, size: int) -> None:
    """Check that an array of `size` bytes, with its header, is as long as that says."""
    there = size - header.data_start
    if header.width and there != header.size:
        what = f"{header.dtype} {list(header.shape)} takes {header.size} bytes"
        raise CorruptError(f"{what}, and {there} follow the header")


def _array_entry(
    header: NpyHeader, number: int, offset: int | None, packing: Packing | None, size: int
) -> ArrayEntry:
    layout = ArrayLayout(
        header.data_start, header.fortran, header.big_endian, header.width, header.characters
    )
    return ArrayEntry(
        header.dtype, header.shape, number, offset, size, layout, packing, header.unreadable
    )


def _read_h5(file: RandomAccessFile, number: int, out: Contents) -> None:
    from ckpttool.interchange.keras_h5 import read_datasets

    for each in read_datasets(file.path, file.size):
        if each.damage:
            error = CorruptError(each.damage, path=file.path, key=each.path)
            out.damaged[each.path] = error
            continue
        layout = None
        if each.big_endian:
            layout = ArrayLayout(each.offset, False, True, each.dtype.size or 1, 0)
        out.entries[each.path] = ArrayEntry(
            *(each.dtype, each.shape, number, each.offset, each.size, layout),
            unreadable=each.unreadable,
        )


_READERS = {
    "safetensors": _read_safetensors,
    "npz": _read_npz,
    "npy": _read_npy,
    "h5": _read_h5,
}


def _read_listed(path: str, out: Contents) -> None:
    """Read the headers of several files of safetensors, and compare them with the list."""
    places = _weight_map(path, out)
    folder = os.path.dirname(path)
    for name in dict.fromkeys(places.values()):
        own = os.path.join(folder, name)
        part = Contents()
        try:
            with RandomAccessFile(own) as file:
                out.note(file)
                number = out.add_file(own, file.size)
                _read_safetensors(file, number, part)
        except MissingFileError:
            out.add_file(own, None)
            missing = {key for key, at in places.items() if at == name}
            for key in missing:
                out.damaged[key] = MissingFileError("its file is missing", path=own, key=key)
            continue
        out.metadata = out.metadata or part.metadata
        for key, entry in part.entries.items():
            if places.get(key) != name:
                said = f"says '{places[key]}'" if key in places else "does not have it"
                message = f"it is in this file, but '{os.path.basename(path)}' {said}"
                raise CorruptError(message, path=own, key=key)
            out.entries[key] = entry
    for key, name in places.items():
        if key not in out.entries and key not in out.damaged:
            own = os.path.join(folder, name)
            message = f"it is not in this file, where '{os.path.basename(path)}' says it is"
            out.damaged[key] = CorruptError(message, path=own, key=key)


def _weight_map(path: str, out: Contents) -> dict[str, str]:
    """Return the name of the file of each tensor: a plain name, beside the list."""
    with RandomAccessFile(path) as file:
        out.note(file)
        if file.size > MAX_HEADER:
            raise UnsupportedError(f"a list of {file.size} bytes is more than {MAX_HEADER}")
        raw = file.read_at(0, file.size)
        out.index_bytes = file.size
    try:
        document = load_json(str(raw, "utf-8"))
    except UnicodeDecodeError as error:
        raise CorruptError("not UTF-8", offset=error.start) from error
    except JsonError as error:
        raise CorruptError(f"no JSON: {error.problem}, {error.place}") from error
    places = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(places, dict):
        raise CorruptError("no list of the files of safetensors: it has no 'weight_map'")
    for key, name in places.items():
        _check_place(key, name)
    return places


def _check_place(key: str, name: object) -> None:
    """Check that the name of a tensor's file leads nowhere but to the folder of the list."""
    if not key.isascii() and not _is_text(key):
        raise CorruptError("the name of a tensor is not Unicode")
    shown = shortened(printable(name)) if isinstance(name, str) else ""
    if not isinstance(name, str) or not name or not _is_text(name):
        raise CorruptError("its file is no name", key=key)
    if "/" in name or "\\" in name or "\0" in name or name in (os.curdir, os.pardir):
        raise CorruptError(f"its file '{shown}' is not beside the list", key=key)
    if not name.endswith(".safetensors"):
        raise UnsupportedError(f"its file '{shown}' is not safetensors", key=key)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
