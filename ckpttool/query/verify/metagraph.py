"""Verifying the graph of a checkpoint, or of a SavedModel without one.

Checked are: can it be read, can a loader use it, do the files that it reads exist, are its
variables the tensors of the checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ckpttool.checkpoint.folder import is_regular
from ckpttool.checkpoint.locate import (
    EXPORT_META,
    SAVED_MODEL_NAMES,
    Location,
)
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError, CorruptError
from ckpttool.metagraph.facts import metagraph_of
from ckpttool.metagraph.file import read_graph_file
from ckpttool.metagraph.report import facts_of
from ckpttool.metagraph.soundness import assets_read, graph_problems, leads_outside
from ckpttool.query.metagraph.summary import compare_with_checkpoint
from ckpttool.query.metagraph.variables import Disagreement, VariableRow
from ckpttool.query.verify.bundle import links_outside
from ckpttool.query.verify.findings import Finding, finding, finding_of
from ckpttool.query.verify.names import FolderNames

if TYPE_CHECKING:
    from ckpttool import pb

# Reading a graph takes several times as much memory.
_MAX_GRAPH = 512 << 20
_ASSETS = "assets"
_CODES: dict[Disagreement, str] = {
    "missing": "graph-variable-missing",
    "extra": "graph-variable-unclaimed",
    "dtype": "graph-variable-differs",
    "shape": "graph-variable-differs",
}


def check_beside(location: Location, *, sound: bool) -> list[Finding]:
    """Verify the graph of a checkpoint; compare variables only if the checkpoint is sound."""
    path = location.meta_path
    if path is None:
        return []
    found, messages = _check_file(path)
    if messages and sound:
        try:
            with Checkpoint(location) as ckpt:
                found += _compare(ckpt, path, messages)
        except CkptError as error:
            if error.path == path:
                found.append(finding_of(error, "metagraph-unreadable", path))
    return found


def check_alone(path: str) -> list[Finding]:
    """Verify the graph of a SavedModel without a checkpoint."""
    found, _ = _check_file(path)
    prefix = os.path.join(os.path.dirname(path), "variables", "variables")
    shards = FolderNames(os.path.dirname(prefix)).shards("variables")
    if shards:
        message = f"the index is missing; there are {len(shards)} data shards that it is for"
        found.append(finding("index-missing", message, f"{prefix}.index"))
    return found


def _check_file(path: str) -> tuple[list[Finding], tuple[pb.MetaGraphDef, ...]]:
    """Return the findings for a graph file, and its MetaGraphs."""
    try:
        size = os.stat(path).st_size
        if size > _MAX_GRAPH:
            message = f"{size} bytes were not looked at; the limit is {_MAX_GRAPH}"
            return [finding("metagraph-not-read", message, path)], ()
        messages = _read(path)
        found = [each for message in messages for each in _check(message, path)]
    except OSError as error:
        return [finding("unreadable", error.strerror or str(error), path)], ()
    except CkptError as error:
        return [finding_of(error, "metagraph-unreadable", path)], ()
    return [*found, *_check_assets(path, messages), *_check_model(path, messages)], messages


def _read(path: str) -> tuple[pb.MetaGraphDef, ...]:
    file = read_graph_file(path)
    is_model = os.path.basename(path) in SAVED_MODEL_NAMES
    if file.kind != ("SavedModel" if is_model else "MetaGraphDef"):
        wanted = "a SavedModel" if is_model else "a MetaGraph"
        raise CorruptError(f"a {file.kind}, not {wanted}", path=path)
    if not is_model:
        return (cast("pb.MetaGraphDef", file.message),)
    found = tuple(cast("pb.SavedModel", file.message).meta_graphs)
    if not found:
        raise CorruptError("a SavedModel without MetaGraphs", path=path)
    return found


def _check(message: pb.MetaGraphDef, path: str) -> Iterator[Finding]:
    for problem in graph_problems(message, path):
        yield finding(f"graph-{problem.code}", problem.message, path, key=problem.node)
    for error in metagraph_of(message, path).problems:
        yield finding_of(error, "metagraph-unreadable", path)


def _check_assets(path: str, messages: tuple[pb.MetaGraphDef, ...]) -> Iterator[Finding]:
    """Check that the files that the graphs read exist."""
    if os.path.basename(path) not in (*SAVED_MODEL_NAMES, EXPORT_META):
        return  # the assets of a .meta file are relative to the importing program
    folder = os.path.join(os.path.dirname(path), _ASSETS)
    names: dict[str, bool] = {}
    for message in messages:
        for name, is_read in assets_read(message, path).items():
            names[name] = names.get(name, False) or is_read
    for name, is_read in names.items():
        asset = os.path.join(folder, name)
        if leads_outside(name):
            text = f"asset '{name}' is not a file in the folder '{_ASSETS}'"
            yield finding("asset-outside", text, path)
        elif not is_regular(asset):
            what = "no regular file" if os.path.lexists(asset) else "missing"
            if is_read:
                yield finding("asset-missing", f"an asset of the graph is {what}", asset)
            else:
                text = f"an asset is {what}, which nothing in the graph reads"
                yield finding("asset-unread", text, asset)
        else:
            yield from links_outside([asset])


def _check_model(path: str, messages: tuple[pb.MetaGraphDef, ...]) -> Iterator[Finding]:
    """Yield findings for ambiguities about which graph is loaded."""
    folder, name = os.path.split(path)
    if name not in SAVED_MODEL_NAMES:
        return
    others = [each for each in SAVED_MODEL_NAMES if is_regular(os.path.join(folder, each))]
    if len(others) > 1:
        message = f"there are {' and '.join(others)}; TensorFlow reads the first"
        yield finding("graph-both-forms", message, path)
    seen: set[frozenset[str]] = set()
    for each in messages:
        tags = frozenset(each.meta_info_def.tags)
        if tags in seen:
            message = f"more than one MetaGraph has the tags {sorted(tags)}"
            yield finding("graph-tags-twice", message, path)
        seen.add(tags)


def _compare(
    ckpt: Checkpoint, path: str, messages: tuple[pb.MetaGraphDef, ...]
) -> Iterator[Finding]:
    """Compare the variables of MetaGraphs with the tensors of a checkpoint."""
    found: dict[tuple[str, str], Finding] = {}
    for comparison in compare_with_checkpoint(ckpt, facts_of(messages, path)):
        for row in comparison.rows:
            for what in row.disagreements:
                code = _CODES[what]
                found.setdefault(
                    (code, row.key), finding(code, _message(row, what), path, key=row.key)
                )
    yield from found.values()


def _message(row: VariableRow, what: Disagreement) -> str:
    if what == "missing":
        return "the MetaGraph has such a variable, the checkpoint has not"
    if what == "extra":
        return "no variable of the MetaGraph is stored under this key"
    sides = (
        f"{dtype} {_shape(shape)}"
        for dtype, shape in ((row.dtype, row.shape), (row.stored_dtype, row.stored_shape))
    )
    return "the MetaGraph has it as {}, the checkpoint as {}".format(*sides)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "of any shape" if shape is None else str(list(shape))
