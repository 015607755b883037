"""Every command on what others published: the known answer, and never another.

What TensorFlow makes of the results is in `tests/interop/test_wild.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ckpttool
from ckpttool.api.verify import verify
from ckpttool.errors import CkptError
from ckpttool.query.folder import list_folder
from tests.support.command import Outcome
from tests.support.wild import WILD, Made, artefacts, make, run

ARTEFACTS = artefacts()
pytestmark = pytest.mark.skipif(not ARTEFACTS, reason="the artefacts of others are not here")

# The words with which a command refuses an artefact, or says what it is.
NO_FILE = "not a file of a checkpoint"
FROZEN = "it is a GraphDef, such as a frozen graph"
NO_METAGRAPH = "that are not a tensorflow.MetaGraphDef"
NO_GRAPH = "a checkpoint without a MetaGraph"
NO_CHECKPOINT = "a MetaGraph without its checkpoint"
NO_VARIABLES = "the SavedModel has no variables"
NO_DATA = "data shard is missing"
NO_SHARD = "the data shard is missing"
NAMES_ALREADY = "already name-based"
FORM_ALREADY = "already in that form"
ALL_OBJECTS = "nothing would be left"
TWO_FORMATS = "one of each format"
ASSET = "an asset of the export is missing; --force converts without it"

# What the author left out, or what it is besides; all others are whole.
BARE_SAVED_MODELS = {
    "mlnet_string",
    "openvino_dummy",
    "serving_matrix_no_variables",
    "t2onnx_no_variables",
    "tfx_tft_tf1_no_variables",
    "triton_control_bool",
    "vespa_9662",
}
# Cut to the index for want of room.
INDEX_ONLY = ("idx_", "t5_index", "mlnet_sentiment_index", "text_hub_segmenter_graph")
# No tensor is a weight, or every one is a table, an asset or a part of the object graph.
WITHOUT_WEIGHTS = {
    "bentoml",
    "serving_text_regression/variables/variables",
    "tf_x_plus_y_v2_debuginfo",
    "tfdf_adult_rf",
    "tfx_tft_tf2",
    "ydf_adult_gbdt",
}
WITHOUT_V1 = WITHOUT_WEIGHTS - {"tfdf_adult_rf", "ydf_adult_gbdt"}
TWICE = "siamese_v1_beside_v2"  # a folder with one name in both formats
ASSETS_LOST = "sb_sharded_v1_no_assets/00000123/export.meta"
LOOKS = {
    "ls": ("ls",),
    "ls -d": ("ls", "-d"),
    "ls --tree": ("ls", "--tree"),
    "ls --json": ("ls", "--json"),
    "show": ("show",),
    "show --graph": ("show", "--graph"),
    "show --stats": ("show", "--stats"),
    "verify": ("verify",),
    "export-meta-json": ("export-meta-json",),
}
OF_GRAPHS = ("show --graph", "export-meta-json")
Answer = tuple[int, tuple[str, ...]]
DONE: Answer = (0, ("",))


def refused(*reasons: str) -> Answer:
    return 2, reasons


def looked_at(path: str, kind: str, what: str) -> Answer:
    """Return what a command that only looks has to answer, and with which words."""
    if kind in ("graphdef", "foreign"):
        return refused(NO_METAGRAPH if what in (*OF_GRAPHS, "show") else NO_FILE, NO_FILE, FROZEN)
    if kind == "meta" and is_alone(path):
        return DONE if what in (*OF_GRAPHS, "show") else refused(NO_CHECKPOINT)
    if path in BARE_SAVED_MODELS:
        answers = {"ls -d": NO_VARIABLES, "show --stats": "there are no tensors"}
        return refused(answers[what]) if what in answers else DONE
    if what in OF_GRAPHS and not has_graph(path, kind):
        return refused(NO_GRAPH)
    if lacks_data(path):
        if what == "verify":
            return 1, ("",)
        return refused(NO_DATA) if what == "show --stats" else DONE
    return DONE


def made_of(path: str, kind: str, how: str) -> Answer:
    """Return what a command that makes another has to answer."""
    if kind in ("graphdef", "foreign"):
        return refused(NO_FILE, FROZEN)
    if kind == "meta" and is_alone(path):
        return refused(NO_CHECKPOINT)
    if path in BARE_SAVED_MODELS:
        return refused(NO_VARIABLES)
    if path == TWICE and how in ("convert", "names", "v1"):
        return refused(TWO_FORMATS)
    if path == ASSETS_LOST and how == "convert":
        return refused(ASSET)
    if path in WITHOUT_WEIGHTS and how == "prune":
        return refused(ALL_OBJECTS)
    if path in WITHOUT_V1 and how == "v1":
        return refused(ALL_OBJECTS)
    style, generation = form_of(path)
    if how == "names" and style == "name":
        return refused(NAMES_ALREADY)
    if lacks_data(path):
        return refused(NO_SHARD)
    if (how == "v1") == (generation == "V1") and how in ("v1", "convert") and kind != "sb":
        # A file of an export stands for the export.
        is_export = Path(path).name == "export.meta"
        return DONE if is_export and how == "convert" else refused(FORM_ALREADY)
    if kind == "sb" and how == "v1" and generation == "V1":
        return refused(FORM_ALREADY)
    return DONE


def is_alone(path: str) -> bool:
    return not list((WILD / path).parent.glob("*.index")) and not path.startswith(
        ("sb_", "tensorb")
    )


def has_graph(path: str, kind: str) -> bool:
    if kind in ("sm", "smg", "sb", "meta"):
        return True
    with ckpttool.open_checkpoint(WILD / path) as read:
        return read.location.meta_path is not None


def lacks_data(path: str) -> bool:
    return path.startswith(INDEX_ONLY)


def form_of(path: str) -> tuple[str, str]:
    with ckpttool.open_checkpoint(WILD / path) as read:
        return read.style, read.generation


def agree(outcome: Outcome, answer: Answer) -> None:
    code, reasons = answer
    assert outcome.code == code, outcome
    assert any(reason in outcome.err for reason in reasons), outcome.err
    assert "Traceback" not in outcome.out + outcome.err
    assert "internal error" not in outcome.err


@pytest.mark.sweep(6)
@pytest.mark.parametrize("path", ARTEFACTS)
def test_looking(path: str) -> None:
    kind = ARTEFACTS[path]
    for what, (command, *rest) in LOOKS.items():
        outcome = run(command, WILD / path, *(["**", *rest] if "--stats" in rest else rest))
        agree(outcome, looked_at(path, kind, what))
        assert not outcome.out if outcome.code == 2 else outcome.out
    outcome = run("diff", WILD / path, WILD / path)
    if kind in ("graphdef", "foreign"):
        agree(outcome, refused(NO_FILE, NO_METAGRAPH, FROZEN))
    elif path in BARE_SAVED_MODELS or kind == "meta":
        agree(outcome, DONE)
    else:
        agree(outcome, refused(NO_DATA) if lacks_data(path) else DONE)


@pytest.mark.sweep(6)
@pytest.mark.parametrize("path", ARTEFACTS)
def test_its_own_lock(path: str, tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    listed = run("ls", "--json", WILD / path)
    if listed.code:
        return
    lock.write_text(listed.out)
    if lacks_data(path):
        agree(run("check", WILD / path, "--against", lock), refused(NO_DATA))
        return
    agree(run("check", WILD / path, "--against", lock), DONE)
    report = json.loads(listed.out)
    if path in BARE_SAVED_MODELS:
        assert report["tensors"] == []
        return
    report["tensors"][0]["shape"] = [5, 4, 3, 2, 1]
    lock.write_text(json.dumps(report))
    assert run("check", WILD / path, "--against", lock).code == 1


@pytest.mark.sweep(6)
@pytest.mark.parametrize("path", ARTEFACTS)
def test_making(path: str, tmp_path: Path) -> None:
    before = {each: each.stat() for each in (WILD / path).parent.iterdir()}
    for made in make(path, tmp_path):
        agree(made.outcome, made_of(path, ARTEFACTS[path], made.how))
        if made.outcome.code:
            assert not list(tmp_path.glob(f"{made.how}*"))
            continue
        assert run("verify", made.path).code == 0
        compare(path, made)
    assert {each: each.stat().st_mtime_ns for each in before} == {
        each: status.st_mtime_ns for each, status in before.items()
    }


def compare(path: str, made: Made) -> None:
    """Hold every value of what was made against the artefact."""
    with (
        ckpttool.open_checkpoint(WILD / path) as source,
        ckpttool.open_checkpoint(made.path) as result,
    ):
        values = {key: source[key] for key in source.entries}
        found = {key: result[key] for key in result.entries}
        if made.how in ("convert", "prune") or (made.how == "v1" and source.style == "name"):
            for key, value in leaves(found):
                np.testing.assert_array_equal(value, values[key])
            if made.how != "prune":
                assert found.keys() == values.keys()
        else:
            kept = sorted(bytes_of(value) for _, value in leaves(found))
            given = sorted(bytes_of(value) for _, value in leaves(values))
            assert kept == given if made.how == "rename" else set(kept) <= set(given)


def leaves(values: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    return ((key, each) for key, each in values.items() if "OBJECT_GRAPH" not in key)


def bytes_of(value: np.ndarray) -> bytes:
    return repr(value.tolist()).encode() if value.dtype == object else value.tobytes()


WARNINGS = {"state-gone", "state-moved", "same-name", "orphan", "asset-unread"}


def found_in(name: str) -> set[str]:
    if lacks_data(name):
        return {"shard-missing"}
    return {"no-checkpoint"} if name in ("deepspeech_ckpt", "scisharp_metas") else set()


@pytest.mark.sweep(6)
@pytest.mark.parametrize("name", sorted({path.split("/")[0] for path in ARTEFACTS}))
def test_nothing_is_found_that_is_not_so(name: str) -> None:
    for folder in [WILD / name, *filter(Path.is_dir, (WILD / name).rglob("*"))]:
        list_folder(str(folder))
        try:
            reports = verify(str(folder))
        except CkptError as error:
            assert "\n" not in str(error)
            continue
        codes = {
            each.code
            for report in reports
            for each in report.findings
            if each.severity != "warning" or each.code not in WARNINGS
        }
        assert codes <= found_in(name), [each.findings for each in reports]
