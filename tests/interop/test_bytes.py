"""The same tensors give the same files, byte for byte, as TensorFlow's SaveV2 writes."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpttool.bundle.reader import BundleReader
from ckpttool.bundle.writer import BundleWriter
from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.slices import TensorSlice
from tests.interop.partitions import grid, numpy_index, spec
from tests.interop.values import PLAIN_DTYPES, Array, as_tensor, content, sample
from tests.support.fixtures import folder_contents

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """What one input of SaveV2 stores: a tensor, or a slice of it."""

    key: str
    shape: Shape
    part: TensorSlice | None
    array: Array


def save_with_tensorflow(tf: Any, prefix: str, pieces: list[Piece]) -> None:
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=[piece.key.encode("utf-8", "surrogateescape") for piece in pieces],
        shape_and_slices=[spec(p.shape, p.part) if p.part else "" for p in pieces],
        tensors=[as_tensor(tf, piece.array) for piece in pieces],
    )


def add_piece(writer: BundleWriter, piece: Piece, shard_id: int = 0) -> None:
    if piece.part is None:
        writer.add(piece.key, piece.array, shard_id=shard_id)
    else:
        writer.add_slice(piece.key, piece.shape, piece.part, piece.array, shard_id=shard_id)


def assert_same_files(tf: Any, root: Path, pieces: list[Piece]) -> None:
    ours, theirs = root / "ours", root / "theirs"
    theirs.mkdir()
    save_with_tensorflow(tf, str(theirs / "b"), pieces)
    with BundleWriter(str(ours / "b")) as writer:
        for piece in pieces:
            add_piece(writer, piece)
    assert folder_contents(ours) == folder_contents(theirs)
    with BundleReader(str(theirs / "b")) as reader:
        for piece in pieces:
            value = reader.read(piece.key)
            if piece.part is not None:
                value = value[numpy_index(piece.part, piece.shape)]
            assert content(value) == content(piece.array), piece.key


raw_keys = st.one_of(
    st.text(min_size=1, max_size=40).map(str.encode),
    st.lists(st.text("abz_01./-", min_size=1, max_size=8), min_size=1, max_size=6)
    .map("/".join)
    .map(str.encode),
    st.binary(min_size=1, max_size=20),
)
dims = st.integers(0, 5)


@st.composite
def tensors(draw: st.DrawFn, key: str) -> list[Piece]:
    """Draw a tensor, whole or cut into a grid."""
    dtype: DType = draw(st.sampled_from(PLAIN_DTYPES))
    sliced = draw(st.booleans())
    shape = tuple(draw(st.lists(st.integers(1, 6) if sliced else dims, max_size=4)))
    array = sample(dtype, shape, seed=draw(st.integers(0, 9)))
    if not sliced or not shape:
        return [Piece(key, shape, None, array)]
    cuts = {
        axis: sorted(draw(st.sets(st.integers(1, dim - 1), max_size=2)))
        for axis, dim in enumerate(shape)
        if dim > 1
    }
    parts = draw(st.permutations(grid(shape, cuts, dashes=draw(st.booleans()))))
    return [Piece(key, shape, part, array[numpy_index(part, shape)]) for part in parts]


@st.composite
def bundles(draw: st.DrawFn) -> list[Piece]:
    """Draw the pieces of a bundle, those of different tensors mixed."""
    names = draw(st.lists(raw_keys, min_size=1, max_size=8, unique=True))
    keys = [name.decode("utf-8", "surrogateescape") for name in names]
    pieces = [piece for key in keys for piece in draw(tensors(key))]
    return draw(st.permutations(pieces)) if draw(st.booleans()) else pieces


@given(pieces=bundles())
@settings(max_examples=150)
def test_any_bundle(tf: Any, pieces: list[Piece]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_same_files(tf, Path(folder), pieces)


@pytest.mark.parametrize("dtype", PLAIN_DTYPES, ids=str)
def test_every_dtype(tf: Any, tmp_path: Path, dtype: DType) -> None:
    shapes: list[Shape] = [(), (0,), (9,), (2, 0, 3), (3, 3), (1, 1, 1, 1, 1)]
    pieces = [Piece(f"t{at}", shape, None, sample(dtype, shape)) for at, shape in enumerate(shapes)]
    whole = sample(dtype, (4, 3))
    for part in grid((4, 3), {0: [1]}, dashes=True):
        pieces.append(Piece("cut", (4, 3), part, whole[numpy_index(part, (4, 3))]))
    assert_same_files(tf, tmp_path, pieces)


def test_many_blocks(tf: Any, tmp_path: Path) -> None:
    """Long keys fill several blocks; one key is so long that it gets a block to itself."""
    numbers = np.random.default_rng(7).permutation(2500)
    names = [f"{'a_scope/' * 30}layer_{at:04d}/w" for at in numbers] + ["k" * 600_000, "l"]
    float32 = PLAIN_DTYPES[0]
    pieces = [
        Piece(name, (at % 3,), None, sample(float32, (at % 3,))) for at, name in enumerate(names)
    ]
    assert_same_files(tf, tmp_path, pieces)


def test_layouts_other_than_rows(tf: Any, tmp_path: Path) -> None:
    """The same values in Fortran order, backwards, strided or big-endian are the same tensor."""
    float32 = PLAIN_DTYPES[0]
    array = sample(float32, (4, 6))
    pieces = [Piece(f"w{at}", (4, 6), None, array) for at in range(4)]
    (tmp_path / "theirs").mkdir()
    save_with_tensorflow(tf, str(tmp_path / "theirs" / "b"), pieces)
    wide = np.repeat(array, 2, axis=1)
    layouts = [
        np.asfortranarray(array),
        array[::-1, ::-1].copy()[::-1, ::-1],
        wide[:, ::2],
        array.astype(array.dtype.newbyteorder(">")),
    ]
    with BundleWriter(str(tmp_path / "ours" / "b")) as writer:
        for piece, layout in zip(pieces, layouts, strict=True):
            writer.add(piece.key, layout)
    assert folder_contents(tmp_path / "ours") == folder_contents(tmp_path / "theirs")


def merged(tf: Any, folder: Path, shards: list[list[Piece]]) -> dict[str, bytes]:
    """Write a bundle for each shard and merge them, as a sharded save does."""
    prefixes = []
    for at, pieces in enumerate(shards):
        prefixes.append(str(folder / "parts" / f"part-{at}"))
        save_with_tensorflow(tf, prefixes[-1], pieces)
    (folder / "theirs").mkdir()
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=prefixes, destination_prefix=str(folder / "theirs" / "b")
    )
    return folder_contents(folder / "theirs")


@pytest.mark.parametrize("first", [0, 1])
def test_merged_shards(tf: Any, tmp_path: Path, first: int) -> None:
    """Three shards; the slices of a tensor lie in two of them.

    Args:
        first: the shard that has the first slice.
    """
    shape = (5, 2)
    whole = sample(PLAIN_DTYPES[1], shape)
    parts = grid(shape, {0: [1, 2, 4]})
    slices = [Piece("p", shape, part, whole[numpy_index(part, shape)]) for part in parts]
    shards: list[list[Piece]] = [
        [Piece(f"t{at}/{dtype}", (3,), None, sample(dtype, (3,))) for dtype in PLAIN_DTYPES[at::9]]
        for at in range(3)
    ]
    shards[first] += slices[:2]
    shards[2] += slices[2:]
    expected = merged(tf, tmp_path, shards)
    with BundleWriter(str(tmp_path / "ours" / "b"), num_shards=3) as writer:
        for shard_id, pieces in enumerate(shards):
            for piece in pieces:
                add_piece(writer, piece, shard_id)
    assert folder_contents(tmp_path / "ours") == expected
