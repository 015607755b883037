"""What TensorFlow's CheckpointReader finds in its own files is what we find in them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool.bundle.reader import BundleReader
from ckpttool.tensor.dtypes import VARIANT
from tests.interop.corpus import Fixture, checkpoints
from tests.interop.values import content
from tests.support.fixtures import digest

BUNDLES = checkpoints("V2")
ANY_BUNDLE = pytest.mark.parametrize("fixture", BUNDLES, ids=lambda fixture: fixture.name)
UNREADABLE_KEYS = "codec can't decode"
VARIANT_REFUSALS = ("not convertible to numpy dtype", "Could not decode variant")
SLICES_REFUSAL = "not supported"


def open_with_tensorflow(tf: Any, fixture: Fixture, folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return TensorFlow's reader and its dtypes; none where its keys are no text to Python."""
    path = fixture.path
    if "[" in path:  # TensorFlow takes the prefix for a glob: show it the files by another name
        with pytest.raises(tf.errors.NotFoundError):
            tf.train.load_checkpoint(path)
        for member in Path(path).parent.iterdir():
            if member.name.startswith(Path(path).name):
                shutil.copy(member, folder / member.name.replace("[", "").replace("]", ""))
        path = str(folder / Path(path).name.replace("[", "").replace("]", ""))
    reader = tf.train.load_checkpoint(path)
    try:
        return reader, reader.get_variable_to_dtype_map()
    except UnicodeDecodeError as error:
        assert UNREADABLE_KEYS in str(error)
        assert not fixture.tensors
        return reader, {}


def test_fixtures_are_found() -> None:
    assert len(BUNDLES) > 90


@ANY_BUNDLE
def test_keys_dtypes_and_shapes_are_those_of_tensorflow(
    tf: Any, fixture: Fixture, tmp_path: Path
) -> None:
    reader, dtypes = open_with_tensorflow(tf, fixture, tmp_path)
    with BundleReader(fixture.path) as ours:
        if not dtypes:
            assert any("\udc80" <= char <= "\udcff" for key in ours.entries for char in key)
            return
        assert set(ours.entries) == set(dtypes)
        assert list(ours.entries) == sorted(dtypes, key=str.encode)
        shapes = reader.get_variable_to_shape_map()
        for key, entry in ours.entries.items():
            assert entry.dtype.number == dtypes[key].as_datatype_enum, key
            assert entry.dtype.name == dtypes[key].name, key
            if entry.dtype != VARIANT:  # TensorFlow has no answer there
                assert entry.dtype.as_numpy_dtype == dtypes[key].as_numpy_dtype, key
            assert list(entry.shape) == shapes[key], key
            assert ours.entries.dtype_and_shape(key) == (entry.dtype, entry.shape), key


@ANY_BUNDLE
def test_values_are_those_of_tensorflow_bit_by_bit(
    tf: Any, fixture: Fixture, tmp_path: Path
) -> None:
    reader, dtypes = open_with_tensorflow(tf, fixture, tmp_path)
    with BundleReader(fixture.path) as ours:
        for key in dtypes:
            entry = ours.entries[key]
            value = ours.read(key)
            assert value.dtype == entry.dtype.as_numpy_dtype, key
            if entry.dtype == VARIANT:
                with pytest.raises(tf.errors.OpError) as refusal:
                    reader.get_tensor(key)
                assert any(reason in str(refusal.value) for reason in VARIANT_REFUSALS)
            elif entry.slices and not entry.dtype.joinable:
                with pytest.raises(ValueError, match=SLICES_REFUSAL):
                    reader.get_tensor(key)
                assert digest(value) == fixture.tensors[key]["sha256"], key
            else:
                assert content(value) == content(reader.get_tensor(key)), key


def test_variants_are_the_ones_that_were_stored(tf: Any) -> None:
    """Read by TensorFlow's op and stored by it again, they have the bytes that we read."""
    prefix = next(fix.path for fix in BUNDLES if fix.name.endswith("variants/variants"))
    with BundleReader(prefix) as ours:
        (optional,) = ours.read("optional/some").ravel()
        (floats,) = ours.read("list/float32").ravel()
        restored = tf.raw_ops.RestoreV2(
            prefix=prefix,
            tensor_names=["optional/some", "list/float32"],
            shape_and_slices=["", ""],
            dtypes=[tf.variant, tf.variant],
        )
    number = tf.raw_ops.OptionalGetValue(
        optional=restored[0], output_types=[tf.int32], output_shapes=[[]]
    )
    assert optional.type_name == "tensorflow::data::Optional"
    assert list(optional.message.tensors[0].int_val) == number[0].numpy().ravel().tolist() == [5]
    rows = tf.raw_ops.TensorListStack(
        input_handle=restored[1], element_shape=[2], element_dtype=tf.float32
    ).numpy()
    assert floats.type_name == "tensorflow::TensorList"
    stored = [list(tensor.float_val) for tensor in floats.message.tensors]
    np.testing.assert_array_equal(np.array(stored, np.float32), rows)
