"""TensorFlow reads or loads what is made of what others published."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool.errors import CkptError
from ckpttool.tensor.dtypes import dtype_of_name
from tests.interop.process import OLDER, Oracle, summary
from tests.support.wild import WILD, Made, artefacts, make

ARTEFACTS = artefacts()
pytestmark = pytest.mark.skipif(not ARTEFACTS, reason="the artefacts of others are not here")

# TensorFlow's reader has no such thing as a value of these, whoever wrote them.
UNREADABLE = {"variant", "resource"}
GRAPH_ORACLE = Path(__file__).with_name("graph_oracle.py")


@pytest.mark.parametrize("path", ARTEFACTS)
def test_what_is_made(tf: Any, path: str, tmp_path: Path) -> None:
    for made in make(path, tmp_path):
        if made.outcome.code:
            continue
        folder = made.path
        if (folder / "saved_model.pb").exists():
            load(tf, str(folder))
        meta, prefix = read_values(tf, path, made)
        if os.path.exists(meta) and imported(tf, meta) is None:
            assert made.how in ("convert", "prune", "v1")
            restore(tf, meta, prefix)


@pytest.mark.parametrize("path", [path for path, kind in ARTEFACTS.items() if kind == "meta"])
def test_graphs_beside_them(tf: Any, path: str, tmp_path: Path) -> None:
    """What TensorFlow imports of the original it imports of what is carried along."""
    refused = imported(tf, str(WILD / path))
    for made in make(path, tmp_path):
        meta = tmp_path / f"{made.how}.meta"
        if meta.exists():
            # Some versions of a writer were not readable before.
            assert imported(tf, str(meta)) in (refused, None)


class Older:
    """TensorFlow 1.15, of which one process reads values and one graphs."""

    def __init__(self, values: Oracle, graphs: Oracle) -> None:
        self.values = values
        self._graphs = graphs

    def read(self, prefix: str, tensors: dict[str, dict[str, Any]], key: str) -> dict[str, Any]:
        """Return a tensor as its reader has it, or, as that lacks bools of V1, its graphs do."""
        found = tensors[key]
        if found.get("error") == "Data type not supported":
            return self.values.ask([prefix, key, "", dtype_of_name("bool").number])
        return found

    def does(self, *words: str) -> str | None:
        """Have something done with a graph; return why it cannot be."""
        error: str | None = self._graphs.ask(words).get("error")
        return error


@pytest.fixture(scope="module")
def older() -> Iterator[Older]:
    python = os.environ.get(OLDER)
    if not python:
        pytest.skip(f"{OLDER} names no interpreter that has TensorFlow 1.15")
    with Oracle(python) as values, Oracle(python, GRAPH_ORACLE) as graphs:
        yield Older(values, graphs)


@pytest.mark.parametrize("path", ARTEFACTS)
def test_what_is_made_of_old_ones_for_the_older(older: Older, path: str, tmp_path: Path) -> None:
    """What TensorFlow 1 wrote stays readable by it."""
    if not is_old(path):
        pytest.skip("TensorFlow 2 wrote it, or it is not a checkpoint")
    for made in make(path, tmp_path):
        if made.outcome.code:
            continue
        if (made.path / "saved_model.pb").exists():
            assert older.does("load", str(made.path), "serve") is None
        meta, prefix = names_of(made)
        tensors = older.values.ask(prefix)["tensors"]
        compare(path, made, tensors, partial(older.read, prefix, tensors))
        if os.path.exists(meta) and older.does("import", meta) is None:
            assert older.does("restore", meta, prefix) is None


@pytest.mark.parametrize("path", [path for path, kind in ARTEFACTS.items() if kind == "meta"])
def test_graphs_beside_them_for_the_older(older: Older, path: str, tmp_path: Path) -> None:
    refused = older.does("import", str(WILD / path))
    for made in make(path, tmp_path):
        meta = tmp_path / f"{made.how}.meta"
        if meta.exists():
            assert older.does("import", str(meta)) in (refused, None)


def is_old(path: str) -> bool:
    """Tell whether a release of TensorFlow 1, or one before, wrote a checkpoint."""
    try:
        with ckpttool.open_checkpoint(WILD / path) as ckpt:
            graph = ckpt.metagraph
            if graph is not None and graph.tensorflow_version:
                return int(graph.tensorflow_version.split(".")[0]) < 2
            return ckpt.generation == "V1" or ckpt.object_graph is None
    except CkptError:
        return False


def imported(tf: Any, meta: str) -> str | None:
    """Import a graph; return why TensorFlow does not."""
    with tf.Graph().as_default():
        try:
            tf.compat.v1.train.import_meta_graph(meta, clear_devices=True)
        except (ValueError, KeyError, TypeError, tf.errors.OpError) as error:
            return str(error)
    return None


def restore(tf: Any, meta: str, prefix: str) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        saver = tf.compat.v1.train.import_meta_graph(meta, clear_devices=True)
        saver.restore(session, prefix)


def read_values(tf: Any, path: str, made: Made) -> tuple[str, str]:
    """Hold what TensorFlow reads against the artefact.

    Returns:
        The path of its graph, and how TensorFlow calls the checkpoint.
    """
    meta, prefix = names_of(made)
    reader = tf.train.load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    assert {name for name, _ in tf.train.list_variables(prefix)} == shapes.keys()
    compare(path, made, shapes, lambda key: summary(np.asarray(reader.get_tensor(key))))
    return meta, prefix


def names_of(made: Made) -> tuple[str, str]:
    """Return the path of the graph, and how TensorFlow calls the checkpoint."""
    with ckpttool.open_checkpoint(made.path) as result:
        prefix = result.prefix
        if result.generation == "V1" and not os.path.exists(prefix):
            prefix += "-?????-of-?????"
        return f"{result.prefix}.meta", prefix


def compare(
    path: str, made: Made, keys: Collection[str], read: Callable[[str], dict[str, Any]]
) -> None:
    """Hold what TensorFlow reads against the artefact.

    Args:
        path: of the artefact.
        made: what was made of it.
        keys: of all tensors that TensorFlow finds.
        read: returns what it reads of one.
    """
    with (
        ckpttool.open_checkpoint(WILD / path) as source,
        ckpttool.open_checkpoint(made.path) as result,
    ):
        assert set(keys) == result.entries.keys()
        given = {key: summary(source[key]) for key in source.entries}
        for key, entry in result.entries.items():
            if str(entry.dtype) in UNREADABLE or "OBJECT_GRAPH" in key:
                continue
            found = read(key)
            if made.how not in ("names", "rename") and key in given:
                assert found == given[key], key
            else:
                assert found in given.values(), key


def load(tf: Any, folder: str) -> None:
    """Load a SavedModel by the loaders of TensorFlow 1 and 2."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.saved_model.loader.load(session, ["serve"], folder)
    assert tf.saved_model.load(folder, tags=["serve"]) is not None
