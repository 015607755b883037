"""What is done while things go wrong: every way in which this program writes a checkpoint.

Each operation has a folder of its own:

    src/    the checkpoint that is read
    out/    where the other is written, with files of other people beside it
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from ckpttool.checkpoint.generation import Generation
from ckpttool.checkpoint.kinds.rules import SLOT_KINDS
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.save import save_checkpoint
from ckpttool.surgery.convert import TargetForm, conversion_options, plan_conversion
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.pruning import drop_tensors, select_drops
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import parse_move
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.recoding.spread import Recoding
from ckpttool.tensor.values import Array
from tests.legacy import handmade as v1
from tests.legacy.handmade import legacy_fixture
from tests.support.answers import Answer, value_bytes
from tests.support.faults import Call, Fault, System
from tests.support.fixtures import FIXTURES, bundle
from tests.support.handmade import Bundle

OBJECTS = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"
SHARDS = "v2/tf2.21/max_shard_size_300/ckpt-1"
NAMES = "v2/tf2.21/saver_v2/model.ckpt-3"
SLICES = "v2/tf2.21/partitioned_sharded/model"
SAVED_MODEL = "saved_model/tf2.21/module/model"
SESSION_BUNDLE = "session_bundle/tf1.4/sharded_v2/export/00000123"
LEGACY = "v1/tf2.21/sharded/model.ckpt-7"
LEGACY_SINGLE = "v1/tf2.21/single/model.ckpt-7"
CONVERT = "convert-legacy"
LARGE = "large"
OTHERS = {
    "notes.txt": b"mine",
    "q-10.index": b"of somebody else",
    "q.data": b"no shard",
    ".hidden.ckpt": b"",
}
STATE = b"""model_checkpoint_path: "other-3"
all_model_checkpoint_paths: "/data/run/other-2"
all_model_checkpoint_paths: "other-3"
all_model_checkpoint_timestamps: 1700000000.25
all_model_checkpoint_timestamps: 1700000001.5
last_preserved_timestamp: 1690000000.0
"""
_TENSORS: dict[str, Array] = {
    "bias": np.arange(5, dtype=np.float64),
    "kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "words": np.array([b"a", b"", b"longer"], object),
}


@dataclass(frozen=True)
class Operation:
    """A way to write a checkpoint.

    Attributes:
        name: for people.
        source: a fixture; `LARGE` for one of some MiB that is made.
        words: of the command, without source and destination; none to save arrays.
        destination: prefix relative to the folder of the operation; None for in place.
        options: as the words say.
        old: whether a checkpoint is at the destination already.
        clones: whether the file system can clone.
        links: whether it can link.
        shards: for saving, how many.
        linked: which files of the source are links, by how their names go on after the prefix.
        store: the folder of the files that they lead to.
    """

    name: str
    source: str = OBJECTS
    words: tuple[str, ...] = ("rename", "net=model")
    destination: str | None = "out/q"
    options: WriteOptions = field(default_factory=WriteOptions)
    old: bool = False
    clones: bool = False
    links: bool = True
    shards: int = 2
    linked: tuple[str, ...] = ()
    store: str = "store"

    @property
    def generation(self) -> Generation:
        """The format that is written."""
        if self.options.generation is not None:
            return self.options.generation
        return "V1" if self.source.startswith("v1/") and self.words[:1] != (CONVERT,) else "V2"

    def source_prefix(self, root: str) -> str:
        """Return the prefix that is read."""
        return os.path.join(root, "src", os.path.basename(self.source))

    def target_prefix(self, root: str) -> str:
        """Return the prefix that is written."""
        if self.destination is None:
            return self.source_prefix(root)
        return os.path.join(root, self.destination)

    def present(self, root: str) -> bool:
        """Tell whether a reader finds anything at the destination."""
        prefix = self.target_prefix(root)
        if self.generation == "V2":
            return os.path.exists(prefix + ".index")
        return os.path.exists(prefix) or any(map(v1.readable, v1.sets(prefix)))

    def build(self, root: str) -> None:
        """Make the folder of the operation, which must not be there."""
        os.makedirs(os.path.join(root, "src"))
        os.makedirs(os.path.join(root, "out"))
        self._build_source(root)
        for name, data in OTHERS.items():
            _write(os.path.join(root, "out", name), data)
        if self.options.update_state:
            folder = os.path.dirname(self.target_prefix(root))
            if os.path.isdir(folder):
                _write(os.path.join(folder, "checkpoint"), STATE)
        if self.old and self.generation == "V1":
            for number, key in enumerate((b"old", b"older")):
                data = v1.table(
                    v1.description(v1.described(key, v1.U8, [2])),
                    v1.record(key, [(0, -1)], v1.varints(7, [number, 9])),
                )
                _write(f"{self.target_prefix(root)}-{number:05d}-of-00002", data)
        elif self.old:
            old = Bundle().add(b"old", 1, [2], b"OLDBYTES").add(b"older", 3, [1], b"DATA")
            old.write(self.target_prefix(root))
            if self.words:
                _write(self.target_prefix(root) + ".meta", b"old graph")

    def system(
        self,
        root: str,
        *,
        before: Callable[[Call], Fault | None] | None = None,
        after: Callable[[Call], None] | None = None,
    ) -> System:
        """Return the file system that the operation is for."""
        return System(root, before=before, after=after, clones=self.clones, links=self.links)

    def _build_source(self, root: str) -> None:
        prefix = self.source_prefix(root)
        if self.source == LARGE:
            _large().write(prefix)
            return
        if self.source in (SAVED_MODEL, SESSION_BUNDLE):
            shutil.copytree(os.path.join(FIXTURES, self.source), prefix)
            return
        legacy = self.source.startswith("v1/")
        given = legacy_fixture(self.source).prefix if legacy else bundle(self.source).prefix
        folder, name = os.path.split(given)
        # Whoever saves a checkpoint writes its index last.
        for each in sorted(os.listdir(folder)):
            if each.startswith(name + ".") or (legacy and each.startswith(name)):
                path = prefix + each[len(name) :]
                if each[len(name) :].startswith(self.linked or "/"):
                    self._make_link(root, path)
                shutil.copyfile(os.path.join(folder, each), path)  # through the link

    def _make_link(self, root: str, path: str) -> None:
        """Make a link to a file of the store that is to come."""
        store = os.path.join(root, self.store)
        os.makedirs(store, exist_ok=True)
        digest = hashlib.sha256(os.path.basename(path).encode()).hexdigest()
        os.symlink(os.path.relpath(os.path.join(store, digest), os.path.dirname(path)), path)

    @contextmanager
    def prepared(self, root: str) -> Iterator[Callable[[bool], None]]:
        """Read what is to be written; the function that is yielded writes it.

        Its argument is whether to do so with force.
        """
        if self.words == ():
            prefix = self.target_prefix(root)

            def save(force: bool) -> None:
                force = force or self.options.force
                save_checkpoint(prefix, _TENSORS, num_shards=self.shards, force=force)

            yield save
            return
        with Checkpoint(locate(self.source_prefix(root))) as ckpt:
            plan = self._plan(ckpt)
            if self.words[0] == CONVERT:
                ckpt.reader.read(plan.tensors[0].source_key)  # its file stays open from now on

            def write(force: bool) -> None:
                if self.destination is None:
                    prepare(plan, None, self.options).write()
                    return
                options = replace(self.options, force=True) if force else self.options
                if self.words[0] == CONVERT:
                    to: TargetForm = "v1" if self.generation == "V1" else "v2"
                    options = conversion_options(plan, to, Recoding(), options)
                prepare(plan, self.target_prefix(root), options).write()

            yield write

    def run(self, root: str, *, force: bool = False) -> None:
        """Read, and write."""
        with self.prepared(root) as write:
            write(force)

    def command(self, root: str, *, force: bool = False) -> list[str]:
        """Return the words of the command line."""
        options = self.options
        words = [self.words[0], self.source_prefix(root), *self.words[1:]]
        words += ["--in-place"] if self.destination is None else ["-o", self.target_prefix(root)]
        if options.data != "auto":
            words += ["--data", options.data]
        words += ["--compact"] if options.compact else []
        words += ["--follow-links"] if options.follow_links else []
        words += ["--force"] if force or options.force else []
        words += ["--update-state"] if options.update_state else []
        words += ["--meta", options.meta] if options.meta != "auto" else []
        words += ["--to", options.generation.lower()] if options.generation is not None else []
        return words

    def _plan(self, ckpt: Checkpoint) -> Plan:
        plan = Plan.of(ckpt)
        kind, *rest = self.words
        if kind == CONVERT:
            return plan_conversion(ckpt, "v2")
        if kind == "rename":
            return rename(plan, [parse_move(word) for word in rest])
        return drop_tensors(plan, select_drops(plan, drop_kinds=SLOT_KINDS))

    def expected(self, root: str) -> dict[str, Answer]:
        """Return what must be in the checkpoint that is written; the source is as it was built."""
        if self.words == ():
            return {
                key: Answer(
                    "string" if value.dtype == object else value.dtype.name,
                    value.shape,
                    value_bytes(value),
                )
                for key, value in _TENSORS.items()
            }
        with Checkpoint(locate(self.source_prefix(root))) as ckpt:
            plan = self._plan(ckpt)
            answers = {
                key: Answer(entry.dtype.name, entry.shape, value_bytes(ckpt.reader.read(key)))
                for key, entry in ckpt.entries.items()
            }
            out = {tensor.key: answers[tensor.source_key] for tensor in plan.tensors}
            if plan.graph is not None:
                graph = plan.graph.to_bytes()
                stored = len(graph).to_bytes(8, "little") + graph
                out["_CHECKPOINTABLE_OBJECT_GRAPH"] = Answer("string", (), stored)
        return out

    def __str__(self) -> str:
        return self.name


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


_LARGE: list[Bundle] = []


def _large() -> Bundle:
    """Return a name-based checkpoint of 2.5 MiB whose tensors take several pieces to copy."""
    if not _LARGE:
        import crc32c

        made = Bundle()
        for at, size in enumerate((1 << 20, 40, (3 << 19) + 8)):
            data = bytes(range(256)) * (size // 256) + bytes(size % 256)
            crc = crc32c.crc32c(data)
            masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
            made.add(b"scope/part_%d" % at, 1, [size // 4], data, crc=masked)
        _LARGE.append(made)
    return _LARGE[0]


NEW = [
    Operation("new checkpoint"),
    Operation("new checkpoint, four shards", source=SHARDS, words=("rename", "cube=box")),
    Operation("links only", options=WriteOptions("hardlink")),
    Operation("clones", options=WriteOptions("reflink"), clones=True),
    Operation("copy", source=SHARDS, words=("rename", "cube=box"), options=WriteOptions("copy")),
    Operation(
        "large copy", source=LARGE, words=("rename", "scope=s"), options=WriteOptions("copy")
    ),
    Operation(
        "slices",
        source=SLICES,
        words=("rename", "w=kernel", "a=alpha"),
        options=WriteOptions("copy"),
    ),
    Operation("compact", words=("prune", "--slots"), options=WriteOptions(compact=True)),
    Operation("new folder", words=("prune", "--slots"), destination="out/made/q"),
    Operation("state file", options=WriteOptions(update_state=True)),
    Operation(
        "graph file",
        source=NAMES,
        words=("rename", "dense=layer"),
        options=WriteOptions(meta="copy"),
    ),
    Operation("no links", links=False),
    Operation("linked shards", options=WriteOptions(follow_links=True), linked=(".data-",)),
    Operation("all linked", linked=(".",)),
    Operation("all linked, copy", linked=(".",), options=WriteOptions("copy")),
    Operation("linked index", words=("prune", "--slots"), linked=(".index",), store="src"),
    Operation(
        "linked index, followed",
        words=("prune", "--slots"),
        options=WriteOptions(follow_links=True),
        linked=(".index",),
    ),
    Operation("from a SavedModel", source=SAVED_MODEL, words=("rename", "w=kernel")),
    Operation(
        "from an export",
        source=SESSION_BUNDLE,
        words=("rename", "w=kernel"),
        options=WriteOptions("copy", meta="drop"),
    ),
    Operation("arrays", words=(), destination="out/made/q"),
    Operation(
        "from V1",
        source=LEGACY,
        words=(CONVERT,),
        destination="out/made/q",
        options=WriteOptions(meta="drop"),
    ),
    Operation(
        "to V1",
        source=NAMES,
        words=(CONVERT,),
        destination="out/made/q",
        options=WriteOptions(meta="copy", generation="V1"),
    ),
    Operation(
        "V1 in several files",
        source=LEGACY,
        words=("rename", "a=alpha"),
        destination="out/made/q",
        options=WriteOptions(meta="drop"),
    ),
]
REPLACING = [
    Operation("over another", options=WriteOptions(force=True), old=True),
    Operation(
        "over another, compact",
        words=("prune", "--slots"),
        options=WriteOptions("copy", compact=True, force=True, update_state=True),
        old=True,
    ),
    Operation("over another, no links", options=WriteOptions(force=True), old=True, links=False),
    Operation(
        "arrays over another", words=(), options=WriteOptions(force=True), old=True, shards=1
    ),
    Operation(
        "V1 over another",
        source=LEGACY,
        words=("rename", "a=alpha"),
        options=WriteOptions(meta="drop", force=True),
        old=True,
    ),
]
IN_PLACE = [
    Operation("in place", destination=None),
    Operation(
        "in place, four shards", source=SHARDS, words=("rename", "cube=box"), destination=None
    ),
    Operation(
        "in place, index only", source=NAMES, words=("rename", "dense=layer"), destination=None
    ),
    Operation(
        "in place, compact",
        words=("prune", "--slots"),
        destination=None,
        options=WriteOptions(compact=True, update_state=True),
    ),
    Operation("in place, clones", destination=None, clones=True),
    Operation("in place, no links", destination=None, links=False),
    Operation("in place, linked shards", destination=None, linked=(".data-",)),
    Operation("in place, all linked", destination=None, linked=(".",)),
    Operation("in place, linked index", destination=None, linked=(".index",)),
    Operation(
        "in place, linked index beside it",
        source=SHARDS,
        words=("rename", "cube=box"),
        destination=None,
        linked=(".index",),
        store="src",
    ),
    Operation(
        "in place, linked index only changed",
        source=NAMES,
        words=("rename", "dense=layer"),
        destination=None,
        linked=(".",),
    ),
    Operation(
        "in place, linked index, compact",
        words=("prune", "--slots"),
        destination=None,
        options=WriteOptions(compact=True, update_state=True),
        linked=(".",),
    ),
    Operation(
        "in place, linked V1",
        source=LEGACY_SINGLE,
        words=("rename", "a=alpha"),
        destination=None,
        options=WriteOptions(meta="drop"),
        linked=("",),
    ),
    Operation(
        "in place, V1",
        source=LEGACY_SINGLE,
        words=("rename", "a=alpha"),
        destination=None,
        options=WriteOptions(meta="drop"),
    ),
]
OPERATIONS = [*NEW, *REPLACING, *IN_PLACE]
