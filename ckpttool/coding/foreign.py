"""Files of other programs, told by how they begin.

For error messages, and for files of arrays without the ending of their format: their readers
believe nothing of this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ckpttool.coding.checksum import crc32c, mask

HEAD_SIZE = 4096
POINTER_SIZE = 1024  # a pointer of Git LFS is shorter by its specification
_MAX_HEADER = 100_000_000  # safetensors takes none that is longer
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v\d+\n(?:(?:[^\n]*\n)*?size (\d{1,19})\n)?"
)
_PRODUCER = re.compile(rb"\x08[\x03-\x20]\x12(.)", re.DOTALL)  # of ONNX: version, producer
# Of a GraphDef: a node, its name, and the name of its op, in which there is nothing else.
_NODE = re.compile(rb"\n[\x80-\xff]{0,4}[\x00-\x7f]\n([\x01-\x7f])", re.DOTALL)
_OP = re.compile(rb"\x12([\x01-\x7f])(_?[A-Z][0-9A-Za-z_]*)")
_PAGE = re.compile(rb"\s*<(?:!doctype html|html|\?xml)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Foreign:
    """What a file is that is no checkpoint of TensorFlow.

    Attributes:
        what: in words.
        remedy: what to do with it; "" where nothing helps.
        arrays: "safetensors", "npz", "npy" or "h5" for what is read as a checkpoint is; else "".
    """

    what: str
    remedy: str = ""
    arrays: str = ""

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


_UNPACK = "unpack it first"
_LISTED = "`ckpt ls` lists its tensors"
_PYTORCH = Foreign("a PyTorch file", "torch.load reads it")
_PICKLE = Foreign("a Python pickle", "unpickle it only if you trust whoever made it")
_STARTS = (
    (0, b"\x89HDF\r\n\x1a\n", Foreign("HDF5, such as Keras weights", _LISTED, "h5")),
    (0, b"\x93NUMPY", Foreign("a NumPy array", _LISTED, "npy")),
    (0, b"GGUF", Foreign("GGUF, as llama.cpp reads it", "the package gguf reads it")),
    (4, b"TFL3", Foreign("a TensorFlow Lite model", "its tensors are in no checkpoint")),
    (
        0,
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
        Foreign("a PyTorch file", "torch.load reads it"),
    ),
    (0, b"\x80\x02", _PICKLE),
    (0, b"\x80\x03", _PICKLE),
    (0, b"\x80\x04", _PICKLE),
    (0, b"\x80\x05", _PICKLE),
    (0, b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f", Foreign("a SavedModel split into chunks (.cpb)")),
    (64, b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f", Foreign("a SavedModel split into chunks (.cpb)")),
    (0, b"/annex/objects/", Foreign("a pointer of git-annex", "fetch the file: git annex get")),
    (0, b"\x1f\x8b", Foreign("a gzip file", _UNPACK)),
    (0, b"\x28\xb5\x2f\xfd", Foreign("a zstd file", _UNPACK)),
    (0, b"\xfd7zXZ\0", Foreign("an xz file", _UNPACK)),
    (0, b"BZh", Foreign("a bzip2 file", _UNPACK)),
    (257, b"ustar", Foreign("a tar archive", _UNPACK)),
    (0, b"\x7fELF", Foreign("a program")),
)
# Of a ZIP archive the name of its first member tells.
_MEMBERS = (
    (re.compile(rb"(?:.*/)?(?:data\.pkl|\.format_version|byteorder)\Z"), _PYTORCH),
    (re.compile(rb".*\.npy\Z"), Foreign("a NumPy archive (.npz)", _LISTED, "npz")),
    (
        re.compile(rb"(?:metadata|config)\.json\Z|model\.weights\.h5\Z"),
        Foreign(
            "a Keras 3 model (.keras)",
            "unzip it, and `ckpt ls` lists its model.weights.h5",
        ),
    ),
)
_TEXTS = (
    (b'"weight_map"', Foreign("the list of the shards of a safetensors or PyTorch model")),
    (b'"weightsManifest"', Foreign("a TensorFlow.js model", "the tensorflowjs converter reads it")),
    (b'"modelTopology"', Foreign("a TensorFlow.js model", "the tensorflowjs converter reads it")),
)


def foreign_bytes(head: bytes, size: int) -> Foreign | None:
    """Tell what a file is from its first bytes.

    Args:
        head: the first `HEAD_SIZE` bytes, or all if there are fewer.
        size: of the file.

    Returns:
        None for a file that is nothing known here.
    """
    pointer = _POINTER.match(head) if size <= POINTER_SIZE else None
    if pointer:
        stands = f" of {int(pointer[1]):,} bytes" if pointer[1] else ""
        return Foreign(f"a pointer of Git LFS to a file{stands}", "fetch that: git lfs pull")
    for at, start, found in _STARTS:
        if head.startswith(start, at):
            return found
    if head.startswith(b"PK\x03\x04"):
        return _archive(head)
    return _tensors(head, size) or _text(head)


def _archive(head: bytes) -> Foreign:
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    found = (each for pattern, each in _MEMBERS if pattern.match(name))
    return next(found, Foreign("a ZIP archive", _UNPACK))


def _tensors(head: bytes, size: int) -> Foreign | None:
    length = int.from_bytes(head[:8], "little")
    if head[8:9] == b"{" and 2 <= length <= min(_MAX_HEADER, size - 8):
        return Foreign("safetensors", _LISTED, "safetensors")
    if len(head) >= 16 and mask(crc32c(head[:8])) == int.from_bytes(head[8:12], "little"):
        return Foreign("TFRecord, such as an event file of TensorBoard")
    producer = _PRODUCER.match(head)
    if producer and head[4 : 4 + producer[1][0]].isascii() and size > 64:
        return Foreign("an ONNX model", "the package onnx reads it")
    node = _NODE.match(head)
    op = _OP.match(head, node.end() + node[1][0]) if node else None
    if op and len(op[2]) >= op[1][0]:
        return Foreign("a GraphDef, such as a frozen graph", "its weights are constants in it")
    return None


def _text(head: bytes) -> Foreign | None:
    if _PAGE.match(head):
        return Foreign("a page of HTML or XML, perhaps of a download that failed")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        return next((found for word, found in _TEXTS if word in head), None)
    return None
