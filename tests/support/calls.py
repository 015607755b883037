"""A record of the file system calls that are made, any of which may be made to fail."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest


class Calls:
    """The file system calls of a commit, in order; one of them may be made to fail."""

    NAMES = ("open", "write", "fsync", "close", "link", "rename", "unlink")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[tuple[str, str]] = []
        self.fail: Callable[[str, str, int], OSError | None] = lambda name, path, count: None
        self._paths: dict[int, str] = {}
        for name in self.NAMES:
            monkeypatch.setattr(os, name, self._wrap(name, getattr(os, name)))

    def _wrap(self, name: str, true: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **more: object) -> object:
            first = arguments[0]
            path = self._paths.get(first, "?") if isinstance(first, int) else str(first)
            self.log.append((name, os.path.basename(path)))
            count = sum(1 for seen, _ in self.log if seen == name)
            error = self.fail(name, path, count)
            if error is not None:
                if name == "close":
                    true(*arguments, **more)
                raise error
            result = true(*arguments, **more)
            if name == "open" and isinstance(result, int):
                self._paths[result] = path
            return result

        return call

    def of(self, *names: str) -> list[tuple[str, str]]:
        return [(name, path) for name, path in self.log if name in names]
