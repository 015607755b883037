"""Real processes side by side: two writers, a trainer, readers."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from ckpttool import open_checkpoint
from ckpttool.api.verify import verify
from ckpttool.errors import ChangedError, CkptError, MissingFileError, SurgeryError
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import MoveRule
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from tests.faults import trainer
from tests.faults.counts import MOMENTS, count
from tests.faults.operations import OPERATIONS, Operation
from tests.faults.oracle import Oracle
from tests.faults.server import Ended, Server
from tests.support.answers import value_bytes
from tests.support.command import ckpt, environment
from tests.support.faults import Call

SECONDS = 5.0
BY_NAME = {operation.name: operation for operation in OPERATIONS}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("new checkpoint", "new checkpoint"),
        ("copy", "copy"),
        ("no links", "no links"),
        ("arrays", "arrays"),
        ("state file", "state file"),
    ],
)
def test_of_two_writers_one_succeeds(
    first: str, second: str, server: Server, exhaustive: bool, tmp_path: Path
) -> None:
    """The second is started at one moment of the first after the other."""
    step = 7 if exhaustive else 35
    oracle = Oracle(BY_NAME[first], str(tmp_path))
    at = 1
    with ThreadPoolExecutor(1) as pool:
        while play(oracle, BY_NAME[second], server, pool, at):
            at += step
    assert at > 30


def play(
    oracle: Oracle, other: Operation, server: Server, pool: ThreadPoolExecutor, at: int
) -> bool:
    """Run an operation, and another one from its call number `at` on."""
    root = oracle.fresh()
    running: list[Future[Ended]] = []

    def before(call: Call) -> None:
        if call.number == at:
            count(MOMENTS)
            running.append(pool.submit(server.run, other, root))
            # It either ends, or waits for the first to give the folder free.
            wait(running, timeout=0.15)

    done = True
    try:
        with oracle.operation.prepared(root) as write, oracle.operation.system(root, before=before):
            write(False)
    except CkptError as error:
        done = False
        assert "already exists" in str(error)
    if not running:
        return False
    ended = running[0].result(30)
    assert (ended.code, done) in ((0, False), (2, True)), (at, ended, done)
    if ended.code:
        assert ended.err.endswith("already exists\n"), ended.err
        assert ended.err.count("\n") == 1
    oracle.check(done=True)
    return True


def test_processes_started_together(tmp_path: Path) -> None:
    oracle = Oracle(BY_NAME["new folder"], str(tmp_path))
    for _ in range(2):
        root = oracle.fresh()
        words = [sys.executable, "-m", "ckpttool", *oracle.operation.command(root)]
        processes = [
            subprocess.Popen(words, env=environment(), stdout=-1, stderr=-1) for _ in range(4)
        ]
        messages = [process.communicate(timeout=60)[1].decode() for process in processes]
        codes = Counter(process.returncode for process in processes)
        assert codes == {0: 1, 2: 3}, messages
        oracle.check(done=True)


class Readers:
    """Threads that read the latest checkpoint of a folder again and again.

    Attributes:
        right: how often a checkpoint was read and was right.
        gone: how often it was retired meanwhile.
        wrong: what else happened.
    """

    def __init__(self, folder: str) -> None:
        self.right = self.gone = 0
        self.wrong: list[str] = []
        self._folder = folder
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(2)]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *rest: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        while not self._stop.is_set():
            try:
                with open_checkpoint(self._folder) as found:
                    name = os.path.basename(found.prefix)
                    values = {key: value_bytes(found[key]) for key in found}
                if values == trainer.expected(int(name[len("ckpt-") :])):
                    self.right += 1
                else:
                    self.wrong.append(f"{name}: other values")
            except (ChangedError, MissingFileError):
                self.gone += 1
            except Exception as error:
                self.wrong.append(repr(error))


def test_beside_a_trainer(tmp_path: Path) -> None:
    """A trainer is not disturbed, and whoever reads or exports gets one whole checkpoint."""
    folder = str(tmp_path / "run")
    os.mkdir(folder)
    training = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.trainer", folder, str(SECONDS)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    exported: dict[str, int] = {}
    refused: Counter[str] = Counter()
    with Readers(folder) as readers:
        while not os.path.exists(os.path.join(folder, "checkpoint")):
            time.sleep(0.01)
        while training.poll() is None:
            export(folder, f"export-{len(exported)}", exported, refused)
            if len(exported) % 15 == 1:
                listing(folder)
    out, err = training.communicate()
    assert not training.returncode, err
    assert int(out) > 20
    assert not readers.wrong
    assert readers.right > 50
    assert len(exported) > 20
    assert set(refused) <= {"ChangedError", "SurgeryError", "MissingFileError"}
    for name, step in exported.items():
        with open_checkpoint(os.path.join(folder, name)) as found:
            values = {key: value_bytes(found[key]) for key in found}
        assert values == trainer.expected(step, "model"), name
    others = [name for name in os.listdir(folder) if not name.startswith(("ckpt-", "export-"))]
    assert others == ["checkpoint"]


def export(folder: str, name: str, exported: dict[str, int], refused: Counter[str]) -> None:
    """Rename the latest checkpoint into another one beside it."""
    modes = (WriteOptions(), WriteOptions("copy"), WriteOptions(compact=True))
    try:
        with open_checkpoint(folder) as found:
            step = int(os.path.basename(found.prefix)[len("ckpt-") :])
            plan = rename(Plan.of(found), [MoveRule("net", "model")])
            prepare(plan, os.path.join(folder, name), modes[len(exported) % 3]).write()
    except (ChangedError, SurgeryError, MissingFileError) as error:
        refused[type(error).__name__] += 1
    else:
        exported[name] = step


def listing(folder: str) -> None:
    """List the latest checkpoint as a user does."""
    ended = ckpt("ls", folder, "--format", "names")
    if ended.code:
        assert ended.code == 2
        assert ended.err.count("\n") == 1
        assert "no " in ended.err, ended.err
    else:
        assert sorted(ended.out.split()) == sorted(trainer.expected(1))


@pytest.mark.large
def test_a_checkpoint_that_is_saved_again_and_again(tmp_path: Path) -> None:
    """Whoever reads it while it is written over is told so, and not that it is damaged."""
    prefix = str(tmp_path / "best")
    trainer.run(trainer.saving(prefix, 1))
    stop = threading.Event()

    def train() -> None:
        step = 1
        while not stop.is_set():
            step += 1
            for _ in trainer.saving(prefix, step):
                time.sleep(0.0005)
        trainer.run(trainer.saving(prefix, 1))

    thread = threading.Thread(target=train)
    thread.start()
    right = 0
    refused: Counter[str] = Counter()
    end = time.monotonic() + 2
    try:
        while time.monotonic() < end:
            try:
                with open_checkpoint(prefix) as found:
                    values = {key: value_bytes(found[key]) for key in found}
                (step,) = struct.unpack("<f", values[trainer.SMALL[0]])
                assert values == trainer.expected(round(step))
                right += 1
            except CkptError as error:
                known = isinstance(error, MissingFileError)
                if not known and not re.search("changed while|being written", str(error)):
                    refused[error.message] += 1
    finally:
        stop.set()
        thread.join()
    assert right > 10
    assert not refused


@pytest.mark.large
def test_a_folder_is_verified_beside_a_trainer(tmp_path: Path) -> None:
    """What is being saved or removed is neither damaged nor unchecked."""
    words = [sys.executable, "-m", "tests.faults.trainer", str(tmp_path), str(SECONDS)]
    process = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL)
    codes: Counter[str] = Counter()
    found = []
    while process.poll() is None:
        typed = tmp_path if codes["ok"] % 2 else tmp_path / "checkpoint"
        if not os.path.exists(tmp_path / "checkpoint"):
            continue
        count(MOMENTS)
        reports = verify(typed)
        found += [each for report in reports for each in report.findings]
        codes.update(report.verdict for report in reports)
    assert process.wait() == 0
    assert set(codes) == {"ok"}, (codes, found)
    assert codes["ok"] > 20
    assert {each.code for each in found} <= {"leftover", "orphan"}
