"""The bytes of tensors as a bundle of today holds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpttool import open_checkpoint
from ckpttool.errors import ChecksumError, CkptError, CorruptError
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.recoding import payloads as module
from ckpttool.surgery.writing.recoding.payloads import (
    Payload,
    check_slices,
    payload_shapes,
    payloads,
)
from ckpttool.tensor.dtypes import DType, dtype_of_name
from ckpttool.tensor.values import Array, encode_array
from tests.support.conversions import COLUMNS, ROWS, elements, old_strings, write_v1
from tests.support.handmade import Bundle
from tests.support.refusals import refused
from tests.support.slices import parse_slice
from tests.support.surgery import spoil

SHAPE = (3, 4)
SCATTERED = ("0,1:0,4", "1,2:0,1", "1,2:1,3")
SHUFFLED = (ROWS[1], ROWS[0])


def source(folder: Path, generation: str, dtype_name: str, specs: tuple[str, ...]) -> str:
    """Write a checkpoint with a partitioned tensor "w"."""
    dtype = dtype_of_name(dtype_name)
    value = elements(dtype, SHAPE)
    prefix = folder / generation
    if generation == "V1":
        return write_v1(prefix, {"w": value}, slices={"w": specs}, dtypes={"w": dtype_name})
    parts = []
    for spec in specs:
        bounds = parse_slice(spec).bounds(SHAPE)
        part = value[tuple(slice(*edges) for edges in bounds)]
        parts.append(([(a, b - a) for a, b in bounds], part.tobytes()))
    return Bundle().add_slices(b"w", dtype.number, SHAPE, parts).write(prefix)


@pytest.mark.parametrize("specs", [ROWS, COLUMNS, SCATTERED, SHUFFLED], ids=str)
@pytest.mark.parametrize("generation", ["V1", "V2"])
@pytest.mark.parametrize("dtype_name", ["float32", "int64", "complex64", "bool", "float16"])
@pytest.mark.parametrize("block", [8, 1 << 20])
def test_slices_kept_and_joined(
    generation: str,
    dtype_name: str,
    specs: tuple[str, ...],
    block: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    value = elements(dtype_of_name(dtype_name), SHAPE)
    with open_checkpoint(source(tmp_path, generation, dtype_name, specs)) as ckpt:
        (tensor,) = Plan.of(ckpt).tensors
        kept = {
            str(each.part): (each.shape, b"".join(each.chunks))
            for each in payloads(ckpt, tensor, join=False)
        }
        (joined,) = [
            (each.part, each.shape, b"".join(each.chunks))
            for each in payloads(ckpt, tensor, join=True)
        ]
        assert payload_shapes(tensor, join=True) == [(None, SHAPE)]
        shapes = {str(part): shape for part, shape in payload_shapes(tensor, join=False)}
    assert joined == (None, SHAPE, value.tobytes())
    assert shapes == {spec: shape for spec, (shape, _) in kept.items()}
    for spec in specs:
        part = value[tuple(slice(*edges) for edges in parse_slice(spec).bounds(SHAPE))]
        assert kept.pop(spec) == (part.shape, part.tobytes())
    assert not kept


def whole(payload: Payload) -> tuple[bytes, int | None]:
    return b"".join(payload.chunks), payload.crc


def encoded(dtype: DType, value: Array) -> tuple[bytes, int | None]:
    data, crc = encode_array(dtype, value)
    return bytes(data), crc


@pytest.mark.parametrize("specs", [ROWS, COLUMNS, SCATTERED], ids=str)
def test_slices_of_strings(specs: tuple[str, ...], tmp_path: Path) -> None:
    dtype = dtype_of_name("string")
    value = elements(dtype, SHAPE)
    prefix = write_v1(tmp_path / "m", {"s": value}, slices={"s": specs})
    with open_checkpoint(prefix) as ckpt:
        (tensor,) = Plan.of(ckpt).tensors
        (joined,) = payloads(ckpt, tensor, join=True)
        assert whole(joined) == encoded(dtype, value)
        kept = list(payloads(ckpt, tensor, join=False))
        assert sorted(str(each.part) for each in kept) == sorted(specs)
        for each in kept:
            assert each.part is not None
            bounds = each.part.bounds(SHAPE)
            part = value[tuple(slice(*edges) for edges in bounds)]
            assert whole(each) == encoded(dtype, part)


def test_no_elements_between_others(tmp_path: Path) -> None:
    """A slice without elements has a payload of no bytes."""
    prefix = write_v1(
        tmp_path / "m", {"w": elements(dtype_of_name("int32"), (2, 0))}, slices={"w": ["0,2:-"]}
    )
    with open_checkpoint(prefix) as ckpt:
        (tensor,) = Plan.of(ckpt).tensors
        (payload,) = payloads(ckpt, tensor, join=False)
        assert (payload.shape, b"".join(payload.chunks)) == ((2, 0), b"")


def test_lengths_are_spelled_shortly(tmp_path: Path) -> None:
    texts = old_strings(tmp_path / "m")
    with open_checkpoint(tmp_path / "m") as ckpt:
        tensor = Plan.of(ckpt).tensors[0]
        (payload,) = payloads(ckpt, tensor, join=False)
        data, crc = encode_array(tensor.entry.dtype, ckpt["s"])
        assert ckpt["s"].tolist() == texts
        assert tensor.bytes == len(data) + 3 + 3 + 2
        assert (b"".join(payload.chunks), payload.crc) == (bytes(data), crc)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([[(0, 2), (0, 4)]], "leave a gap: 8 of 12"),
        ([[(0, 2), (0, 4)], [(1, 2), (0, 4)]], "overlap"),
        ([[(0, 2), (0, 4)], [(1, 1), (0, 4)]], "overlap"),
    ],
)
def test_slices_that_are_not_all_of_it(
    parts: list[list[tuple[int, int]]], reason: str, tmp_path: Path
) -> None:
    stored = [(part, bytes(4 * part[0][1] * part[1][1])) for part in parts]
    prefix = Bundle().add_slices(b"w", 1, SHAPE, stored).write(tmp_path / "m")
    with open_checkpoint(prefix) as ckpt, refused(CorruptError, reason) as caught:
        check_slices(Plan.of(ckpt))
    assert (caught.value.key, caught.value.path) == ("w", prefix + ".index")


@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize("specs", [ROWS, COLUMNS], ids=str)
def test_damage_in_any_slice(specs: tuple[str, ...], join: bool, tmp_path: Path) -> None:
    prefix = Path(source(tmp_path, "V2", "float32", specs))
    data = prefix.with_name("V2.data-00000-of-00001")
    for offset in range(0, data.stat().st_size, 11):
        spoil(data, offset)
        with open_checkpoint(prefix) as ckpt:
            (tensor,) = Plan.of(ckpt).tensors
            with pytest.raises(ChecksumError) as caught:
                for each in payloads(ckpt, tensor, join=join):
                    b"".join(each.chunks)
        assert caught.value.key == "w"
        spoil(data, offset)


def test_damage_in_any_byte_of_a_v1_file(tmp_path: Path) -> None:
    """Whatever byte is hit, nothing else than what was saved comes out."""
    path = Path(source(tmp_path, "V1", "float32", ROWS))
    value = elements(dtype_of_name("float32"), SHAPE).tobytes()
    for offset in range(path.stat().st_size):
        spoil(path, offset)
        try:
            with open_checkpoint(path) as ckpt:
                (tensor,) = Plan.of(ckpt).tensors
                (joined,) = payloads(ckpt, tensor, join=True)
                found = b"".join(joined.chunks)
        except CkptError as error:
            assert error.path == str(path)
        else:
            assert found == value, offset
        spoil(path, offset)
