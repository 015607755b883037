"""TensorFlow reads what we write: every dtype, slices, shards, odd keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ckpttool
from ckpttool.bundle.reader import BundleReader
from ckpttool.bundle.writer import BundleWriter
from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.slices import TensorSlice
from tests.interop.corpus import FIXTURES
from tests.interop.partitions import grid, numpy_index, spec
from tests.interop.values import PLAIN_DTYPES, Array, content, sample

SHAPES: dict[str, tuple[int, ...]] = {
    "scalar": (),
    "none": (0,),
    "empty": (3, 0, 2),
    "one": (1,),
    "vector": (7,),
    "matrix": (3, 5),
    "four": (2, 1, 3, 2),
}
KEYS = (
    "a",
    "a/b",
    "a.b/c d",
    "/leading",
    "trailing/",
    "\x00zero",
    "\x00\x01two",
    "z\x00inside",
    "esc\x1b[31m",
    "new\nline\ttab",
    "glob*?[x]{y}",
    "umlaut ü 日本 \U0001f642",
    "\U0010ffff",
    "k" * 300,
    "_CHECKPOINTABLE_OBJECT_GRAPH",
    "p,q:-",
)
ANY_DTYPE = pytest.mark.parametrize("dtype", PLAIN_DTYPES, ids=str)


def restore(tf: Any, prefix: str, key: str | bytes, spec: str, dtype: DType) -> Any:
    """Read one tensor or slice with TensorFlow's op."""
    (tensor,) = tf.raw_ops.RestoreV2(
        prefix=prefix,
        tensor_names=[key],
        shape_and_slices=[spec],
        dtypes=[tf.as_dtype(dtype.number)],
    )
    return tensor.numpy()


@ANY_DTYPE
def test_tensors_of_every_dtype_and_shape(tf: Any, tmp_path: Path, dtype: DType) -> None:
    prefix = str(tmp_path / "out" / "ckpt-1")
    arrays = {name: sample(dtype, shape) for name, shape in SHAPES.items()}
    with BundleWriter(prefix) as writer:
        for key, array in arrays.items():
            writer.add(key, array)
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_variable_to_shape_map() == {key: list(shape) for key, shape in SHAPES.items()}
    dtypes = reader.get_variable_to_dtype_map()
    for key, array in arrays.items():
        assert dtypes[key].as_datatype_enum == dtype.number
        assert content(reader.get_tensor(key)) == content(array), key
        assert content(restore(tf, prefix, key, "", dtype)) == content(array), key


def test_variants_are_carried_from_bundle_to_bundle(tf: Any, tmp_path: Path) -> None:
    source = str(FIXTURES / "v2/tf2.21/variants/variants")
    target, again = str(tmp_path / "target"), str(tmp_path / "again")
    with BundleReader(source) as theirs, BundleWriter(target) as writer:
        for key in theirs.entries:
            writer.add(key, theirs.read(key))
        keys = [key for key in theirs.entries if key != "dataset"]  # TensorFlow cannot restore it
        numbers = [theirs.entries[key].dtype.number for key in keys]
    tensors = tf.raw_ops.RestoreV2(
        prefix=target,
        tensor_names=keys,
        shape_and_slices=[""] * len(keys),
        dtypes=[tf.as_dtype(number) for number in numbers],
    )
    tf.raw_ops.SaveV2(
        prefix=again, tensor_names=keys, shape_and_slices=[""] * len(keys), tensors=tensors
    )
    with BundleReader(target) as ours, BundleReader(again) as resaved:
        for key in keys:
            assert content(resaved.read(key)) == content(ours.read(key)), key
            assert resaved.entries[key].crc32c == ours.entries[key].crc32c, key


PARTITIONS = {
    "rows": grid((7, 4), {0: [1, 5]}),
    "columns": grid((7, 4), {1: [1, 2]}),
    "grid": grid((7, 4), {0: [3], 1: [1, 2]}),
    "dashes": grid((7, 4), {0: [2]}, dashes=True),
    "backwards": grid((7, 4), {0: [1, 5]})[::-1],
    "one_spelled_out": grid((7, 4), {}),
    "one_dash": grid((7, 4), {}, dashes=True),
    "vector": grid((300,), {0: [1, 63, 64, 255]}),
    "cube": grid((2, 3, 4), {0: [1], 1: [1, 2], 2: [2]}),
}


def whole_shape(parts: list[TensorSlice]) -> tuple[int, ...]:
    """Return the shape that the parts of a partition make up."""
    if parts == PARTITIONS["vector"]:
        return (300,)
    return (2, 3, 4) if parts == PARTITIONS["cube"] else (7, 4)


