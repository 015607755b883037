"""Variants are taken apart as far as their types are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckpttool import open_checkpoint, pb
from ckpttool.errors import CorruptError
from ckpttool.query.values.variants import VariantDetail, describe_variant
from ckpttool.tensor.variants import VariantElement
from tests.support.fixtures import BundleFixture, bundle
from tests.support.sweeps import each_bundle

VARIANTS = "v2/tf2.21/variants/variants"
UNLIMITED = b"\xff" * 9 + b"\x01"
FLOAT, INT32, STRING, VARIANT, BFLOAT16, HALF = 1, 3, 7, 21, 14, 19


def element(type_name: str, metadata: bytes = b"", tensors: Any = ()) -> VariantElement:
    message = pb.VariantTensorDataProto(type_name=type_name, metadata=metadata, tensors=tensors)
    return VariantElement(message.SerializeToString())


def tensor(dtype: int, *dims: int, **values: Any) -> pb.TensorProto:
    shape = pb.TensorShapeProto(dim=[pb.TensorShapeProto.Dim(size=dim) for dim in dims])
    return pb.TensorProto(dtype=dtype, tensor_shape=shape, **values)


def of_fixture(key: str) -> list[VariantDetail]:
    with open_checkpoint(bundle(VARIANTS).prefix) as ckpt:
        return [describe_variant(one) for one in ckpt[key].reshape(-1)]


def facts(detail: VariantDetail) -> dict[str, object]:
    return dict(detail.facts)


@pytest.mark.parametrize(
    ("key", "wanted", "names", "values"),
    [
        (
            "list/float32",
            {"elements": 2, "dtype": "float32", "shape": (2,)},
            "01",
            [[1, 2], [3, 4]],
        ),
        ("list/empty", {"elements": 0, "dtype": "float16", "shape": (3,), "most": 4}, "", []),
        (
            "list/int64_partly_set",
            {"elements": 3, "dtype": "int64", "shape": (2,), "unset": (0, 2)},
            "1",
            [[5, -6]],
        ),
        ("list/string", {"elements": 2, "dtype": "string", "shape": ()}, "01", [b"a", b"b\0c"]),
    ],
)
def test_lists_of_tensors(
    key: str, wanted: dict[str, object], names: str, values: list[object]
) -> None:
    (detail,) = of_fixture(key)
    assert detail.type_name == "tensorflow::TensorList" and not detail.metadata
    assert facts(detail) == wanted
    assert [inner.name for inner in detail.tensors] == list(names)
    assert [inner.nested() for inner in detail.tensors] == values


def test_optionals() -> None:
    (none,) = of_fixture("optional/none")
    assert (facts(none), none.tensors) == ({"value": False}, ())
    (some,) = of_fixture("optional/some")
    assert facts(some) == {"value": True}
    assert [(inner.dtype, inner.shape, inner.nested()) for inner in some.tensors] == [
        ("int32", (), 5)
    ]
    (two,) = of_fixture("optional/two")
    assert [(inner.dtype, inner.nested()) for inner in two.tensors] == [
        ("float32", [1.5]),
        ("string", b"s"),
    ]


def test_an_iterator_of_today() -> None:
    with open_checkpoint(bundle("v2/tf2.21/iterators/ckpt-1").prefix) as ckpt:
        details = [describe_variant(one) for one in ckpt["simple/.ITERATOR_STATE"]]
    assert [detail.type_name for detail in details] == ["tensorflow::Iterator"] * 3
    last = details[-1]
    assert facts(last) == {"of": "Iterator::Root::Prefetch::Range"}
    (packed,) = last.tensors[0].variants
    assert packed.type_name == "tensorflow.data.CompressedElement"
    assert facts(packed) == {"compressed_bytes": 18, "bytes": 16, "version": 0}
    assert [(inner.name, inner.dtype, inner.shape) for inner in packed.tensors] == [
        ("next", "int64", ()),
        ("global_shuffle_iterator_next_index", "int64", ()),
    ]


def test_an_iterator_of_tensorflow_1() -> None:
    with open_checkpoint(bundle("v2/tf1.15/saveables/model").prefix) as ckpt:
        (key,) = (key for key, entry in ckpt.entries.items() if entry.dtype.name == "variant")
        detail = describe_variant(ckpt[key].item())
    assert detail.type_name == "tensorflow::Iterator"
    assert [(inner.name, inner.nested()) for inner in detail.tensors] == [
        ("Iterator::Model::Range:next", 1)
    ]


@each_bundle
def test_every_variant_of_the_fixtures(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        for key, entry in ckpt.entries.items():
            if entry.dtype.name == "variant":
                for one in ckpt.bundle.read(key).reshape(-1):
                    detail = describe_variant(one)
                    assert detail.type_name == one.type_name
                    assert not detail.metadata  # all of these types are known


def test_variants_in_variants() -> None:
    inner = pb.VariantTensorDataProto(type_name="tensorflow::data::Optional", metadata=b"\0")
    outer = tensor(VARIANT, 2, variant_val=[inner, inner])
    detail = describe_variant(element("tensorflow::data::Optional", b"\1", [outer]))
    (held,) = detail.tensors
    assert (held.dtype, held.shape, held.values) == ("variant", (2,), None)
    assert [one.facts for one in held.variants] == [(("value", False),)] * 2


def test_a_type_that_is_not_known() -> None:
    detail = describe_variant(element("my::Type", b"\xff\x00", [tensor(FLOAT, float_val=[2.5])]))
    assert (detail.type_name, detail.facts, detail.metadata) == ("my::Type", (), b"\xff\x00")
    assert detail.tensors[0].nested() == 2.5


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        (tensor(FLOAT, 3, float_val=[1, 2]), [1, 2, 2]),  # the last value stands for the rest
        (tensor(FLOAT, 2, tensor_content=np.array([1, 2], "<f4").tobytes()), [1, 2]),
        (tensor(INT32, 2, 2, int_val=[7]), [[7, 7], [7, 7]]),
        (tensor(BFLOAT16, 1, half_val=[0x3FC0]), [1.5]),
        (tensor(HALF, 1, half_val=[0x3E00]), [1.5]),
        (tensor(STRING, 1, string_val=[b"\xff"]), [b"\xff"]),
        (tensor(FLOAT, 0), []),
        # Nothing that could be told, or too much of it.
        (tensor(FLOAT, 2), None),
        (tensor(FLOAT, 65, float_val=[1]), None),
        (tensor(FLOAT, 1 << 40, 1 << 40, float_val=[1]), None),
        (tensor(FLOAT, 2, tensor_content=b"\0\0"), None),
        (tensor(4, 1, int_val=[300]), None),
        (tensor(HALF, 1, half_val=[-1]), None),
        (tensor(9, 2, int64_val=[-(2**63), 2**63 - 1]), [-(2**63), 2**63 - 1]),
        (tensor(23, 1, uint64_val=[2**64 - 1]), [2**64 - 1]),
        (tensor(10, 2, bool_val=[True, False]), [True, False]),
        (tensor(99, 1, int_val=[1]), None),
        (tensor(FLOAT, -1, float_val=[1]), None),
    ],
)
def test_values_of_inner_tensors(held: pb.TensorProto, wanted: object) -> None:
    (inner,) = describe_variant(element("x", b"", [held])).tensors
    assert inner.nested() == wanted
    if wanted is None:
        assert list(inner.texts()) == []


def test_shapes_that_are_not_known() -> None:
    unknown = tensor(FLOAT)
    unknown.tensor_shape.unknown_rank = True
    found = describe_variant(element("x", b"", [unknown, tensor(FLOAT, -1, 2)])).tensors
    assert [inner.shape for inner in found] == [None, (None, 2)]


@pytest.mark.parametrize(
    ("type_name", "metadata"),
    [
        ("tensorflow::TensorList", b""),
        ("tensorflow::TensorList", b"\xff"),
        ("tensorflow::TensorList", UNLIMITED),
        ("tensorflow::TensorList", b"\x00\x01" + UNLIMITED + b"\xff"),
        ("tensorflow::data::Optional", b"\2"),
        ("tensorflow::data::Optional", b""),
        ("tensorflow.data.CompressedElement", b"\xff"),
    ],
)
def test_metadata_that_make_no_sense_are_left_as_they_are(type_name: str, metadata: bytes) -> None:
    detail = describe_variant(element(type_name, metadata))
    assert (detail.type_name, detail.facts, detail.metadata) == (type_name, (), metadata)


def test_an_iterator_whose_keys_do_not_match_its_tensors() -> None:
    detail = describe_variant(element("tensorflow::Iterator", b"It@@a@@b", [tensor(FLOAT)]))
    assert facts(detail) == {"of": "It", "keys": ("a", "b")}
    assert [inner.name for inner in detail.tensors] == [""]


def test_bytes_that_are_no_variant() -> None:
    with pytest.raises(CorruptError):
        describe_variant(VariantElement(b"\xff"))
