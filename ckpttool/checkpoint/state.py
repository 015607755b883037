"""The text file that names the latest checkpoint of a folder.

It is the text form of TensorFlow's CheckpointState, usually called `checkpoint`:

    model_checkpoint_path: "ckpt-3"
    all_model_checkpoint_paths: "ckpt-2"
    all_model_checkpoint_paths: "ckpt-3"
    all_model_checkpoint_timestamps: 1795181199.8361657
    all_model_checkpoint_timestamps: 1795181199.8458865
    last_preserved_timestamp: 1795181198.828453

Relative paths are relative to the folder of the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from ckpttool.errors import ChangedError, CorruptError, DestinationError, MissingFileError
from ckpttool.storage.source import RandomAccessFile

STATE_NAME = "checkpoint"
MAX_SIZE = 16 << 20  # a line takes a hundred bytes
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# A line as TensorFlow writes it, without escapes. A file of only such lines is read here, because
# importing protobuf would add 35 ms to the 85 ms of a small `ckpt ls`.
_PLAIN_LINE = re.compile(
    r'((?:all_)?model_checkpoint_paths?): "([^"\\\x00-\x1f\x7f]*)"\n'
    r"|(all_model_checkpoint_timestamps|last_preserved_timestamp): "
    r"((?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[+-][0-9]+)?)\n"
)


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The contents of a state file, by the names of its fields.

    Attributes:
        model_checkpoint_path: the latest checkpoint's prefix.
        all_model_checkpoint_paths: prefixes of those the writer still manages, oldest first.
        all_model_checkpoint_timestamps: when these were saved, in seconds since 1970; may be empty.
        last_preserved_timestamp: when the last permanent one was saved; 0 if not stated.
        marked: whether the file begins with a byte order mark, which TensorFlow refuses.
    """

    model_checkpoint_path: str = ""
    all_model_checkpoint_paths: tuple[str, ...] = ()
    all_model_checkpoint_timestamps: tuple[float, ...] = ()
    last_preserved_timestamp: float = 0.0
    marked: bool = False

    def joined_to(self, folder: str) -> CheckpointState:
        """Return the state with relative paths joined to the folder of the file.

        As TensorFlow's `get_checkpoint_state`; absolute paths stay.
        """
        return replace(
            self,
            model_checkpoint_path=self.model_checkpoint_path
            and os.path.join(folder, self.model_checkpoint_path),
            all_model_checkpoint_paths=tuple(
                os.path.join(folder, path) for path in self.all_model_checkpoint_paths
            ),
        )


def read_state(path: str) -> CheckpointState:
    """Read a state file; its paths stay unchanged.

    Args:
        path: the file, or a folder for its file `checkpoint`.

    Raises:
        MissingFileError: there is none.
        CorruptError: it is not the text of a CheckpointState.
    """
    if os.path.isdir(path):
        path = os.path.join(path, STATE_NAME)
    with RandomAccessFile(path) as file:
        _check_size(file.size, path)
        return parse_state(file.read_at(0, file.size), path=path)


def parse_state(text: bytes, *, path: str | None = None) -> CheckpointState:
    """Parse the text of a CheckpointState.

    Any protobuf text is accepted, with line ends of Windows too. Stricter than TensorFlow, a second
    value for a singular field is an error.

    Raises:
        CorruptError: it is too large, not UTF-8, or is no such text.
    """
    _check_size(len(text), path)
    marked = text.startswith(_BYTE_ORDER_MARK)
    try:
        decoded = text[len(_BYTE_ORDER_MARK) if marked else 0 :].decode()
    except UnicodeDecodeError as error:
        raise CorruptError("the state file is not UTF-8", path=path, offset=error.start) from error
    state = _parse_plain(decoded)
    if state is not None:
        return replace(state, marked=True) if marked else state
    from ckpttool import pb
    from ckpttool.pb.convert import from_text

    message = from_text(pb.CheckpointState, decoded, path=path)
    return CheckpointState(
        message.model_checkpoint_path,
        tuple(message.all_model_checkpoint_paths),
        tuple(message.all_model_checkpoint_timestamps),
        message.last_preserved_timestamp,
        marked,
    )


