"""Expecting errors of ckpttool."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TypeVar

import pytest

from ckpttool.errors import CkptError

_E = TypeVar("_E", bound=CkptError)


@contextlib.contextmanager
def refused(error_class: type[_E], pattern: str) -> Iterator[pytest.ExceptionInfo[_E]]:
    """Expect an error whose message, without its place, matches a pattern.

    `pytest.raises` would look at the path as well, and a temporary path has the test's name in it.
    """
    with pytest.raises(error_class) as caught:
        yield caught
    assert re.search(pattern, caught.value.message), caught.value.message
