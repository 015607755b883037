"""Which tensors of an export go into which file, and what its format cannot hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ckpttool.checkpoint.nearest import quoted
from ckpttool.errors import UnsupportedError
from ckpttool.interchange.formats import NPZ, SAFETENSORS, FileFormat
from ckpttool.interchange.npz_writing import same_member
from ckpttool.interchange.outgoing import Outgoing
from ckpttool.interchange.safetensors_writing import INDEX_ENDING, shard_names
from ckpttool.surgery.writing.recoding.spread import Recoding, spread
from ckpttool.tensor.dtypes import STRING

# What to cast to where a format lacks a dtype.
_CASTS = {
    "bfloat16": "float32",
    "float8_e5m2": "float32",
    "float8_e4m3fn": "float32",
    "float8_e4m3fnuz": "float32",
    "float8_e4m3b11fnuz": "float32",
    "float8_e5m2fnuz": "float32",
    "float4_e2m1fn": "float32",
    "int4": "int8",
    "int2": "int8",
    "uint4": "uint8",
    "uint2": "uint8",
    "complex128": "complex64",
}


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A file of an export.

    Attributes:
        path: where it goes.
        tensors: what it holds, by name.
    """

    path: str
    tensors: tuple[Outgoing, ...]


@dataclass(frozen=True, slots=True)
class Fitting:
    """The tensors that a format can hold, and those that it cannot.

    Attributes:
        tensors: which it can.
        skipped: name of each other one, and the reason.
    """

    tensors: tuple[Outgoing, ...]
    skipped: tuple[tuple[str, str], ...]


def fit(tensors: Sequence[Outgoing], form: FileFormat, *, skip: bool, path: str) -> Fitting:
    """Part the tensors that a format can hold from those that it cannot.

    Args:
        tensors: all of them.
        form: the format.
        skip: whether to leave out what it cannot hold.
        path: of the checkpoint, for messages.

    Raises:
        UnsupportedError: it cannot hold some, which are all named, or nothing would be left.
    """
    reasons = {
        tensor.name: form.obstacle(tensor) or form.name_obstacle(tensor.name) or _unwritable(tensor)
        for tensor in tensors
    }
    skipped = tuple((name, reason) for name, reason in reasons.items() if reason is not None)
    fitting = tuple(tensor for tensor in tensors if reasons[tensor.name] is None)
    if skipped and not (skip and fitting):
        raise UnsupportedError(_complaint(tensors, skipped, form), path=path)
    alike = same_member(tensor.name for tensor in fitting) if form is NPZ else None
    if alike is not None:
        raise UnsupportedError(f"NumPy would take {quoted(alike)} for one name", path=path)
    if form.one and len(fitting) > 1:
        several = f"{NPZ.ending} and {SAFETENSORS.ending} files hold several"
        names = quoted(tensor.name for tensor in fitting[:3])
        raise UnsupportedError(
            f"a {form.ending} file holds one tensor, not {len(fitting)} ({names} …); {several}",
            path=path,
        )
    return Fitting(fitting, skipped)


def spread_over_files(
    tensors: Sequence[Outgoing], output: str, form: FileFormat, limit: int | None
) -> tuple[tuple[ExportFile, ...], str | None]:
    """Return the files of an export, and the path of the index of several.

    Args:
        tensors: by name.
        output: path of the file if there is only one.
        form: the format.
        limit: bytes of tensors in a file, of which one tensor may have more; None: any number.

    Raises:
        SurgeryError: there would be too many files.
    """
    if limit is None:
        return (ExportFile(output, tuple(tensors)),), None
    how = Recoding(max_shard_size=limit)
    places, count = spread([[tensor.size] for tensor in tensors], how, 1)
    if count == 1:
        return (ExportFile(output, tuple(tensors)),), None
    folder, name = os.path.split(output)
    paths = [os.path.join(folder, each) for each in shard_names(name, form.ending, count)]
    held: list[list[Outgoing]] = [[] for _ in paths]
    for tensor, (number,) in zip(tensors, places, strict=True):
        held[number].append(tensor)
    files = tuple(ExportFile(path, tuple(some)) for path, some in zip(paths, held, strict=True))
    return files, output + INDEX_ENDING


def _unwritable(tensor: Outgoing) -> str | None:
    """Return why no format can hold the name of a tensor."""
    try:
        tensor.name.encode()
    except UnicodeEncodeError:
        return "the name is not UTF-8"
    return None if tensor.name else "the name is empty"


def _complaint(
    tensors: Sequence[Outgoing], skipped: Sequence[tuple[str, str]], form: FileFormat
) -> str:
    """Return what a format cannot hold, by reason, and the ways out."""
    dtypes = {tensor.name: tensor.dtype for tensor in tensors}
    by_reason: dict[str, list[str]] = {}
    for name, reason in skipped:
        by_reason.setdefault(reason, []).append(name)
    parts = [f"{reason}: {quoted(names)}" for reason, names in by_reason.items()]
    casts: dict[str, str] = {}
    for name, reason in skipped:
        to = _CASTS.get(dtypes[name].name)
        if to is not None and reason.endswith(dtypes[name].name):
            casts.setdefault(to, name)
    ways = [f"--cast '{name}={to}'" for to, name in casts.items()]
    if form is not SAFETENSORS and any(dtypes[name] == STRING for name, _ in skipped):
        ways.append("--strings bytes")
    ways.append("--skip-unsupported leaves them out")
    return f"{'; '.join(parts)}; {', '.join(ways)}"