def format_state(state: CheckpointState) -> str:
    """Return the text that TensorFlow writes for a state.

    Raises:
        DestinationError: a path is not UTF-8, which the file cannot hold.
    """
    from ckpttool import pb
    from ckpttool.pb.convert import to_text

    for path in (state.model_checkpoint_path, *state.all_model_checkpoint_paths):
        refuse_unnamable(path)
    return to_text(
        pb.CheckpointState(
            model_checkpoint_path=state.model_checkpoint_path,
            all_model_checkpoint_paths=state.all_model_checkpoint_paths,
            all_model_checkpoint_timestamps=state.all_model_checkpoint_timestamps,
            last_preserved_timestamp=state.last_preserved_timestamp,
        )
    )


def refuse_unnamable(path: str) -> None:
    """Raise `DestinationError` if a state file cannot name a checkpoint."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise DestinationError(
            "a state file cannot name it: the path is not UTF-8", path=path
        ) from error


def write_state(
    path: str, state: CheckpointState, *, before_last: Callable[[], None] | None = None
) -> None:
    """Write a state file in one step; one that is there is replaced and keeps its permissions.

    Args:
        path: of the file.
        state: what to write.
        before_last: called right before the file gets its name; if it raises, the old one stays.

    Raises:
        CkptError: it cannot be written.
    """
    from ckpttool.storage.staging import StagedFiles  # a reader needs none

    try:
        with RandomAccessFile(path) as file:
            permissions = file.permissions
    except MissingFileError:
        permissions = None
    text = format_state(state)
    with StagedFiles() as staged:
        new = staged.create(path, mode=0o666 if permissions is None else 0o600)
        if permissions is not None:
            new.take_permissions(permissions)
        new.write(text.encode())
        staged.commit(replace_last=True, before_last=before_last)


def state_bytes(path: str) -> bytes | None:
    """Return the bytes of a state file; None where there is none.

    Raises:
        FileAccessError: it cannot be read.
    """
    try:
        with RandomAccessFile(path) as file:
            return file.read_at(0, min(file.size, MAX_SIZE + 1))
    except MissingFileError:
        return None


def replace_state(path: str, state: CheckpointState, before: bytes | None) -> None:
    """Write a state file if nobody has changed it meanwhile.

    Args:
        path: of the file.
        state: what to write.
        before: what `state_bytes` returned when the new state was made.

    Raises:
        ChangedError: it has other bytes now; it stays as it is.
        CkptError: it cannot be written.
    """

    def refuse_changed() -> None:
        if state_bytes(path) != before:
            raise ChangedError("other processes keep changing the state file", path=path)

    write_state(path, state, before_last=refuse_changed)


def _check_size(size: int, path: str | None) -> None:
    if size > MAX_SIZE:
        raise CorruptError(f"a state file of {size} bytes is too large", path=path)


def _parse_plain(text: str) -> CheckpointState | None:
    """Parse a text of plain lines only; None for any other."""
    latest: str | None = None
    preserved: float | None = None
    paths, timestamps = [], []
    pos = 0
    while pos < len(text):
        match = _PLAIN_LINE.match(text, pos)
        if match is None:
            return None
        pos = match.end()
        name, value = match[1] or match[3], match[2] if match[1] else match[4]
        if name == "all_model_checkpoint_paths":
            paths.append(value)
        elif name == "all_model_checkpoint_timestamps":
            timestamps.append(float(value))
        elif name == "model_checkpoint_path" and latest is None:
            latest = value
        elif name == "last_preserved_timestamp" and preserved is None:
            preserved = float(value)
        else:
            return None
    return CheckpointState(latest or "", tuple(paths), tuple(timestamps), preserved or 0.0)
