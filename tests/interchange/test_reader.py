from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import ckpttool
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import ChecksumError, CkptError, CorruptError, UnsupportedError
from ckpttool.interchange import reader as reader_module
from ckpttool.interchange.naming import ArrayFormat
from ckpttool.interchange.reader import ArrayReader
from ckpttool.interchange.safetensors import SAFETENSORS_CODES
from ckpttool.query.diff.checkpoints import diff_checkpoints
from ckpttool.tensor.dtypes import dtype_of_name
from ckpttool.tensor.region import fit_index
from tests.support.arrays import Member, described, info, npy_bytes, safetensors_bytes, zip_bytes

Array = np.ndarray[Any, np.dtype[Any]]


def arrays() -> dict[str, Array]:
    """Return an array of each dtype of NumPy that both formats have, and odd shapes."""
    numbers = np.random.default_rng(7).integers(0, 100, (13, 7))
    codes = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8".split()  # noqa: SIM905 - easier to read
    found = {f"a/{code}": (numbers % 2 if code == "?" else numbers).astype(code) for code in codes}
    return {
        **found,
        "scalar": np.array(3.5, "f4"),
        "empty": np.zeros((0, 4), "f8"),
        "ü": np.arange(70_000, dtype="f4").reshape(7, 100, 100),
    }


def ordered(array: Array, order: Literal["<", ">", "="]) -> Array:
    """Return an array in a byte order."""
    return array.astype(array.dtype.newbyteorder(order))


def check_all(reader: ArrayReader, expected: dict[str, Array]) -> None:
    assert sorted(reader.entries) == sorted(expected)
    for key, array in expected.items():
        value = reader.read(key)
        assert value.dtype == array.dtype and value.shape == array.shape
        assert np.array_equal(value, array) and value.flags.writeable
        plain = np.ascontiguousarray(ordered(array, "<"))
        assert b"".join(map(bytes, reader.chunks(key))) == plain.tobytes()
        assert reader.entries[key].size == array.nbytes
        if array.ndim == 2 and array.size:
            index = fit_index((slice(1, None, 3), 2), array.shape)
            assert np.array_equal(reader.read_region(key, index), array[1::3, 2])
            index = fit_index((slice(None, None, -1), slice(2, 5)), array.shape)
            assert np.array_equal(reader.read_region(key, index), array[::-1, 2:5])


def test_safetensors_of_their_own_writer(tmp_path: Path) -> None:
    expected = arrays()
    expected["a/half"] = expected["a/f4"].astype(ml_dtypes.bfloat16)
    path = tmp_path / "m.safetensors"
    save_file(expected, path, metadata={"format": "pt"})
    with ArrayReader(str(path), "safetensors") as reader:
        assert reader.metadata == {"format": "pt"}
        check_all(reader, expected)
        mapped = reader.read("ü", copy=False)
        assert np.array_equal(mapped, expected["ü"])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("layout", ["C", "F", "big-endian"])
def test_archives_of_numpy(save: Any, layout: str, tmp_path: Path) -> None:
    expected = {**arrays(), "a/c16": arrays()["a/f8"] + 1j}
    if layout == "F":
        expected = {key: np.asfortranarray(each) for key, each in expected.items()}
    if layout == "big-endian":
        expected = {
            key: each.astype(each.dtype.newbyteorder(">")) for key, each in expected.items()
        }
    save(tmp_path / "x.npz", **expected)
    with ArrayReader(str(tmp_path / "x.npz"), "npz") as reader:
        check_all(
            reader,
            {key: ordered(each, "=") for key, each in expected.items()},
        )
        assert all(reader.check(key) == each.nbytes for key, each in expected.items())


def test_compressed_arrays_in_fortran_order_are_turned_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "x.npz", a=np.ones((40, 50), order="F"))
    monkeypatch.setattr(reader_module, "_MOST_TURNED", 10_000)
    with (
        ArrayReader(str(tmp_path / "x.npz"), "npz") as reader,
        pytest.raises(UnsupportedError, match="16000 compressed bytes in Fortran order"),
    ):
        reader.read_region("a", (0, slice(None)))


