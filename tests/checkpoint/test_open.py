"""The face of a checkpoint: a mapping by key and by object path."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

import ckpttool
from ckpttool.errors import (
    ChecksumError,
    CorruptError,
    MissingFileError,
    MissingKeyError,
    UnsupportedError,
)
from tests.legacy.handmade import LegacyFixture, legacy_fixture, legacy_fixtures
from tests.support.fixtures import FIXTURES, BundleFixture, bundle, digest, manifest
from tests.support.sweeps import each_bundle

GUIDE = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"
KERNEL = "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"


@each_bundle
def test_a_mapping_of_all_tensors(fixture: BundleFixture) -> None:
    with ckpttool.open_checkpoint(fixture.prefix) as ckpt:
        assert list(ckpt) == sorted(
            fixture.tensors, key=lambda key: key.encode("utf-8", "surrogateescape")
        )
        assert len(ckpt) == len(fixture.tensors)
        for key, facts in fixture.tensors.items():
            value = ckpt[key]
            assert value.shape == facts.shape
            if facts.sha256 is not None:
                assert digest(value) == facts.sha256
            path = ckpt.object_path(key)
            if path is not None:
                assert ckpt.resolve(path) == key


def test_object_paths_and_all_their_aliases() -> None:
    with ckpttool.open_checkpoint(bundle(GUIDE).prefix) as ckpt:
        assert "net/l1/kernel" in ckpt and KERNEL in ckpt
        assert np.array_equal(ckpt["net/l1/kernel"], ckpt[KERNEL])
        slot = ckpt.resolve("net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m")
        assert slot == "net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE"
        assert ckpt.style == "object" and ckpt.generation == "V2"
    with ckpttool.open_checkpoint(bundle("v2/tf2.21/keras3_adam/ckpt-1").prefix) as ckpt:
        # Keras 3 weights are stored by way of the optimizer; the model's own path works too.
        graph = ckpt.object_graph
        assert graph is not None
        key = "optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE"
        node = graph.node_at("optimizer/_trainable_variables/0")
        assert node is not None
        aliases = graph.paths_of(node)
        assert len(aliases) > 1
        assert {ckpt.resolve(path) for path in aliases} == {key}


def test_a_missing_key_names_what_comes_near() -> None:
    with ckpttool.open_checkpoint(bundle(GUIDE).prefix) as ckpt:
        with pytest.raises(MissingKeyError, match="net/l1/kernel") as caught:
            ckpt["net/l1/kernle"]
        assert isinstance(caught.value, KeyError)
        assert ckpt.get("nothing like it") is None
        assert "nothing like it" not in ckpt


def test_a_missing_checkpoint_is_a_missing_file(tmp_path: os.PathLike[str]) -> None:
    with pytest.raises(MissingFileError) as caught:
        ckpttool.open_checkpoint(os.path.join(tmp_path, "ckpt-1"))
    assert isinstance(caught.value, FileNotFoundError)


def test_a_damaged_shard_gives_no_value(tmp_path: os.PathLike[str]) -> None:
    for path in (".index", ".data-00000-of-00001"):
        shutil.copy(bundle(GUIDE).prefix + path, os.path.join(tmp_path, "ckpt-5" + path))
    prefix = os.path.join(tmp_path, "ckpt-5")
    with ckpttool.open_checkpoint(prefix) as ckpt:
        entry = ckpt.bundle.entries[KERNEL]
    with open(prefix + ".data-00000-of-00001", "r+b") as file:
        file.seek(entry.offset + 3)
        file.write(b"\x55")
    with ckpttool.open_checkpoint(prefix) as ckpt:
        with pytest.raises(ChecksumError) as caught:
            ckpt["net/l1/kernel"]
        assert caught.value.key == KERNEL
        assert caught.value.offset == entry.offset
        assert caught.value.path == prefix + ".data-00000-of-00001"
        assert ckpt["net/l1/bias"].shape == (5,)


def test_a_damaged_object_graph_leaves_the_tensors(tmp_path: os.PathLike[str]) -> None:
    prefix = os.path.join(tmp_path, "ckpt-5")
    for path in (".index", ".data-00000-of-00001"):
        shutil.copy(bundle(GUIDE).prefix + path, prefix + path)
    with ckpttool.open_checkpoint(prefix) as ckpt:
        entry = ckpt.bundle.entries["_CHECKPOINTABLE_OBJECT_GRAPH"]
    with open(prefix + ".data-00000-of-00001", "r+b") as file:
        file.seek(entry.offset + entry.size - 1)
        file.write(b"\xff")
    with ckpttool.open_checkpoint(prefix) as ckpt:
        with pytest.raises(CorruptError):
            _ = ckpt.object_graph
        assert ckpt["net/l1/kernel"].shape == (1, 5)
        with pytest.raises(MissingKeyError):
            ckpt["net/nothing"]


def test_folder_state_and_metagraphs() -> None:
    with ckpttool.open_checkpoint(os.path.dirname(bundle(GUIDE).prefix)) as ckpt:
        assert ckpt.prefix == bundle(GUIDE).prefix
        assert ckpt.state is not None
        assert ckpt.state.model_checkpoint_path == "ckpt-5"
        assert ckpt.metagraph is None
    with ckpttool.open_checkpoint(bundle("v2/tf2.21/saver_v2/model.ckpt-3").prefix) as ckpt:
        assert ckpt.metagraph is not None
        assert ckpt.metagraph.tensorflow_version == "2.21.0"
        assert ckpt.style == "name" and ckpt.object_graph is None
    models = [row for row in manifest() if row["format"] == "SavedModel" and row["tensors"]]
    for row in models:
        with ckpttool.open_checkpoint(os.path.join(FIXTURES, row["path"])) as ckpt:
            assert set(ckpt) == set(row["tensors"])
            assert ckpt.metagraphs


@pytest.mark.parametrize("fixture", legacy_fixtures(), ids=lambda fixture: fixture.name)
def test_v1_checkpoints_are_mappings_too(fixture: LegacyFixture) -> None:
    # By the pattern, by what the names begin with, and by any of the files.
    for address in {fixture.address, fixture.prefix, *fixture.paths}:
        with ckpttool.open_checkpoint(address) as ckpt:
            assert (ckpt.generation, ckpt.style, ckpt.prefix) == ("V1", "name", fixture.prefix)
            assert list(ckpt) == sorted(fixture.tensors)
            for key, facts in fixture.tensors.items():
                assert ckpt[key].shape == facts.shape
                assert digest(ckpt[key]) == facts.sha256
                assert ckpt.entries[key].dtype.name == facts.dtype
                assert key in ckpt.kinds
                assert ckpt.object_path(key) is None
            assert ckpt.object_graph is None
            with pytest.raises(UnsupportedError, match="V1"):
                _ = ckpt.bundle


def test_what_lies_beside_v1_files() -> None:
    fixture = legacy_fixture("v1/tf1.15/partitioned_sharded/model.ckpt-7")
    with ckpttool.open_checkpoint(os.path.dirname(fixture.prefix)) as ckpt:
        assert ckpt.prefix == fixture.prefix
        assert ckpt.state is not None and ckpt.location.address == "state"
        assert ckpt.metagraph is not None
        assert ckpt.metagraph.tensorflow_version == "1.15.5"
    saver = legacy_fixture("v1/tf1.15/saver/model.ckpt-3")
    with ckpttool.open_checkpoint(saver.prefix) as ckpt:
        assert {"slot", "weight", "optimizer"} <= set(ckpt.kinds.values())
        with pytest.raises(MissingKeyError, match="nearest: ") as caught:
            ckpt[next(iter(ckpt)) + "x"]
        assert "missing" not in caught.value.message


def test_one_of_several_v1_files(tmp_path: os.PathLike[str]) -> None:
    fixture = legacy_fixture("v1/tf1.15/partitioned_sharded/model.ckpt-7")
    shutil.copy(fixture.paths[0], tmp_path)
    alone = os.path.join(tmp_path, os.path.basename(fixture.paths[0]))
    with ckpttool.open_checkpoint(alone) as ckpt:
        assert ckpt.prefix == os.path.join(tmp_path, "model.ckpt-7")
        assert "a" in ckpt and "b" not in ckpt
        with pytest.raises(MissingKeyError, match=r"in what is missing: .*00001-of-00002"):
            ckpt["b"]


def test_arrays_outlive_the_checkpoint_and_are_the_callers_own() -> None:
    with ckpttool.open_checkpoint(bundle(GUIDE).prefix) as ckpt:
        kernel = ckpt["net/l1/kernel"]
        again = ckpt["net/l1/kernel"]
    kernel += 1
    assert not np.array_equal(kernel, again)
    with ckpttool.open_checkpoint(bundle(GUIDE).prefix) as ckpt:
        assert np.array_equal(ckpt["net/l1/kernel"], again)


def test_the_object_graph_shares_the_keys_of_the_index() -> None:
    with ckpttool.open_checkpoint(bundle(GUIDE).prefix) as ckpt:
        held = {key: key for key in ckpt.entries}
        graph = ckpt.object_graph
        assert graph is not None
        named = [key for key in graph.columns.keys if key in held]
        assert named and all(held[key] is key for key in named)
