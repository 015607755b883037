"""Random programs save and restore the same with TensorFlow and with us.

For more of them, and other ones: CKPT_RANDOM_PROGRAMS=10000 CKPT_RANDOM_SEED=7.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from ckpttool import train
from tests.interop.train_faces import theirs
from tests.interop.train_random import Outcome, Step, restoring_program, run, saving_program

PROGRAMS = int(os.environ.get("CKPT_RANDOM_PROGRAMS", "60"))
SEED = int(os.environ.get("CKPT_RANDOM_SEED", "1"))


@pytest.fixture(scope="module")
def faces(tf: Any) -> dict[str, Any]:
    from tensorflow.python.checkpoint.util import list_objects

    def write_by_name(prefix: str, named: dict[str, Any]) -> None:
        values = [tf.constant(value) for value in named.values()]
        tf.raw_ops.SaveV2(
            prefix=prefix + "-part",
            tensor_names=list(named),
            tensors=values,
            shape_and_slices=[""] * len(named),
        )
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=[prefix + "-part"], destination_prefix=prefix
        )

    @contextmanager
    def asking(status: Any) -> Iterator[None]:
        """Let nothing count that the program has dropped; until it is collected, it does."""
        if hasattr(status, "_optionally_restored"):
            unused = status._checkpoint.unused_attributes
            with suppress(ValueError):  # a container was changed
                reachable = {id(one) for one in list_objects(status._object_graph_view)}
                for dropped in [one for one in unused if id(one) not in reachable]:
                    del unused[dropped]
            yield
        else:
            # What can be reached when an assertion is called is noted for all later ones.
            seen = list(status._checkpoint.all_python_objects)
            yield
            status._checkpoint.all_python_objects.clear()
            status._checkpoint.all_python_objects.update(seen)

    ours = SimpleNamespace(
        **{name: getattr(train, name) for name in train.__all__},
        asking=lambda status: nullcontext(),
    )
    made = {"theirs": theirs(tf), "ours": ours}
    made["theirs"].asking = asking
    for face in made.values():
        face.write_by_name = write_by_name
    return made


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


class Programs(NamedTuple):
    """One that saves, and one that restores what it saved."""

    saving: list[Step]
    restoring: list[Step]


def made_up(seed: int) -> list[Programs]:
    random = Random(seed)
    saving = saving_program(random, random.choice([3, 10, 25]))
    return [Programs(saving, restoring_program(random, saving)) for _ in range(2)]


def difference(faces: dict[str, Any], programs: Programs) -> str:
    """Tell how the two systems differ."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for who in faces:
            (folder / who).mkdir()
        outcomes = {who: run(face, folder / who, programs.saving) for who, face in faces.items()}
        told = compared(outcomes["theirs"], outcomes["ours"])
        if told:
            return f"saving: {told}"
        left = {who: files(folder / who) for who in faces}
        if left["theirs"] != left["ours"]:
            return f"files: {differing(left['theirs'], left['ours'])}"
        outcomes = {
            who: run(face, folder / "ours", programs.restoring) for who, face in faces.items()
        }
        told = compared(outcomes["theirs"], outcomes["ours"])
        return told and f"restoring: {told}"


def differing(theirs: dict[str, bytes], ours: dict[str, bytes]) -> str:
    if theirs.keys() != ours.keys():
        return f"{sorted(theirs)} and {sorted(ours)}"
    return ", ".join(name for name, data in theirs.items() if ours[name] != data)


def compared(theirs: Outcome, ours: Outcome) -> str:
    for one, other in zip(theirs.steps, ours.steps, strict=False):
        if one != other:
            return f"{one} theirs, {other} ours"
    if len(theirs.steps) != len(ours.steps):
        return f"{len(theirs.steps)} steps theirs, {len(ours.steps)} ours"
    if not ours.untouched:
        return "a restore that failed left traces"
    if theirs.steps and theirs.steps[-1][1] == "error":
        return ""
    for key in theirs.values.keys() | ours.values.keys():
        one_value, other_value = theirs.values.get(key), ours.values.get(key)
        if one_value != other_value:
            return f"value of {key}: {one_value} theirs, {other_value} ours"
    return ""


def shortened(faces: dict[str, Any], programs: Programs) -> str:
    """Tell the difference of programs from which no step can be left out."""
    told = difference(faces, programs)
    for at, steps in enumerate(programs):
        for step in reversed(steps.copy()):
            fewer = list(programs)
            fewer[at] = [one for one in programs[at] if one is not step]
            now = difference(faces, Programs(*fewer))
            if now.partition(":")[0] == told.partition(":")[0]:
                programs, told = Programs(*fewer), now
    return "\n".join([told, *map(repr, programs.saving), "", *map(repr, programs.restoring)])


@pytest.mark.filterwarnings("ignore")
def test_random_programs_do_the_same(faces: dict[str, Any]) -> None:
    for seed in range(SEED * 10**6, SEED * 10**6 + PROGRAMS):
        for programs in made_up(seed):
            if difference(faces, programs):
                pytest.fail(f"seed {seed}: {shortened(faces, programs)}")
