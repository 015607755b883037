"""TensorFlow reads or loads what is made of what others published."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from tests.interop.process import summary
from tests.support.wild import WILD, Made, artefacts, make

ARTEFACTS = artefacts()
pytestmark = pytest.mark.skipif(not ARTEFACTS, reason="the artefacts of others are not here")

# TensorFlow's reader has no such thing as a value of these, whoever wrote them.
UNREADABLE = {"variant", "resource"}


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
    with (
        ckpttool.open_checkpoint(WILD / path) as source,
        ckpttool.open_checkpoint(made.path) as result,
    ):
        prefix = result.prefix
        if result.generation == "V1" and not os.path.exists(prefix):
            prefix += "-?????-of-?????"
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
        assert shapes.keys() == result.entries.keys()
        assert {name for name, _ in tf.train.list_variables(prefix)} == shapes.keys()
        given = {key: source[key] for key in source.entries}
        known = [summary(value) for value in given.values()]
        for key, entry in result.entries.items():
            if str(entry.dtype) in UNREADABLE or "OBJECT_GRAPH" in key:
                continue
            found = summary(np.asarray(reader.get_tensor(key)))
            if made.how != "names" and made.how != "rename" and key in given:
                assert found == summary(given[key]), key
            else:
                assert found in known, key
        return f"{result.prefix}.meta", prefix


def load(tf: Any, folder: str) -> None:
    """Load a SavedModel by the loaders of TensorFlow 1 and 2."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.saved_model.loader.load(session, ["serve"], folder)
    assert tf.saved_model.load(folder, tags=["serve"]) is not None
