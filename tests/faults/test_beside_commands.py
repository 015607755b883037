"""A trainer saves every few dozen milliseconds while commands are run on its folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ckpttool.cli.main import main
from tests.faults import trainer
from tests.faults.counts import MOMENTS, count
from tests.support.command import environment

# Each is run on the folder, and may write to another one.
COMMANDS = {
    "ls": ["ls", "{run}"],
    "show": ["show", "{run}", "net/embedding", "--stats"],
    "diff": ["diff", "{run}", "{first}"],
    "rename": ["rename", "{run}", "net=model", "-o", "{out}"],
    "prune": ["prune", "{run}", "--drop", "net/layer_0/**", "-o", "{out}"],
    "check": ["check", "{run}", "--finite"],
    "verify": ["verify", "{run}/checkpoint"],
}
# What is told of a checkpoint that is saved or removed meanwhile.
_MEANWHILE = re.compile("changed while|being written|gone|no such|does not exist|has no index")


@contextmanager
def training(folder: Path) -> Iterator[None]:
    words = [sys.executable, "-m", "tests.faults.trainer", str(folder), "600"]
    process = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL)
    try:
        while not (folder / "checkpoint").exists():
            time.sleep(0.01)
        yield
        assert process.poll() is None, "the trainer was disturbed"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_being_saved_is_not_called_damaged(
    name: str, exhaustive: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir()
    out.mkdir()
    first = tmp_path / "first"
    trainer.run(trainer.saving(str(first), 1))
    codes: Counter[int] = Counter()
    with training(run):
        for number in range(100 if exhaustive else 10):
            places = {"run": run, "out": out / f"q{number}", "first": first}
            words = [word.format(**places) for word in COMMANDS[name]]
            capsys.readouterr()
            code = main(words)
            out_and_err = capsys.readouterr()
            said = out_and_err.err + out_and_err.out
            count(MOMENTS)
            codes[code] += 1
            if code == 2:
                assert _MEANWHILE.search(said), said
                assert not any(each.startswith(f"q{number}.") for each in os.listdir(out))
            elif name == "diff":
                assert code in (0, 1), said
            else:
                assert code == 0, said
    assert codes[0] + codes[1] >= codes[2], codes
