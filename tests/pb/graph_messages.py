"""Messages at random, of every type of field that a graph has, for tests of their forms."""

from __future__ import annotations

import math
import struct
from typing import Any

from hypothesis import strategies as st

from ckpttool import pb

_ANY_SINGLES = st.integers(0, 2**32 - 1).map(
    lambda bits: struct.unpack("<f", struct.pack("<I", bits))[0]
)
# Protobuf refuses to read what it writes of the largest one. Of NaNs there is but one in JSON.
_SINGLES = st.one_of(st.floats(width=32, allow_nan=False), _ANY_SINGLES).map(
    lambda value: math.nan if value != value else value
)
_SINGLES = _SINGLES.filter(lambda value: abs(value) != 3.4028234663852886e38)
_DOUBLES = st.one_of(st.floats(allow_nan=False), st.just(math.nan))
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def tensors(draw: st.DrawFn) -> pb.TensorProto:
    """Return a TensorProto that need not make sense."""
    tensor = pb.TensorProto(dtype=draw(st.integers(0, 130)), version_number=draw(st.integers(0, 2)))
    for size in draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=2)):
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = draw(st.binary(max_size=9))
    tensor.float_val.extend(draw(st.lists(_SINGLES, max_size=4)))
    tensor.double_val.extend(draw(st.lists(_DOUBLES, max_size=3)))
    tensor.int_val.extend(draw(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=2)))
    tensor.int64_val.extend(draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=2)))
    tensor.uint64_val.extend(draw(st.lists(st.integers(0, 2**64 - 1), max_size=2)))
    tensor.bool_val.extend(draw(st.lists(st.booleans(), max_size=2)))
    tensor.string_val.extend(draw(st.lists(st.binary(max_size=4), max_size=2)))
    return tensor


@st.composite
def graphs(draw: st.DrawFn) -> pb.MetaGraphDef:
    """Return a MetaGraphDef with maps, oneofs, enums and Anys."""
    graph = pb.MetaGraphDef()
    graph.meta_info_def.tags.extend(draw(st.lists(_TEXT, max_size=2)))
    graph.meta_info_def.stripped_default_attrs = draw(st.booleans())
    for name in draw(st.lists(_TEXT, max_size=3)):
        node = graph.graph_def.node.add(name=name, op="Const")
        node.attr["value"].tensor.CopyFrom(draw(tensors()))
        node.attr["empty"].SetInParent()
        node.attr["b"].b = draw(st.booleans())
        node.attr["f"].f = draw(_SINGLES)
        node.attr["s"].s = draw(st.binary(max_size=4))
        node.attr[draw(_TEXT)].list.type.extend(draw(st.lists(st.integers(0, 130), max_size=3)))
    function = graph.graph_def.library.function.add()
    for number in draw(st.lists(st.integers(0, 2**32 - 1), max_size=3)):
        function.arg_attr[number].attr[draw(_TEXT)].i = draw(st.integers(-(2**63), 2**63 - 1))
        function.resource_arg_unique_id[number] = draw(st.integers(0, 2**32 - 1))
    for number in draw(st.lists(st.integers(0, 2**64 - 1), max_size=3)):
        graph.graph_def.debug_info.frames_by_id[number].line = 7
    graph.saver_def.keep_checkpoint_every_n_hours = draw(_SINGLES)
    for key in draw(st.lists(_TEXT, max_size=2)):
        signature = graph.signature_def[key]
        signature.inputs[draw(_TEXT)].name = draw(_TEXT)
        signature.defaults[draw(_TEXT)].CopyFrom(draw(tensors()))
    graph.collection_def["b"].bytes_list.value.extend(draw(st.lists(st.binary(max_size=4))))
    graph.collection_def["i"].int64_list.value.extend([1, -1])
    graph.collection_def["f"].float_list.value.extend(draw(st.lists(_SINGLES, max_size=3)))
    packed: list[Any] = [draw(tensors()), graph.saver_def, pb.Int64Value(value=-5)]
    for payload in packed:
        item = graph.collection_def["a"].any_list.value.add()
        item.type_url = f"type.googleapis.com/{payload.DESCRIPTOR.full_name}"
        item.value = payload.SerializeToString(deterministic=True)
    graph.collection_def["a"].any_list.value.add()
    return graph
