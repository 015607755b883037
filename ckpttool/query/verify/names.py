"""The names in a folder, listed once for all its checkpoints."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property

from ckpttool.bundle.naming import INDEX_SUFFIX, split_shard_path
from ckpttool.legacy.naming import shard_stem


class FolderNames:
    """The names in a folder; one that cannot be listed has none."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        try:
            self._names = os.listdir(folder or os.curdir)
        except (OSError, ValueError):
            self._names = []

    def shards(self, base: str) -> Sequence[tuple[str, int, int]]:
        """Return path, number and count of all data shards with the name of a bundle."""
        return self._shards.get(base, ())

    def legacy(self, stem: str) -> Sequence[str]:
        """Return the paths with names of a V1 checkpoint in several files."""
        return self._legacy.get(stem, ())

    @cached_property
    def bundles(self) -> Sequence[str]:
        """The names of the bundles, the highest first."""
        found = [name for name in self._names if name.endswith(INDEX_SUFFIX)]
        return sorted((name[: -len(INDEX_SUFFIX)] for name in found), reverse=True)

    @cached_property
    def _shards(self) -> dict[str, list[tuple[str, int, int]]]:
        found: dict[str, list[tuple[str, int, int]]] = {}
        for name in self._names:
            split = split_shard_path(name)
            if split is not None:
                path = os.path.join(self.folder, name)
                found.setdefault(split[0], []).append((path, split[1], split[2]))
        return found

    @cached_property
    def _legacy(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in sorted(self._names):
            stem = shard_stem(name)
            if stem != name:
                found.setdefault(stem, []).append(os.path.join(self.folder, name))
        return found
