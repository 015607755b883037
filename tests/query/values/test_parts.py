"""Parts hold what NumPy's indexing selects, however little of it is read at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool import open_checkpoint
from ckpttool.bundle.writer import BundleWriter
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import ChecksumError, UnsupportedError
from ckpttool.query.values import parts as module
from ckpttool.query.values.parts import Part
from ckpttool.tensor.region import fit_index
from ckpttool.tensor.slices import TensorSlice
from tests.support import encoder, handmade

SHAPE = (7, 5, 6)
ARRAY = np.arange(210, dtype=np.int32).reshape(SHAPE)


@pytest.fixture(scope="module")
def ckpt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkpoint]:
    prefix = os.fspath(tmp_path_factory.mktemp("parts") / "model")
    with BundleWriter(prefix) as writer:
        writer.add("whole", ARRAY)
        for low, high in ((0, 3), (3, 4), (4, 7)):
            part = TensorSlice(((low, high - low), (0, -1), (0, -1)))
            writer.add_slice("sliced", SHAPE, part, ARRAY[low:high])
        writer.add("text", np.array([["a", "bb"], ["ccc", ""]]))
        writer.add("flags", np.array([True, False, True]))
        writer.add("scalar", np.float32(0.1))
        writer.add("empty", np.zeros((0, 3), np.float32))
    with open_checkpoint(prefix) as opened:
        yield opened


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing count as small, and blocks hold few elements."""
    monkeypatch.setattr(module, "_SMALL", 0)
    monkeypatch.setattr(module, "_BLOCK", 44)


def all_of(part: Part, *, ordered: bool = True) -> np.ndarray[Any, Any]:
    blocks = [block.copy() for block in part.blocks(ordered=ordered)]
    assert all(block.ndim == 1 for block in blocks)
    if not part.small:
        assert all(block.size <= 44 // 4 or part.index is None for block in blocks)
    return np.concatenate(blocks) if blocks else np.empty(0)


@st.composite
def indices(draw: st.DrawFn) -> tuple[int | slice | None, ...]:
    """Draw an index that fits the shape, in any spelling."""
    parts: list[int | slice | None] = []
    for dim in SHAPE[: draw(st.integers(0, len(SHAPE)))]:
        parts.append(draw(st.integers(-dim, dim - 1) | st.slices(dim)))
    if len(parts) < len(SHAPE) and draw(st.booleans()):
        parts.append(None)
    return tuple(parts)


def as_numpy(parts: tuple[int | slice | None, ...]) -> tuple[Any, ...]:
    return tuple(Ellipsis if part is None else part for part in parts)


@pytest.mark.usefixtures("tiny")
@given(parts=indices(), key=st.sampled_from(["whole", "sliced"]))
def test_blocks_are_what_numpy_selects(
    ckpt: Checkpoint, parts: tuple[int | slice | None, ...], key: str
) -> None:
    wanted = ARRAY[as_numpy(parts)]
    part = Part(ckpt, key, fit_index(parts, SHAPE))
    assert part.shape == wanted.shape and part.elements == wanted.size
    assert not part.verified
    np.testing.assert_array_equal(all_of(part), wanted.reshape(-1))


@given(parts=indices(), key=st.sampled_from(["whole", "sliced"]))
def test_reading_at_once(ckpt: Checkpoint, parts: tuple[int | slice | None, ...], key: str) -> None:
    part = Part(ckpt, key, fit_index(parts, SHAPE))
    assert part.small
    np.testing.assert_array_equal(part.read(), ARRAY[as_numpy(parts)])
    np.testing.assert_array_equal(all_of(part), ARRAY[as_numpy(parts)].reshape(-1))


@pytest.mark.usefixtures("tiny")
@given(parts=indices(), data=st.data())
def test_a_box_of_a_part(
    ckpt: Checkpoint, parts: tuple[int | slice | None, ...], data: st.DataObject
) -> None:
    whole = ARRAY[as_numpy(parts)]
    bounds = []
    for dim in whole.shape:
        low = data.draw(st.integers(0, dim))
        bounds.append((low, data.draw(st.integers(low, dim))))
    found = Part(ckpt, "whole", fit_index(parts, SHAPE)).box(tuple(bounds))
    wanted = whole[tuple(slice(low, high) for low, high in bounds)]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("key", ["whole", "sliced"])
@pytest.mark.parametrize("ordered", [True, False])
def test_whole_tensors(ckpt: Checkpoint, key: str, ordered: bool) -> None:
    part = Part(ckpt, key)
    assert part.verified and not part.small
    np.testing.assert_array_equal(all_of(part, ordered=ordered), ARRAY.reshape(-1))


def test_other_dtypes(ckpt: Checkpoint) -> None:
    text = Part(ckpt, "text", fit_index((1, slice(None)), (2, 2)))
    assert text.verified and text.read().tolist() == [b"ccc", b""]
    assert Part(ckpt, "text", fit_index((0, 1), (2, 2))).read()[()] == b"bb"
    assert Part(ckpt, "flags", fit_index((slice(None, None, -2),), (3,))).read().tolist() == [1, 1]
    assert Part(ckpt, "scalar", fit_index((None,), ())).read()[()] == np.float32(0.1)
    assert Part(ckpt, "empty").read().shape == (0, 3)
    assert Part(ckpt, "empty").elements == 0


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkpoint]:
    elements = [b"%d" % number * (number % 50) for number in range(210)]
    bundle = handmade.Bundle().add_strings(b"words", SHAPE, elements)
    bundle.add(b"none", 7, (0, 1 << 40), b"", crc=encoder.masked_crc(b""))
    with open_checkpoint(bundle.write(tmp_path_factory.mktemp("words") / "m")) as opened:
        yield opened


