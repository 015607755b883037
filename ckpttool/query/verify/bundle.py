"""Verifying one V2 checkpoint, from its index to the last byte of its data shards."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ckpttool.bundle.naming import index_path
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.query.source import Source, TensorNames
from ckpttool.query.verify.checksums import judge, mixed_saves
from ckpttool.query.verify.data import read_shards
from ckpttool.query.verify.extents import ShardLayout, place_tensors
from ckpttool.query.verify.findings import UNSETTLED, Diagnosis, Finding, finding
from ckpttool.query.verify.index import IndexSurvey, survey_index
from ckpttool.query.verify.names import FolderNames
from ckpttool.storage.source import Identity, RandomAccessFile, identity_of
from ckpttool.storage.work import Progress


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """The result of verifying a checkpoint.

    Attributes:
        source: the checkpoint; None if its index is unreadable.
        tensors: how many it has, as far as known.
        bytes_read: bytes of tensors whose checksums were computed.
        findings: in the order of the files.
        looked_at: the identities of its files before.
        diagnosis: what happened to it, if the findings tell.
        comparable: whether its format has checksums.
    """

    source: Source | None
    tensors: int
    bytes_read: int
    findings: tuple[Finding, ...]
    looked_at: Mapping[str, Identity | None]
    diagnosis: Diagnosis | None = None
    comparable: bool = True


def verify_bundle(
    prefix: str,
    *,
    typed: str,
    names: FolderNames,
    fast: bool = False,
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> CheckpointResult:
    """Verify a bundle.

    Args:
        prefix: path of the bundle without `.index`.
        typed: its address.
        names: the names in its folder.
        fast: do not open the data shards.
        jobs: how many threads may read; by default the number of processors.
        on_progress: called now and then with the bytes read and their total.

    Raises:
        FileAccessError: the index cannot be read.
        UnsupportedError: the index is too large.
    """
    path = index_path(prefix)
    before = {path: identity_now(path)}
    counts = {count for _, _, count in names.shards(os.path.basename(prefix))}
    with RandomAccessFile(path) as file:
        survey = survey_index(file, counts)
        index_bytes = file.size
    layout = place_tensors(prefix, survey, names)
    before |= {shard.path: identity_now(shard.path) for shard in layout.shards}
    findings = [*survey.findings, *layout.findings]
    findings += links_outside(list(before))
    done = 0
    if not fast and survey.header is not None:
        big_endian = survey.header.big_endian
        done = read_shards(layout.shards, big_endian=big_endian, jobs=jobs, on_progress=on_progress)
        findings += _judge(prefix, layout, names)
        if GRAPH_KEY in survey.tensors:
            # Only an object-based checkpoint needs what reads object graphs.
            from ckpttool.query.verify.objects import check_graph

            findings += check_graph(survey, layout.shards, big_endian=big_endian)
    changed = changed_files(before)
    if changed:
        findings = [finding("changed-while-reading", changed_message(changed[0]), changed[0])]
    elif findings and _is_being_written(prefix, survey):
        message = "the index is not complete, and a save is under way or was given up"
        findings = [finding("being-written", message, path)]
    diagnosis = None
    if findings and findings[0].code not in UNSETTLED:
        # Most checkpoints are sound, and need nothing of this.
        from ckpttool.query.verify.diagnosis import diagnose_bundle

        diagnosis = diagnose_bundle(prefix, survey, layout, findings, counts)
    return CheckpointResult(
        _source(prefix, typed, survey, layout, index_bytes, _names(prefix, survey, findings)),
        len(survey.tensors),
        done,
        tuple(findings),
        before,
        diagnosis,
    )


def _judge(prefix: str, layout: ShardLayout, names: FolderNames) -> list[Finding]:
    findings: list[Finding] = []
    short = {each.path for each in layout.findings if each.code == "shard-short"}
    for shard in layout.shards:
        findings += judge(shard)
        mixed = mixed_saves(prefix, shard, names) if shard.path not in short else None
        if mixed is not None:
            from ckpttool.query.verify.diagnosis import converted

            if converted(shard) is None:
                findings.append(mixed)
    return findings


def _names(prefix: str, survey: IndexSurvey, findings: list[Finding]) -> TensorNames:
    """Return the names of tensors, as far as findings need and the object graph has them."""
    if GRAPH_KEY not in survey.tensors or not any(each.key for each in findings):
        return TensorNames()
    try:
        with Checkpoint(locate(prefix)) as ckpt:
            return TensorNames(ckpt).settled()
    except CkptError:
        return TensorNames()


def _source(
    prefix: str,
    typed: str,
    survey: IndexSurvey,
    layout: ShardLayout,
    index_bytes: int,
    names: TensorNames,
) -> Source | None:
    header = survey.header
    if header is None:
        return None
    return Source(
        path=typed,
        prefix=prefix,
        generation="V2",
        style="object" if GRAPH_KEY in survey.tensors else "name",
        shards=header.num_shards,
        byte_order="big" if header.big_endian else "little",
        index_bytes=index_bytes,
        data_bytes=sum(shard.size for shard in layout.shards),
        missing_shards=tuple(layout.missing),
        names=names,
    )


def identity_now(path: str) -> Identity | None:
    """Return the identity of a file; None if it is gone."""
    try:
        return identity_of(os.stat(path))
    except OSError:
        return None


def changed_files(looked_at: Mapping[str, Identity | None]) -> list[str]:
    """Return the files that changed since."""
    return [path for path, identity in looked_at.items() if identity != identity_now(path)]


def changed_message(path: str) -> str:
    """Return the message for a changed file."""
    if identity_now(path) is None:
        return "the file was removed while the checkpoint was read"
    return "the file changed while the checkpoint was read; try again"


def links_outside(paths: Iterable[str]) -> list[Finding]:
    """Return findings for files that are links to another folder."""
    found = []
    for path in paths:
        if not os.path.islink(path):
            continue
        target = os.path.realpath(path)
        if os.path.dirname(target) != os.path.realpath(os.path.dirname(path) or os.curdir):
            message = f"the file is a link that leads out of its folder, to '{target}'"
            found.append(finding("link-outside", message, path))
    return found


def _is_being_written(prefix: str, survey: IndexSurvey) -> bool:
    """Tell whether TensorFlow is just writing an unreadable index.

    It writes the index last and in place, beside a folder with the coming shards.
    """
    if survey.tensors or survey.complete:
        return False
    with suppress(OSError):
        return stat.S_ISDIR(os.stat(f"{prefix}_temp").st_mode)
    return False