@ANY_DTYPE
@pytest.mark.parametrize("name", PARTITIONS)
def test_slices_are_read_as_they_are_joined_and_cut_anew(
    tf: Any, tmp_path: Path, dtype: DType, name: str
) -> None:
    parts = PARTITIONS[name]
    shape = whole_shape(parts)
    array = sample(dtype, shape)
    prefix = str(tmp_path / "sliced")
    with BundleWriter(prefix, num_shards=2) as writer:
        for at, part in enumerate(parts):
            value = array[numpy_index(part, shape)]
            writer.add_slice("scope/w", shape, part, value, shard_id=at % 2)
        writer.add("z", sample(dtype, ()), shard_id=1)
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_variable_to_shape_map() == {"scope/w": list(shape), "z": []}
    for part in parts:
        stored = restore(tf, prefix, "scope/w", spec(shape, part), dtype)
        assert content(stored) == content(array[numpy_index(part, shape)]), str(part)
    whole = len(parts) == 1
    if whole or dtype.joinable:
        assert content(reader.get_tensor("scope/w")) == content(array)
        assert content(restore(tf, prefix, "scope/w", "", dtype)) == content(array)
    else:
        with pytest.raises(ValueError, match="not supported"):
            reader.get_tensor("scope/w")
    if dtype.joinable:
        across = TensorSlice(tuple((dim // 3, dim - dim // 3) for dim in shape))
        cut = restore(tf, prefix, "scope/w", spec(shape, across), dtype)
        assert content(cut) == content(array[numpy_index(across, shape)])


@pytest.mark.parametrize("num_shards", [1, 2, 5])
def test_shards(tf: Any, tmp_path: Path, num_shards: int) -> None:
    prefix = str(tmp_path / "ckpt")
    arrays: dict[str, Array] = {
        f"layer_{at}/{dtype}": sample(dtype, (at % 4, 3)) for at, dtype in enumerate(PLAIN_DTYPES)
    }
    with BundleWriter(prefix, num_shards=num_shards) as writer:
        for at, (key, array) in enumerate(arrays.items()):
            writer.add(key, array, shard_id=at % num_shards)
    assert len(list(tmp_path.iterdir())) == num_shards + 1
    reader = tf.train.load_checkpoint(prefix)
    assert set(reader.get_variable_to_shape_map()) == set(arrays)
    for key, array in arrays.items():
        assert content(reader.get_tensor(key)) == content(array), key


def test_odd_keys(tf: Any, tmp_path: Path) -> None:
    prefix = str(tmp_path / "odd")
    rows = grid((2, 2), {0: [1]})
    whole, sliced = PLAIN_DTYPES[0], PLAIN_DTYPES[2]
    array = sample(sliced, (2, 2))
    with BundleWriter(prefix) as writer:
        for at, key in enumerate(KEYS):
            writer.add(key, sample(whole, (2,), seed=at))
            for part in rows:
                value = array[numpy_index(part, (2, 2))]
                writer.add_slice(key + "/sliced", (2, 2), part, value)
    reader = tf.train.load_checkpoint(prefix)
    assert set(reader.get_variable_to_shape_map()) == {
        name for key in KEYS for name in (key, key + "/sliced")
    }
    for at, key in enumerate(KEYS):
        assert content(reader.get_tensor(key)) == content(sample(whole, (2,), seed=at)), key
        assert content(reader.get_tensor(key + "/sliced")) == content(array), key


def test_keys_that_are_not_utf8(tf: Any, tmp_path: Path) -> None:
    prefix = str(tmp_path / "bytes")
    keys = [b"\xff\x00", b"latin-\xe9", b"\x80" * 200]
    dtype = PLAIN_DTYPES[0]
    with BundleWriter(prefix) as writer:
        for at, key in enumerate(keys):
            writer.add(key.decode("utf-8", "surrogateescape"), sample(dtype, (3,), seed=at))
    for at, key in enumerate(keys):
        restored = restore(tf, prefix, key, "", dtype)
        assert content(restored) == content(sample(dtype, (3,), seed=at)), key


def test_many_keys_in_several_blocks_of_the_index(tf: Any, tmp_path: Path) -> None:
    prefix = str(tmp_path / "many")
    keys = [f"{'scope/' * 20}layer_{at}/kernel" for at in range(5000)]
    dtype = PLAIN_DTYPES[0]
    with BundleWriter(prefix) as writer:
        for at, key in enumerate(keys):
            writer.add(key, sample(dtype, (at % 3,)))
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_variable_to_shape_map() == {key: [at % 3] for at, key in enumerate(keys)}
    for at in (0, 1, 2499, 4999):
        assert content(reader.get_tensor(keys[at])) == content(sample(dtype, (at % 3,)))


@pytest.mark.parametrize("num_shards", [1, 3])
def test_save_checkpoint(tf: Any, tmp_path: Path, num_shards: int) -> None:
    prefix = str(tmp_path / "saved")
    arrays = {f"t/{dtype}": sample(dtype, (3, 2)) for dtype in PLAIN_DTYPES}
    tensors: dict[str, Any] = {
        **arrays,
        "bytes": [b"a\x00", b"\xff", b""],
        "text": "grün",
        "number": 7,
        "flag": True,
        "x": [[1.5]],
    }
    ckpttool.save_checkpoint(prefix, tensors, num_shards=num_shards)
    reader = tf.train.load_checkpoint(prefix)
    assert set(reader.get_variable_to_shape_map()) == set(tensors)
    for key, array in arrays.items():
        assert content(reader.get_tensor(key)) == content(array), key
    assert reader.get_tensor("text") == "grün".encode()
    assert reader.get_tensor("bytes").tolist() == [b"a\x00", b"\xff", b""]
    assert reader.get_tensor("number") == 7
    assert reader.get_tensor("flag")
    assert reader.get_tensor("x").tolist() == [[1.5]]
