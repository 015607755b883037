"""Whatever a killed writer leaves behind, TensorFlow reads the old checkpoint or the new one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.operations import OPERATIONS, Operation
from tests.faults.server import Server
from tests.interop.process import Oracle
from tests.support.faults import CHANGES

NAMES = (
    "new checkpoint",
    "new folder",
    "compact",
    "over another, compact",
    "in place",
    "in place, four shards",
    "in place, compact",
)
KILLED = [operation for operation in OPERATIONS if operation.name in NAMES]
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# A variant, which it restores but has no array for.
NO_ARRAY = "Tensorflow type 21 not convertible to numpy dtype."
EVERY = 3


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture(scope="module")
def tensorflow() -> Iterator[Oracle]:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed for this interpreter")
    with Oracle(sys.executable) as started:
        yield started


def tensors(tensorflow: Oracle, prefix: str) -> dict[str, Any]:
    """Return what TensorFlow reads; it can show all of it but the state of an iterator."""
    answer = tensorflow.ask(prefix)
    assert "tensors" in answer, f"{prefix}: {answer}"
    found: dict[str, Any] = answer["tensors"]
    assert found
    errors = {value["error"] for value in found.values() if "error" in value}
    assert errors <= {NO_ARRAY}
    return found


def digests(found: dict[str, Any]) -> set[str]:
    return {
        value["sha256"]
        for key, value in found.items()
        if key != GRAPH and value.get("error") != NO_ARRAY
    }


@pytest.mark.parametrize("operation", KILLED, ids=str)
def test_tensorflow_reads_what_a_killed_writer_left(
    operation: Operation, server: Server, tensorflow: Oracle, tmp_path: Path
) -> None:
    root = str(tmp_path / "work")
    source, target = operation.source_prefix(root), operation.target_prefix(root)
    operation.build(root)
    given = tensors(tensorflow, source)
    has_old = os.path.exists(target + ".index")
    old = tensors(tensorflow, target) if has_old else None
    expected = operation.expected(root)
    ended = server.run(operation, root)
    assert not ended.code, ended.err
    new = tensors(tensorflow, target)
    assert new.keys() == expected.keys()
    assert new.keys() != given.keys()
    assert digests(new) <= digests(given)

    steps = [at for at, name in enumerate(ended.calls, 1) if name in CHANGES]
    states = set()
    for at in {*steps[::EVERY], *steps[-EVERY:], len(ended.calls)}:
        shutil.rmtree(root)
        operation.build(root)
        assert server.run(operation, root, number=signal.SIGKILL, at=at).code == -signal.SIGKILL
        if os.path.exists(target + ".index"):
            found = tensors(tensorflow, target)
            assert found in (old, new), (at, ended.calls[at - 1])
            states.add("new" if found == new else "old")
        else:
            assert not has_old, "the old checkpoint is gone"
            assert "error" in tensorflow.ask(target)
            states.add("absent")
        if target != source:
            assert tensors(tensorflow, source) == given
    assert states == {"new", "old" if has_old else "absent"}
