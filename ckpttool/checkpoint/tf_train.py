"""The functions of `tf.train` that read checkpoints: same names, arguments and results.

A script can import them from here instead. They also do what TensorFlow cannot: join partitioned
tensors of any dtype and format, read half numbers from format V1, take any address that the command
line takes. Errors are those of this package; a missing checkpoint is also a `FileNotFoundError`, a
missing key also a `KeyError`.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ckpttool.checkpoint.folder import Finder
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.named import other_paths
from ckpttool.checkpoint.open import Checkpoint, opened
from ckpttool.checkpoint.state import STATE_NAME
from ckpttool.coding.text import encode_text
from ckpttool.errors import CkptError, MissingFileError
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.tensor.dtypes import DType

if TYPE_CHECKING:
    from ckpttool.checkpoint.state import CheckpointState


class CheckpointReader:
    """Gives access to the tensors of an open checkpoint; made by `load_checkpoint`."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._entries = checkpoint.entries
        self._dtype_and_shape = checkpoint.reader.dtype_and_shape

    def has_tensor(self, tensor_str: str) -> bool:
        """Tell whether there is a tensor of this key."""
        return tensor_str in self._entries

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return the shape of every tensor by key."""
        shape_of = self._dtype_and_shape
        return {key: list(shape_of(key)[1]) for key in self._entries}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """Return the dtype of every tensor by key; it has `name` and `as_numpy_dtype`."""
        dtype_of = self._dtype_and_shape
        return {key: dtype_of(key)[0] for key in self._entries}

    def get_tensor(self, tensor_str: str, *, copy: bool = True) -> Any:
        """Return the value of a tensor, its crc32c checked.

        A scalar comes as a NumPy scalar, or as bytes for dtype string; quantised dtypes come as
        plain integers.

        Args:
            tensor_str: its key.
            copy: False for a map of the data shard where possible; see the warning in
                `Checkpoint.read`. TensorFlow has no such argument.

        Raises:
            MissingKeyError: there is no such key.
            CorruptError: the stored bytes are damaged.
        """
        value = self._checkpoint.reader.read(tensor_str, copy=copy)
        if value.dtype.names:
            value = value.view(value.dtype[0])
        return value[()]

    def debug_string(self) -> bytes:
        """Return a line for each tensor: key, dtype and shape."""
        lines = []
        for key in self._entries:
            dtype, shape = self._dtype_and_shape(key)
            name = "DT_" + {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}.get(
                dtype.name, dtype.name.upper()
            )
            lines.append(f"{key} ({name}) [{','.join(map(str, shape))}]\n")
        return encode_text("".join(lines))


def load_checkpoint(ckpt_dir_or_file: StrPath) -> CheckpointReader:
    """Open a checkpoint.

    Args:
        ckpt_dir_or_file: a folder, for its latest checkpoint, or a prefix.

    Raises:
        MissingFileError: there is no checkpoint.
    """
    return CheckpointReader(Checkpoint(locate(ckpt_dir_or_file)))


def list_variables(ckpt_dir_or_file: StrPath) -> list[tuple[str, list[int]]]:
    """Return key and shape of every tensor of a checkpoint, sorted by key."""
    with opened(ckpt_dir_or_file) as checkpoint:
        return sorted(CheckpointReader(checkpoint).get_variable_to_shape_map().items())


def load_variable(ckpt_dir_or_file: StrPath, name: str) -> Any:
    """Return the value of one tensor of a checkpoint.

    Args:
        ckpt_dir_or_file: a folder, for its latest checkpoint, or a prefix.
        name: its key. As in TensorFlow, a name that ends in ":0" may be given too.
    """
    with opened(ckpt_dir_or_file) as checkpoint:
        return CheckpointReader(checkpoint).get_tensor(name.removesuffix(":0"))


def get_checkpoint_state(
    checkpoint_dir: StrPath, latest_filename: str | None = None
) -> CheckpointState | None:
    """Read a folder's state file.

    Args:
        checkpoint_dir: the folder.
        latest_filename: name of the state file, if it is not `checkpoint`.

    Returns:
        The state, its relative paths joined to the folder; None without a state file or, with a
        warning, if it cannot be read.

    Raises:
        ValueError: the state file names no checkpoint.
    """
    from ckpttool.checkpoint.state import read_state

    folder = path_text(checkpoint_dir)
    path = os.path.join(folder, latest_filename or STATE_NAME)
    try:
        state = read_state(path)
    except MissingFileError:
        return None
    except CkptError as error:
        warnings.warn(f"{error}; checkpoint ignored", stacklevel=2)
        return None
    if not state.model_checkpoint_path:
        raise ValueError(f"invalid checkpoint state: no checkpoint is named in {path}")
    return state.joined_to(folder)


def latest_checkpoint(checkpoint_dir: StrPath, latest_filename: str | None = None) -> str | None:
    """Return the prefix of a folder's latest checkpoint.

    Args:
        checkpoint_dir: the folder.
        latest_filename: name of the state file, if it is not `checkpoint`.

    Returns:
        The checkpoint in the state file, if it exists; else, with a warning, the checkpoint of that
        name beside the state file, as in a moved folder; else None.
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    named = state.model_checkpoint_path
    folder = os.fspath(checkpoint_dir)
    try:
        finder = Finder()
        if finder.find(named) is not None:
            return named
        paths = (os.path.join(folder, path) for path in other_paths(named))
        beside = next((path for path in paths if finder.find(path) is not None), None)
    except CkptError:
        return None
    if beside is None:
        return None
    warnings.warn(f"'{named}' does not exist; using '{beside}'", stacklevel=2)
    return beside


def checkpoints_iterator(
    checkpoint_dir: StrPath,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """Yield the latest checkpoint of a folder, and each new latest one.

    Args:
        checkpoint_dir: the folder.
        min_interval_secs: least time between two yields; checkpoints in between may be skipped.
        timeout: how long to wait for a new one, in seconds; None waits for ever.
        timeout_fn: called after each checkpoint and each timeout; the iterator ends when it returns
            true. Without it the iterator ends at the first timeout.
    """
    previous: str | None = None
    while True:
        found = _wait_for_new(checkpoint_dir, previous, timeout)
        if found is not None:
            start = time.monotonic()
            previous = found
            yield found
            rest = min_interval_secs - (time.monotonic() - start)
            if rest > 0:
                time.sleep(rest)
        elif timeout_fn is None:
            return
        if timeout_fn is not None and timeout_fn():
            return


def _wait_for_new(
    checkpoint_dir: StrPath, previous: str | None, timeout: float | None
) -> str | None:
    pause = 1.0
    stop = None if timeout is None else time.monotonic() + timeout
    while True:
        found = latest_checkpoint(checkpoint_dir)
        if found is not None and found != previous:
            return found
        if stop is not None and time.monotonic() + pause > stop:
            return None
        time.sleep(pause)