def test_large_arrays_in_fortran_order_come_in_boxes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.asfortranarray(np.arange(6000.0).reshape(20, 30, 10))
    np.savez(tmp_path / "x.npz", a=array)
    monkeypatch.setattr(reader_module, "_TURNED", 1000)
    with ArrayReader(str(tmp_path / "x.npz"), "npz") as reader:
        pieces = [bytes(each) for each in reader.chunks("a")]
        assert len(pieces) > 40 and b"".join(pieces) == array.tobytes("C")


def test_text(tmp_path: Path) -> None:
    words = np.array([["ä", ""], ["three", "\0x"]])
    for array in (words, words.T, words.astype(words.dtype.newbyteorder(">"))):
        np.savez_compressed(tmp_path / "x.npz", u=array, s=np.array([b"a", b"", b"b\0c"]))
        with ArrayReader(str(tmp_path / "x.npz"), "npz") as reader:
            expected = [[each.encode() for each in row] for row in array.tolist()]
            assert reader.read("u").tolist() == expected
            assert reader.read_region("u", (1, slice(None))).tolist() == expected[1]
            assert reader.read("s").tolist() == [b"a", b"", b"b\0c"]


def test_text_that_is_none(tmp_path: Path) -> None:
    data = npy_bytes(described("<U1", "(1,)"), b"\xff\xff\xff\xff")
    (tmp_path / "x.npy").write_bytes(data)
    with (
        ArrayReader(str(tmp_path / "x.npy"), "npy") as reader,
        pytest.raises(CorruptError, match="not Unicode"),
    ):
        reader.read("arr_0")


def test_every_dtype_of_safetensors(tmp_path: Path) -> None:
    """All bytes are different, so that another dtype would give other values."""
    tensors: dict[str, object] = {}
    data = b""
    for name, code in SAFETENSORS_CODES.items():
        size = dtype_of_name(name).size or 0
        raw = bytes([1, 0, 1]) if name == "bool" else bytes(range(1, 1 + 3 * size))
        tensors[name] = info(code, [3], len(data), len(data) + len(raw))
        data += raw
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes(tensors, data))
    with ArrayReader(str(path), "safetensors") as reader:
        for name in SAFETENSORS_CODES:
            value = reader.read(name)
            begin, end = tensors[name]["data_offsets"]  # type: ignore[index]
            assert (value.dtype.name, value.tobytes()) == (name, data[begin:end])


def test_a_terabyte_of_zeros_is_listed_and_read_in_part(tmp_path: Path) -> None:
    size = 1 << 40
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes({"a": info("U8", [1 << 20, 1 << 20], 0, size)}))
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size + size)
    with ArrayReader(str(path), "safetensors") as reader:
        part = reader.read_region("a", (slice(-3, None), slice(0, 2)))
        assert part.tolist() == [[0, 0]] * 3


def test_a_bomb_is_no_larger_than_its_bytes_can_make_it(tmp_path: Path) -> None:
    head = npy_bytes(described("<f8", f"({1 << 28},)"))
    members = [Member(b"a.npy", head, method=8, size=len(head) + (1 << 31))]
    (tmp_path / "x.npz").write_bytes(zip_bytes(members))
    with pytest.raises(CorruptError, match="cannot be unpacked to"):
        ArrayReader(str(tmp_path / "x.npz"), "npz")


