from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckpttool import pb
from ckpttool.metagraph.compare.constants import same_tensor
from ckpttool.tensor.dtypes import dtype_of_name


def tensor(dtype: str, shape: tuple[int, ...], content: Any = b"", **fields: Any) -> Any:
    message = pb.TensorProto(dtype=dtype_of_name(dtype).number, tensor_content=content, **fields)
    message.tensor_shape.SetInParent()
    for size in shape:
        message.tensor_shape.dim.add(size=size)
    return message


CASES = [
    ("float32", np.float32, "float_val", [1.5, -2.0, -2.0]),
    ("float64", np.float64, "double_val", [1.5, np.nan, np.nan]),
    ("int32", np.int32, "int_val", [7, -1, -1]),
    ("int16", np.int16, "int_val", [7, -1, -1]),
    ("uint8", np.uint8, "int_val", [7, 255, 255]),
    ("int64", np.int64, "int64_val", [1 << 40, 2, 2]),
    ("uint64", np.uint64, "uint64_val", [1 << 63, 2, 2]),
    ("bool", np.bool_, "bool_val", [True, False, False]),
]


@pytest.mark.parametrize(("name", "dtype", "field", "values"), CASES)
def test_bytes_and_fields(name: str, dtype: Any, field: str, values: list[Any]) -> None:
    content = tensor(name, (3,), np.array(values, dtype).tobytes())
    listed = tensor(name, (3,), **{field: values})
    cut = tensor(name, (3,), **{field: values[:2]})
    for one in (content, listed, cut):
        for other in (content, listed, cut):
            assert same_tensor(one, other)
    for wrong in (
        tensor(name, (3,), **{field: values[:1]}),
        tensor(name, (3,)),
        tensor(name, (4,), **{field: values}),
        tensor(name, (3,), np.array(values[::-1], dtype).tobytes()),
        tensor(name, (3,), b"\x01"),
    ):
        for one in (content, listed, cut):
            assert not same_tensor(one, wrong) and not same_tensor(wrong, one)


def test_half_and_complex() -> None:
    half = np.array([1, 2, 2], np.float16)
    assert same_tensor(
        tensor("float16", (3,), half.tobytes()),
        tensor("float16", (3,), half_val=half.view(np.uint16)[:2].tolist()),
    )
    numbers = np.array([1 + 2j, 3j, 3j], np.complex64)
    assert same_tensor(
        tensor("complex64", (3,), numbers.tobytes()),
        tensor("complex64", (3,), scomplex_val=[1, 2, 0, 3]),
    )


def test_strings() -> None:
    assert same_tensor(
        tensor("string", (4,), string_val=[b"a", b"b"]),
        tensor("string", (4,), string_val=[b"a", b"b", b"b", b"b"]),
    )
    assert not same_tensor(
        tensor("string", (2,), string_val=[b"a", b"b"]), tensor("string", (2,), string_val=[b"a"])
    )


def test_other_dtypes_and_shapes() -> None:
    assert not same_tensor(tensor("float32", (1,), b"\0" * 4), tensor("int32", (1,), b"\0" * 4))
    assert not same_tensor(tensor("float32", (0,)), tensor("float32", (0, 1)))


def test_no_memory_on_the_word_of_a_shape() -> None:
    """One value may stand for more than any machine holds."""
    huge = (1 << 40, 1 << 20)
    one = tensor("float32", huge, float_val=[1.0])
    assert same_tensor(one, tensor("float32", huge, float_val=[1.0, 1.0]))
    assert not same_tensor(one, tensor("float32", huge, b"\0" * 8))
    assert not same_tensor(
        tensor("float32", (-1,), float_val=[1]), tensor("float32", (-1,), b"1234")
    )


def test_numbers_that_do_not_fit_the_dtype() -> None:
    assert not same_tensor(
        tensor("uint8", (1,), int_val=[-1]), tensor("uint8", (1,), int_val=[255])
    )
