"""Whatever the bytes of a bundle are, the answer is right or a refusal that says where.

Sweeps: small fixtures of every kind are cut at every length and have a bit or more turned at every
position, with the checksums wrong and with the checksums made right again. Of all other small
fixtures every 97th variant is tried; CKPTTOOL_FULL_SWEEPS=1 tries all.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.bundle.reader import BundleReader
from ckpttool.errors import ChecksumError, CkptError, CorruptError
from tests.support import corruption, fixtures
from tests.support.answers import Answer, everything
from tests.support.attack import RULES, Attack, all_attacks, good
from tests.support.bombs import BOMBS
from tests.support.fixtures import read_bytes
from tests.support.limits import memory_limit, run_python, time_limit

MIB = 1 << 20
ROOM = 64 * MIB
SECONDS = 5.0

# Swept at every position: whole and partitioned tensors, strings, variants, object graphs, several
# shards, odd keys, no elements; all below 1 KB.
CLOSELY = [
    "v2/tf0.12/saver/model.ckpt-2",
    "v2/tf1.15/saveables/model",
    "v2/tf2.21/dtypes/empty",
    "v2/tf2.21/dtypes/scalar",
    "v2/tf2.21/glob_prefix/model[1]",
    "v2/tf2.21/keys_not_utf8/bytes",
    "v2/tf2.21/merged/model",
    "v2/tf2.21/partitioned_grid/model",
    "v2/tf2.21/partitioned_rows/model",
    "v2/tf2.21/partitioned_sharded/model",
    "v2/tf2.21/root_variable/ckpt",
    "v2/tf2.21/saver_sharded/model-7",
    "v2/tf2.21/write_no_counter/ckpt",
]
ATTACKS = all_attacks()
LARGEST = 4000
OTHERS_STRIDE = 1 if os.environ.get("CKPTTOOL_FULL_SWEEPS") else 97
OTHERS = [
    bundle.name
    for bundle in fixtures.bundles()
    if bundle.name not in CLOSELY and len(bundle.index) < LARGEST
]
FILES = [(name, 1) for name in CLOSELY] + [(name, OTHERS_STRIDE) for name in OTHERS]

each_fixture = pytest.mark.parametrize(("name", "stride"), FILES, ids=[row[0] for row in FILES])


class Victim:
    """A copy of a fixture, one file of which is damaged at a time."""

    def __init__(self, name: str, folder: Path) -> None:
        source = fixtures.bundle(name).prefix
        base = os.path.basename(source)
        self.prefix = str(folder / base)
        self.paths = []
        for entry in sorted(os.listdir(os.path.dirname(source))):
            if entry.startswith((base + ".index", base + ".data-")):
                shutil.copy(os.path.join(os.path.dirname(source), entry), folder)
                self.paths.append(str(folder / entry))
        self.index_path = self.prefix + ".index"
        self.index = read_bytes(self.index_path)
        self.shards = [path for path in self.paths if path != self.index_path]
        self.good = everything(self.prefix)
        self.big_endian = False

    def answers(self, path: str, data: bytes) -> dict[str, Answer] | None:
        """Replace a file and read everything; None if the whole bundle is refused."""
        with open(path, "wb") as file:
            file.write(data)
        try:
            found = everything(self.prefix)
        except CkptError:
            return None
        if path == self.index_path:
            with BundleReader(self.prefix) as reader:
                self.big_endian = reader.header.big_endian
        return found

    def restore(self, path: str, data: bytes) -> None:
        """Put the good bytes back."""
        with open(path, "wb") as file:
            file.write(data)

    def check_data_answers(self, found: dict[str, Answer] | None) -> int:
        """Check that every tensor is right or refused; return how many are refused."""
        assert found is not None
        assert list(found) == list(self.good)
        for key, answer in found.items():
            assert answer.error is not None or answer == self.good[key], key
        return sum(answer.error is not None for answer in found.values())


def limited(cases: Iterable[tuple[int, bytes]]) -> Iterable[tuple[int, bytes]]:
    """Pass cases on, each with its own time limit."""
    for case in cases:
        with time_limit(SECONDS):
            yield case


def cuts(data: bytes, stride: int) -> list[tuple[int, bytes]]:
    return [(size, data[:size]) for size in range(0, len(data), stride)]


def flips(data: bytes, stride: int) -> list[tuple[int, bytes]]:
    return [
        (at, corruption.flip(data, at, corruption.bits_for(at)))
        for at in range(0, len(data), stride)
    ]


@pytest.mark.sweep(10)
@each_fixture
def test_an_index_that_is_cut(name: str, stride: int, tmp_path: Path) -> None:
    victim = Victim(name, tmp_path)
    with memory_limit(ROOM):
        for size, data in limited(cuts(victim.index, stride)):
            assert victim.answers(victim.index_path, data) is None, size


@pytest.mark.sweep(10)
@each_fixture
def test_an_index_with_a_turned_byte(name: str, stride: int, tmp_path: Path) -> None:
    victim = Victim(name, tmp_path)
    refused = 0
    with memory_limit(ROOM):
        for at, data in limited(flips(victim.index, stride)):
            found = victim.answers(victim.index_path, data)
            assert found is None or found == victim.good, at
            refused += found is None
    # Only the metaindex, its handle and the padding are without meaning.
    assert refused >= len(range(0, len(victim.index) - 61, stride)) - 14


@pytest.mark.sweep(10)
@each_fixture
def test_an_index_with_a_turned_byte_and_right_checksums(
    name: str, stride: int, tmp_path: Path
) -> None:
    victim = Victim(name, tmp_path)
    with memory_limit(ROOM):
        for at, data in limited(corruption.sealed_flips(victim.index)[::stride]):
            victim.big_endian = False
            found = victim.answers(victim.index_path, data)
            if found is None:
                continue
            # No tensor is lost without a word; what is still called the same is the same.
            assert len(found) >= len(victim.good), at
            for key, answer in found.items():
                before = victim.good.get(key)
                if answer.error or before is None or victim.big_endian:
                    continue
                assert answer.dtype != before.dtype or answer.value == before.value, (at, key)


@pytest.mark.sweep(10)
@each_fixture
def test_a_shard_that_is_cut(name: str, stride: int, tmp_path: Path) -> None:
    victim = Victim(name, tmp_path)
    for path in victim.shards:
        whole = read_bytes(path)
        with memory_limit(ROOM):
            step = max(stride, len(whole) // 300)
            for size, data in limited(cuts(whole, step)):
                assert victim.check_data_answers(victim.answers(path, data)) > 0, size
        victim.restore(path, whole)


@pytest.mark.sweep(10)
@each_fixture
def test_a_shard_with_a_turned_byte(name: str, stride: int, tmp_path: Path) -> None:
    victim = Victim(name, tmp_path)
    for path in victim.shards:
        whole = read_bytes(path)
        with memory_limit(ROOM):
            step = max(stride, len(whole) // 300)
            for at, data in limited(flips(whole, step)):
                # Fixtures have no bytes that belong to nobody.
                assert victim.check_data_answers(victim.answers(path, data)) == 1, at
        victim.restore(path, whole)


def test_every_rule_is_attacked() -> None:
    assert {attack.rule for attack in ATTACKS} == set(RULES)
    assert len({str(attack) for attack in ATTACKS}) == len(ATTACKS) > 100


def test_the_bundle_that_is_attacked_is_good(tmp_path: Path) -> None:
    answers = everything(good().write(tmp_path / "m"))
    assert not any(answer.error for answer in answers.values())
    assert {key: answer.shape for key, answer in answers.items()} == {
        "f": (2, 3),
        "p": (3, 2),
        "s": (3,),
        "x": (32,),
    }


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_attacks(attack: Attack, tmp_path: Path) -> None:
    expected = everything(good().write(tmp_path / "good"))
    made = good()
    index = attack.change(made)
    prefix = made.write(tmp_path / "m", index)
    before = fixtures.folder_contents(tmp_path)
    with memory_limit(ROOM), time_limit(SECONDS):
        try:
            found = everything(prefix)
        except CkptError as error:
            check_error(attack, error)
            return
    assert fixtures.folder_contents(tmp_path) == before
    if attack.error is None:
        assert {key: found[key] for key in expected} == expected
        return
    assert attack.key is not None, "the bundle was accepted"
    lost = found[attack.key].error
    assert lost is not None, "the tensor was accepted"
    check_error(attack, lost)
    assert lost.key == attack.key
    for key, answer in expected.items():
        assert key == attack.key or found[key] == answer, key


def check_error(attack: Attack, error: CkptError) -> None:
    assert attack.error is not None, error
    assert isinstance(error, attack.error), repr(error)
    assert attack.message in error.message
    if attack.error is CorruptError:
        assert not isinstance(error, ChecksumError)


def test_the_end_of_one_shard_does_not_tell_of_another(tmp_path: Path) -> None:
    """Sizes are those of the files that are there, whatever the header says."""
    made = good()
    made.shards[1] = b""
    answers = everything(made.write(tmp_path / "m"))
    assert {key for key, answer in answers.items() if answer.error} == {"x"}


BOMBED = """
import json, sys
import numpy, ml_dtypes
from ckpttool.bundle.reader import BundleReader
from ckpttool.errors import CkptError
from tests.support.answers import everything
from tests.support.limits import memory_limit, time_limit
for prefix, room in json.loads(sys.argv[1]):
    with memory_limit(room), time_limit(20):
        try:
            (error,) = [answer.error for answer in everything(prefix).values()]
        except CkptError as found:
            error = found
        print(json.dumps(error and error.message[:200]))