GOOD = npy_bytes(described("<f4", "(2,)"), bytes(8))


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (Member(b"b.npy", npy_bytes(described("<f4", "(3,)"), bytes(8))), "takes 12 bytes, and 8"),
        (Member(b"b.npy", GOOD + b"x"), "takes 8 bytes, and 9 follow"),
        (Member(b"b.npy", GOOD, flags=1), "encrypted"),
        (Member(b"b.npy", GOOD, method=12), "method 12 of ZIP"),
        (Member(b"b.txt", b"text"), "does not end in .npy"),
        (Member(b"b.npy", b"text"), "does not begin as one"),
        (Member(b"b.npy", npy_bytes("{'descr': [('a', '<f4')], 'shape': (1,), }")), "structures"),
    ],
)
def test_the_other_members_can_be_read(member: Member, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(zip_bytes([Member(b"a.npy", GOOD), member]))
    with ArrayReader(str(tmp_path / "x.npz"), "npz") as reader:
        assert reader.read("a").tolist() == [0, 0]
        ((key, error),) = reader.damaged.items()
        assert key == member.name.decode().removesuffix(".npy")
        assert message in str(error) and f"x.npz:{30 + 5 + len(GOOD)}: key '{key}'" in str(error)
        with pytest.raises(CkptError, match="key"):
            reader.read(key)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.array([{1: 2}], object))
    with ArrayReader(str(tmp_path / "x.npz"), "npz") as reader:
        for read in (lambda: reader.read("a"), lambda: list(reader.chunks("a"))):
            with pytest.raises(UnsupportedError, match="pickles are never opened"):
                read()
        reader.check("a")  # its CRC-32 is right


def test_two_members_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(zip_bytes([Member(b"a.npy", GOOD), Member(b"a", GOOD)]))
    with pytest.raises(CorruptError, match="key 'a': two members"):
        ArrayReader(str(tmp_path / "x.npz"), "npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_flipped_bit_is_found(save: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    save(path, a=np.random.default_rng(0).standard_normal(5000))
    data = bytearray(path.read_bytes())
    data[20_000] ^= 16
    path.write_bytes(data)
    with ArrayReader(str(path), "npz") as reader:
        for read in (lambda: reader.read("a"), lambda: list(reader.chunks("a"))):
            with pytest.raises(CorruptError, match=r"x\.npz:.*key 'a'.*damaged") as caught:
                read()
        if save is np.savez:
            assert isinstance(caught.value, ChecksumError) and "CRC-32 0x" in str(caught.value)


def test_one_array(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.arange(6).reshape(2, 3))
    with ArrayReader(str(tmp_path / "w.npy"), "npy") as reader:
        check_all(reader, {"arr_0": np.arange(6).reshape(2, 3)})
    with open(tmp_path / "w.npy", "ab") as file:
        np.save(file, np.zeros(2))
    with pytest.raises(CorruptError, match=r"w.npy: int64 \[2, 3\] takes 48 bytes, and"):
        ArrayReader(str(tmp_path / "w.npy"), "npy")


def shards(folder: Path, places: dict[str, object], **more: object) -> str:
    """Write two files of safetensors and a list of them."""
    one = {"a": np.arange(3, dtype="f4"), "b": np.arange(4, dtype="f4")}
    save_file(one, folder / "m-1.safetensors")
    save_file({"c": np.arange(5, dtype="i8")}, folder / "m-2.safetensors")
    path = folder / "m.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 68}, "weight_map": places, **more}))
    return str(path)


PLACES: dict[str, object] = {"a": "m-1.safetensors", "b": "m-1.safetensors", "c": "m-2.safetensors"}


def test_several_files(tmp_path: Path) -> None:
    with ArrayReader(shards(tmp_path, PLACES), "safetensors") as reader:
        assert reader.num_shards == 2
        assert {key: entry.shard_id for key, entry in reader.entries.sound()} == {
            "a": 0,
            "b": 0,
            "c": 1,
        }
        assert reader.read("c").tolist() == [0, 1, 2, 3, 4]


def test_a_missing_file(tmp_path: Path) -> None:
    path = shards(tmp_path, PLACES)
    (tmp_path / "m-2.safetensors").unlink()
    with ArrayReader(path, "safetensors") as reader:
        assert list(reader.damaged) == ["c"]
        assert reader.missing_files == (str(tmp_path / "m-2.safetensors"),)
        assert reader.read("a").tolist() == [0, 1, 2]


def read_all(path: str) -> None:
    """Raise what is wrong with the files or with one of their tensors."""
    with ArrayReader(path, "safetensors") as reader:
        for key in reader.entries:
            reader.read(key)


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ({**PLACES, "d": "m-2.safetensors"}, "key 'd': it is not in this file"),
        ({key: PLACES[key] for key in "ab"} | {"x": "m-2.safetensors"}, "does not have it"),
        ({**PLACES, "a": "m-2.safetensors"}, "m-1.safetensors: key 'a': .*says 'm-2.safetensors'"),
        ({**PLACES, "a": "../m-1.safetensors"}, "key 'a': .*is not beside the list"),
        ({**PLACES, "a": "/etc/passwd"}, "key 'a': .*is not beside the list"),
        ({**PLACES, "a": "sub\\m-1.safetensors"}, "is not beside the list"),
        ({**PLACES, "a": ".."}, "is not beside the list"),
        ({**PLACES, "a": "a\0.safetensors"}, "is not beside the list"),
        ({**PLACES, "a": "\ud800.safetensors"}, "is no name"),
        ({**PLACES, "a": ""}, "is no name"),
        ({**PLACES, "a": 1}, "is no name"),
        ({**PLACES, "a": "m.bin"}, "'m.bin' is not safetensors"),
        ({**PLACES, "\ud800": "m-1.safetensors"}, "not Unicode"),
        ([], "no 'weight_map'"),
    ],
)
def test_lists_that_are_wrong(places: dict[str, object], message: str, tmp_path: Path) -> None:
    path = shards(tmp_path, places)
    with pytest.raises(CkptError, match=message), ArrayReader(path, "safetensors") as reader:
        for error in reader.damaged.values():
            raise error


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"weight_map": {"a": "b", "a": "c"}}', "[" * 100_000, "\xff"]
)
def test_lists_that_are_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors.index.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(CorruptError, match=r"m\.safetensors\.index\.json"):
        ArrayReader(str(path), "safetensors")


