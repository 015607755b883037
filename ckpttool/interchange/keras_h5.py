"""HDF5, weights of Keras models above all (`.weights.h5`): the only module that uses h5py.

    layers/dense_1/vars         a group for each layer, with an attribute "name"
    layers/dense_1/vars/0       a dataset for each variable, by its number

Groups are called by class, so a file is written after a template, one that the program has saved
itself. Values are read and written where the datasets lie; HDF5 never holds them, and runs none of
its filters.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ckpttool.errors import CkptError, CorruptError, UnsupportedError
from ckpttool.interchange.formats import FileFormat
from ckpttool.interchange.outgoing import Outgoing, Write
from ckpttool.storage.source import CHUNK_SIZE, RandomAccessFile
from ckpttool.tensor.dtypes import DType, dtype_of_name
from ckpttool.tensor.shape import Shape, element_count

if TYPE_CHECKING:
    import h5py

H5_ENDING = ".weights.h5"
# The state of an optimizer, which is no weight.
_OPTIMIZER = "optimizer"
# The state of random numbers goes from the template to the file.
_SEEDS = "seed_generator"
_VARIABLES = "vars"
# HDF5 does not know it: Keras 3 stores two bytes, with an attribute "dtype".
_BFLOAT16 = "bfloat16"
_TWO_BYTES = "|V2"
_MAGIC = b"\x89HDF\r\n\x1a\n"
_MAX_DEPTH, _MAX_MEMBERS = 64, 1_000_000
_MAX_KEPT = 1 << 20
# HDF5's dtype, as NumPy spells it -> TensorFlow's name.
_DTYPES = {
    "<f4": "float32",
    "<f8": "float64",
    "<f2": "float16",
    "|i1": "int8",
    "<i2": "int16",
    "<i4": "int32",
    "<i8": "int64",
    "|u1": "uint8",
    "<u2": "uint16",
    "<u4": "uint32",
    "<u8": "uint64",
}
_SPELLED = {name: spelled for spelled, name in _DTYPES.items()}


@dataclass(frozen=True, slots=True)
class KerasVariable:
    """A variable of a layer in a template: the path of its dataset, its shape and its dtype."""

    path: str
    shape: Shape
    dtype: str


@dataclass(frozen=True, slots=True)
class KerasLayer:
    """A layer of a template.

    Attributes:
        path: of its group, without the last part, "vars".
        name: of the layer, where the file has it.
        variables: by number.
    """

    path: str
    name: str | None
    variables: tuple[KerasVariable, ...]


@dataclass(frozen=True, slots=True)
class KerasTemplate:
    """What a program expects of a `.weights.h5` file.

    Attributes:
        path: of the file.
        layers: those with variables, in the order of their paths, numbers by value.
        groups: every group with its attributes that are text.
        kept: datasets whose values are taken over: path, dtype, shape and bytes.
    """

    path: str
    layers: tuple[KerasLayer, ...]
    groups: tuple[tuple[str, Mapping[str, str]], ...]
    kept: tuple[tuple[str, str, Shape, bytes], ...]


def read_template(path: str) -> KerasTemplate:
    """Read what a `.weights.h5` file expects; only the state of random numbers is read of values.

    Raises:
        MissingFileError, FileAccessError: it cannot be opened.
        UnsupportedError: h5py is not installed, or the file has links to others, or the like.
        CorruptError: it is no such file.
    """
    with _opened(path) as file:
        groups: list[tuple[str, Mapping[str, str]]] = []
        found: dict[str, list[KerasVariable]] = {}
        names: dict[str, str | None] = {}
        kept: list[tuple[str, str, Shape, bytes]] = []
        for place, member in _members(file, path, passed=_OPTIMIZER):
            if isinstance(member, _group_type()):
                attributes = {k: v for k, v in member.attrs.items() if isinstance(v, str)}
                groups.append((place, attributes))
                continue
            layer, _, number = place.rpartition("/")
            if not number.isdigit() or layer.rpartition("/")[2] != _VARIABLES:
                raise UnsupportedError(f"'{place}' is no variable of a layer of Keras", path=path)
            layer = layer.rpartition("/")[0]
            variable = _variable(place, member, path)
            if layer.rpartition("/")[2].startswith(_SEEDS):
                kept.append((place, variable.dtype, variable.shape, _small(member, place, path)))
                continue
            found.setdefault(layer, []).append(variable)
            name = member.parent.attrs.get("name")
            names[layer] = name if isinstance(name, str) else None
    layers = tuple(
        KerasLayer(each, names[each], tuple(sorted(found[each], key=_number)))
        for each in sorted(found, key=numbered)
    )
    if not layers:
        raise CorruptError("no layer of it has variables", path=path)
    return KerasTemplate(path, layers, tuple(groups), tuple(kept))


class H5Dataset(NamedTuple):
    """A dataset of a file.

    Attributes:
        path: of it in the file.
        dtype: TensorFlow's; `unknown(…)` where it has none.
        shape: its shape.
        offset: where its elements lie in the file, in C order.
        size: how many bytes they take.
        big_endian: their byte order.
        unreadable: why they cannot be read; "" if they can.
        damage: what is wrong with where they lie; "" if nothing is.
    """

    path: str
    dtype: DType
    shape: Shape
    offset: int
    size: int
    big_endian: bool
    unreadable: str
    damage: str


def read_datasets(path: str, size: int) -> list[H5Dataset]:
    """Return all datasets of a file, by its headers alone.

    Args:
        path: of the file.
        size: how many bytes it has.

    Raises:
        MissingFileError, FileAccessError: it cannot be opened.
        UnsupportedError: h5py is not installed, or the file has links or too many groups.
        CorruptError: it is no file of HDF5, or damaged.
    """
    with _opened(path) as file:
        return [
            _dataset(place, member, size)
            for place, member in _members(file, path)
            if not isinstance(member, _group_type())
        ]


def keras_format(template: KerasTemplate) -> FileFormat:
    """Return the format of files like a template."""
    expected = {each.path: each for layer in template.layers for each in layer.variables}

    def obstacle(tensor: Outgoing) -> str | None:
        wanted = expected.get(tensor.name)
        if wanted is None:
            return "the template has no such dataset"
        if (wanted.dtype, wanted.shape) != (tensor.dtype.name, tensor.shape):
            return (
                f"the template has {wanted.dtype} {list(wanted.shape)} there, "
                f"not {tensor.dtype} {list(tensor.shape)}"
            )
        return None

    def write(tensors: Sequence[Outgoing], out: Write, metadata: Mapping[str, str]) -> None:
        _write(template, tensors, out)

    def reads_back(path: str, tensors: Sequence[Outgoing]) -> bool:
        found = read_template(path)
        return found.layers == template.layers and len(expected) == len(tensors)

    return FileFormat(
        "weights.h5", H5_ENDING, obstacle, _any_name, write, reads_back, lambda tensor: False
    )


def numbered(path: str) -> tuple[object, ...]:
    """Return what sorts paths by their depth, and numbers in them by their values."""
    parts = path.split("/")
    keys = []
    for part in parts:
        stem, _, number = part.rpartition("_")
        keys.append((stem, int(number)) if stem and _is_number(number) else (part, -1))
    return (len(parts), *keys)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _number(variable: KerasVariable) -> tuple[int, str]:
    number = variable.path.rpartition("/")[2]
    return len(number), number


def _any_name(name: str) -> str | None:
    return None


def _write(template: KerasTemplate, tensors: Sequence[Outgoing], write: Write) -> None:
    h5py = _library()
    by_path = {tensor.name: tensor for tensor in tensors}
    with tempfile.TemporaryFile() as staged:
        places: dict[str, int] = {}
        with h5py.File(staged, "w") as file:
            for place, attributes in template.groups:
                group = file.require_group(place)
                for name, text in attributes.items():
                    group.attrs[name] = text
            for path, dtype, shape, data in template.kept:
                places[path] = _allocate(file, path, dtype, shape, len(data))
            for tensor in tensors:
                places[tensor.name] = _allocate(
                    file, tensor.name, tensor.dtype.name, tensor.shape, tensor.size
                )
            file.flush()
        for path, _, _, data in template.kept:
            staged.seek(places[path])
            staged.write(data)
        for path, tensor in by_path.items():
            staged.seek(places[path])
            for chunk in tensor.chunks():
                staged.write(chunk)
        staged.seek(0)
        while chunk := staged.read(CHUNK_SIZE):
            write(chunk)


def _allocate(file: Any, path: str, dtype: str, shape: Shape, size: int) -> int:
    """Make a dataset without values, and return where its bytes belong."""
    h5py = _library()
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    spelled = _SPELLED.get(dtype, _TWO_BYTES)
    dataset = file.create_dataset(path, shape, spelled, dcpl=properties)
    if spelled == _TWO_BYTES:
        dataset.attrs["dtype"] = dtype
    offset = dataset.id.get_offset()
    if offset is None:
        if size:
            raise UnsupportedError("HDF5 gave no room for a dataset", key=path)
        return 0
    return int(offset)


def _library() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise UnsupportedError(
            "files of HDF5 need another package: pip install 'ckpttool[h5]'"
        ) from error
    return h5py


def _group_type() -> Any:
    return _library().Group


@contextmanager
def _opened(path: str) -> Iterator[h5py.File]:
    """Open a file of HDF5 for reading; what its library says becomes our error."""
    h5py = _library()
    with RandomAccessFile(path) as found:  # it is there, and a regular file
        if found.read_at(0, min(found.size, len(_MAGIC))) != _MAGIC:
            raise CorruptError("no file of HDF5: it begins otherwise", path=path)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        if isinstance(error, CkptError):
            raise
        raise CorruptError(f"no file of HDF5 that can be read: {error}", path=path) from error


def _members(file: Any, path: str, *, passed: str = "") -> Iterator[tuple[str, Any]]:
    """Yield groups and datasets with their paths, but for those of the group that is passed over.

    A link may lead anywhere, and a circle of groups has no end.
    """
    h5py = _library()
    queue: list[tuple[str, Any]] = [("", file)]
    met = {h5py.h5o.get_info(file["/"].id).addr}
    for count, (place, group) in enumerate(queue):
        if count > _MAX_MEMBERS or place.count("/") > _MAX_DEPTH:
            raise UnsupportedError("too many groups, or they lie too deep", path=path)
        for name in group:
            inner = f"{place}/{name}" if place else name
            if inner == passed:
                continue
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise UnsupportedError(f"'{inner}' is a link; links are not followed", path=path)
            member = group[name]
            if isinstance(member, h5py.Group):
                address = h5py.h5o.get_info(member.id).addr
                if address in met:
                    raise UnsupportedError(f"'{inner}' is a group with another path", path=path)
                met.add(address)
                queue.append((inner, member))
            elif not isinstance(member, h5py.Dataset):
                raise UnsupportedError(f"'{inner}' is neither group nor dataset", path=path)
            yield inner, member


def _variable(place: str, dataset: Any, path: str) -> KerasVariable:
    dtype = _BFLOAT16 if _is_bfloat16(dataset) else _DTYPES.get(dataset.dtype.str)
    if dtype is None or dataset.shape is None:
        raise UnsupportedError(f"'{place}' has the dtype {dataset.dtype}", path=path)
    if dataset.is_virtual or dataset.external:
        raise UnsupportedError(f"the values of '{place}' lie in another file", path=path)
    return KerasVariable(place, tuple(map(int, dataset.shape)), dtype)


def _dataset(place: str, dataset: Any, file_size: int) -> H5Dataset:
    """Describe a dataset; the file may say anything of it."""
    spelled, shown = _element(dataset)
    name = _BFLOAT16 if _is_bfloat16(dataset) else _DTYPES.get(spelled.replace(">", "<"))
    dtype = dtype_of_name(name) if name else DType(0, f"unknown({shown})", None)
    shape = tuple(map(int, dataset.shape or ()))
    size = element_count(shape) * (dtype.size or 0)
    offset = dataset.id.get_offset()
    unreadable = damage = ""
    if name is None:
        unreadable = f"elements like {shown} of HDF5 cannot be read"
    elif dataset.shape is None:
        unreadable = "it has no elements, and no shape"
    elif dataset.is_virtual or dataset.external:
        unreadable = "its values lie in another file"
    elif dataset.chunks is not None:
        unreadable = "its values lie in chunks; `h5repack -f NONE -l CONTI` makes one piece of them"
    elif size and offset is None:
        unreadable = "its values were never written, or lie in its header"
    elif size and dataset.id.get_storage_size() != size:
        damage = f"{dtype} {list(shape)} takes {size} bytes, not {dataset.id.get_storage_size()}"
    elif size and offset + size > file_size:
        damage = f"{size} bytes at {offset} are more than the file has, {file_size}"
    return H5Dataset(
        place, dtype, shape, offset or 0, size, spelled.startswith(">"), unreadable, damage
    )


def _element(dataset: Any) -> tuple[str, str]:
    """Return how NumPy spells the elements of a dataset, and how to call them.

    An odd precision or offset of bits is not for reading as it lies: it has no spelling.
    """
    try:
        dtype = dataset.dtype
        exact = dataset.id.get_type().equal(_library().h5t.py_create(dtype))
    except (TypeError, ValueError):
        return "", "these"
    return (str(dtype.str) if exact else ""), str(dtype)


def _is_bfloat16(dataset: Any) -> bool:
    """Tell whether Keras 3 marked two bytes, which HDF5 does not know, as bfloat16."""
    kind = dataset.id.get_type()
    opaque = isinstance(kind, _library().h5t.TypeOpaqueID) and kind.get_size() == 2
    return opaque and dataset.attrs.get("dtype") == _BFLOAT16


def _small(dataset: Any, place: str, path: str) -> bytes:
    if dataset.nbytes > _MAX_KEPT or dataset.compression or dataset.chunks:
        raise UnsupportedError(f"'{place}' is no state of random numbers", path=path)
    data: bytes = dataset[()].tobytes()
    return data