"""


@pytest.mark.large
def test_bombs(tmp_path: Path) -> None:
    """A claim takes neither memory nor time that the bytes behind it do not have."""
    bombs = {str(tmp_path / f"m{at}"): bomb for at, bomb in enumerate(BOMBS)}
    for prefix, bomb in bombs.items():
        bomb.write(prefix)
    rooms = [(prefix, ROOM + bomb.room) for prefix, bomb in bombs.items()]
    done = run_python(BOMBED, json.dumps(rooms), timeout=120)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert (len(said), done.stderr) == (len(BOMBS), "")
    wrong = {
        bomb.name: message
        for bomb, message in zip(BOMBS, said, strict=True)
        if bomb.message not in (message or "") or (message is None) != (bomb.message == "")
    }
    assert not wrong


SMALL = [fixtures.bundle(name) for name in CLOSELY]


@given(st.sampled_from(SMALL), st.data())
def test_any_change_of_blocks_with_right_checksums(
    tmp_path_factory: pytest.TempPathFactory, bundle: fixtures.BundleFixture, data: st.DataObject
) -> None:
    changed = corruption.mixed_up(bundle.index, data)
    folder = tmp_path_factory.getbasetemp() / "changed"
    folder.mkdir(exist_ok=True)
    for name in os.listdir(folder):
        os.unlink(folder / name)
    victim = Victim(bundle.name, folder)
    with memory_limit(ROOM), time_limit(SECONDS):
        victim.answers(victim.index_path, changed)