def test_a_checkpoint_of_the_same_arrays_is_the_same(tmp_path: Path) -> None:
    expected = arrays()
    ckpttool.save_checkpoint(str(tmp_path / "ckpt-1"), expected)
    save_file(expected, tmp_path / "m.safetensors")
    save: Any = np.savez
    save(tmp_path / "x.npz", **expected)
    with Checkpoint(locate(tmp_path / "ckpt-1")) as ckpt:
        for name in ("m.safetensors", "x.npz"):
            with Checkpoint(locate(tmp_path / name)) as other:
                assert diff_checkpoints(ckpt, other).verdict == "equal"
                assert diff_checkpoints(other, ckpt).verdict == "equal"


def test_every_cut_and_every_changed_byte_is_an_error_or_an_answer(tmp_path: Path) -> None:
    """Of an archive the values are the right ones, or there is an error."""
    expected = {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.array([True, False])}
    save: Any = np.savez_compressed
    save_file(expected, tmp_path / "whole.safetensors", metadata={"format": "pt"})
    save(tmp_path / "whole.npz", **expected)
    np.save(tmp_path / "whole.npy", expected["a"])
    formats: tuple[ArrayFormat, ...] = ("safetensors", "npz", "npy")
    for format in formats:
        whole = (tmp_path / f"whole.{format}").read_bytes()
        changed = [whole[:size] for size in range(len(whole))]
        for at, byte in enumerate(whole):
            for change in (0x01, 0x80):
                changed.append(whole[:at] + bytes([byte ^ change]) + whole[at + 1 :])
        path = tmp_path / f"m.{format}"
        for data in changed:
            path.write_bytes(data)
            try:
                with ArrayReader(str(path), format) as reader:
                    found = {key: reader.read(key) for key in reader.entries}
            except CkptError as error:
                assert str(path) in str(error) and str(error).isprintable()
                continue
            if format == "npz":  # names are not covered by any checksum
                assert sorted(map(np.ndarray.tolist, found.values()), key=str) == sorted(
                    map(np.ndarray.tolist, expected.values()), key=str
                )
