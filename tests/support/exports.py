"""SessionBundle exports: those among the fixtures, and changed copies of them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ckpttool import open_checkpoint, pb
from ckpttool.errors import CkptError
from ckpttool.pb.convert import parse
from ckpttool.surgery.session_bundle.saved_model import prepare_export
from tests.support.fixtures import FIXTURES, manifest, read_bytes
from tests.support.refusals import refused

# One with a checkpoint of format V2, and named signatures besides the default one.
SAMPLE = "session_bundle/tf1.4/classification/export/00000123"
ASSETS = "session_bundle/tf1.4/assets/export/00000123"


def exports() -> tuple[dict[str, Any], ...]:
    """Return what MANIFEST.json says of every export of the model y = x w + b."""
    return tuple(row for row in _bundles() if "examples" not in row)


def exports_of_examples() -> tuple[str, ...]:
    """Return the exports of y = a x + b of serialized examples, by builds from source."""
    return tuple(row["name"] for row in _bundles() if "examples" in row)


def _bundles() -> tuple[dict[str, Any], ...]:
    return tuple(row for row in manifest() if row["format"] == "SessionBundle")


def expected(row: dict[str, Any]) -> dict[str, Any]:
    """Return what the converter of TensorFlow 1.4 makes of an export."""
    path = os.path.join(FIXTURES, row["expected_signatures"])
    found: dict[str, Any] = json.loads(read_bytes(path))
    return found


def export_path(name: str) -> str:
    """Return the folder of an export among the fixtures."""
    return os.path.join(FIXTURES, name)


def copied(name: str, folder: Path) -> Path:
    """Copy an export; return the new folder."""
    shutil.copytree(export_path(name), folder)
    return folder


def edit(folder: Path, change: Callable[[pb.MetaGraphDef], object]) -> Path:
    """Change the MetaGraph of an export; return its path."""
    path = folder / "export.meta"
    message = parse(pb.MetaGraphDef, path.read_bytes(), path=str(path))
    change(message)
    path.write_bytes(message.SerializeToString())
    return path


def pack(message: pb.MetaGraphDef, key: str, *items: Any) -> None:
    """Make a collection one of these messages, each in an Any."""
    message.collection_def.pop(key, None)
    for item in items:
        message.collection_def[key].any_list.value.add(
            type_url=f"type.googleapis.com/{item.DESCRIPTOR.full_name}",
            value=item.SerializeToString(),
        )


def with_signatures(**named: dict[str, Any]) -> Callable[[pb.MetaGraphDef], None]:
    """Return a change that gives an export these signatures.

    Args:
        named: each as its kind and, for every tensor, its name in the graph; `default` is for the
            default one.
    """

    def change(message: pb.MetaGraphDef) -> None:

        manifest = pb.Signatures()
        for name, tensors in named.items():
            if name == "default":
                fill(manifest.default_signature, tensors)
            else:
                fill(manifest.named_signatures[name], tensors)
        pack(message, "serving_signatures", manifest)

    return change


def fill(signature: pb.Signature, tensors: dict[str, Any]) -> None:
    """Fill a signature, `{"kind": "generic", "x": "x:0"}` and so on."""
    tensors = dict(tensors)
    kind = tensors.pop("kind")
    if kind == "unknown":
        signature.MergeFromString(b"\x4a\x00")  # a field that no release has
        return
    part = getattr(signature, f"{kind}_signature")
    part.SetInParent()
    for role, name in tensors.items():
        binding = part.map[role] if kind == "generic" else getattr(part, role)
        binding.tensor_name = name


def with_old_saver(message: pb.MetaGraphDef) -> None:
    """Have a graph restore as the graphs of TensorFlow 0.11 and before: by RestoreSlice."""
    nodes = {node.name: node for node in message.graph_def.node}
    for node in message.graph_def.node:
        if node.op != "RestoreV2":
            continue
        for at in (1, 2):
            nodes[node.input[at]].attr["value"].tensor.tensor_shape.Clear()
            nodes[node.input[at]].attr.pop("_output_shapes", None)
        node.op = "RestoreSlice"
        (dtype,) = node.attr["dtypes"].list.type
        del node.attr["dtypes"]
        node.attr["dt"].type = dtype
        node.attr["preferred_shard"].i = -1
    message.saver_def.version = 1


def with_old_save(message: pb.MetaGraphDef) -> None:
    """Have a graph save in one file of format V1, by SaveSlices."""
    for node in message.graph_def.node:
        if node.op == "SaveV2":
            node.op = "SaveSlices"
            node.attr["T"].CopyFrom(node.attr["dtypes"])
            del node.attr["dtypes"]
    message.saver_def.version = 1


def sample_export(folder: Path) -> Path:
    """Make an export with a checkpoint of format V2, an asset and an init op; return it."""
    copied(SAMPLE, folder)
    (folder / "assets").mkdir()
    (folder / "assets" / "words.txt").write_bytes(b"one\ntwo\n")
    edit(folder, with_assets("words.txt"))
    return folder


def with_assets(*names: str) -> Callable[[pb.MetaGraphDef], None]:
    """Return a change that has the graph read assets of these names, and gives it an init op."""

    def change(message: pb.MetaGraphDef) -> None:
        found = [pb.AssetFile(filename=name) for name in names]
        for number, asset in enumerate(found):
            asset.tensor_binding.tensor_name = f"asset_{number}:0"
            message.graph_def.node.add(name=f"asset_{number}", op="Const")
        pack(message, "serving_assets", *found)
        message.collection_def["serving_init_op"].node_list.value[:] = ["init"]

    return change


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return everything below a folder: bytes of files, None for the rest."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else None
        for path in sorted(folder.rglob("*"))
    }


def values(prefix: str) -> dict[str, Any]:
    """Return all values of a checkpoint by key."""
    with open_checkpoint(prefix) as ckpt:
        return {key: ckpt[key] for key in ckpt}


def is_whole(folder: Path, source: Path, assets: tuple[str, ...] = ("words.txt",)) -> bool:
    """Tell whether a folder is the SavedModel that `sample_export` becomes.

    Args:
        folder: the one that was written.
        source: the export.
        assets: what the MetaGraph says that it reads; the first is there.
    """
    found = tree(folder)
    with open_checkpoint(str(folder)) as ckpt:
        metagraph = ckpt.metagraph
    assert metagraph is not None
    assert metagraph.tags == ("serve",)
    assert tuple(asset.filename for asset in metagraph.assets) == assets
    same = values(str(folder)), values(f"{source}{os.sep}")
    assert same[0].keys() == same[1].keys()
    assert all(np.array_equal(same[0][key], same[1][key]) for key in same[0])
    return found.keys() == {
        "assets",
        "assets/words.txt",
        "saved_model.pb",
        "variables",
        "variables/variables.data-00000-of-00001",
        "variables/variables.index",
    }


def refused_with_nothing_written(
    error: type[CkptError], reason: str, source: Path, tmp_path: Path
) -> CkptError:
    """Expect an error of converting, and that the folder stays as it is; return the error."""
    before = sorted(os.listdir(tmp_path))
    with refused(error, reason) as caught:
        prepare_export(str(source), str(tmp_path / "made" / "model"))
    assert sorted(os.listdir(tmp_path)) == before
    return caught.value