@pytest.mark.usefixtures("tiny")
@given(parts=indices())
def test_strings_are_what_numpy_selects(
    words: Checkpoint, parts: tuple[int | slice | None, ...]
) -> None:
    whole = np.array([b"%d" % number * (number % 50) for number in range(210)], object)
    wanted = whole.reshape(SHAPE)[as_numpy(parts)]
    part = Part(words, "words", fit_index(parts, SHAPE))
    assert part.verified
    found = part.read()
    assert isinstance(found, np.ndarray) and found.shape == part.shape
    blocks = [word for block in part.blocks() for word in block.tolist()]
    expected = np.asarray(wanted, object).reshape(-1).tolist()
    assert found.reshape(-1).tolist() == blocks == expected
    assert [word for block in Part(words, "words").blocks() for word in block] == whole.tolist()


def test_no_strings_beside_a_long_axis(words: Checkpoint) -> None:
    assert words["none"].shape == Part(words, "none").read().shape == (0, 1 << 40)
    assert Part(words, "none", fit_index((None, 3), (0, 1 << 40))).read().shape == (0,)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("number", "name", "size"),
    [(1, "float32", 4), (9, "int64", 8), (10, "bool", 1), (14, "bfloat16", 2), (8, "complex64", 8)],
)
def test_big_endian_bundles(tmp_path: Path, number: int, name: str, size: int) -> None:
    values = np.arange(24) % 2 if name == "bool" else np.arange(24)
    kind = {"bool": "u1", "bfloat16": None, "complex64": ">c8"}.get(name, f">{name[0]}{size}")
    if kind is None:
        data = (values.astype(">f4").view(">u4") >> 16).astype(">u2").tobytes()
    else:
        data = values.astype(kind).tobytes()
    bundle = handmade.Bundle(header=encoder.header(endianness=1))
    bundle.add(b"w", number, [4, 6], data)
    with open_checkpoint(bundle.write(tmp_path / "big")) as ckpt:
        whole = np.concatenate([block.copy() for block in Part(ckpt, "w").blocks()])
        assert whole.dtype == ckpt.entries["w"].dtype.numpy_dtype
        assert whole.astype(np.complex128).tolist() == values.tolist()
        rows = Part(ckpt, "w", fit_index((slice(2), -1), (4, 6)))
        assert all_of(rows).astype(np.complex128).tolist() == [values[5], values[11]]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("key", ["whole", "sliced"])
def test_damage_is_found_by_the_end(ckpt: Checkpoint, tmp_path: Path, key: str) -> None:
    prefix = os.fspath(tmp_path / "model")
    for ending in (".index", ".data-00000-of-00001"):
        (tmp_path / f"model{ending}").write_bytes(Path(ckpt.prefix + ending).read_bytes())
    entry = ckpt.bundle.entries[key]
    stored = entry if not entry.slices else ckpt.bundle.index.slice_entries(key)[-1][1]
    with open(prefix + ".data-00000-of-00001", "r+b") as file:
        file.seek(stored.offset + stored.size - 1)
        file.write(b"\xee")
    with open_checkpoint(prefix) as damaged, pytest.raises(ChecksumError) as caught:
        all_of(Part(damaged, key))
    assert (caught.value.key, caught.value.offset) == (key, stored.offset)


def test_what_has_no_values(tmp_path: Path) -> None:
    bundle = handmade.Bundle()
    bundle.add(b"deep", 4, [1] * 100, b"\x07")
    bundle.add(b"new", 99, [2], b"\x00\x00")
    bundle.add_slices(b"newer", 98, [2], [([(0, 1)], b"\x00"), ([(1, 1)], b"\x00")])
    with open_checkpoint(bundle.write(tmp_path / "odd")) as ckpt:
        for key in ("deep", "new", "newer"):
            with pytest.raises(UnsupportedError) as caught:
                Part(ckpt, key)
            assert caught.value.key == key
