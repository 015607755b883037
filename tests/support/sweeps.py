"""Tests of many cases, of which a normal run takes a part (see `tests/conftest.py`)."""

from __future__ import annotations

import pytest

from tests.support.fixtures import bundles

each_bundle = pytest.mark.parametrize(
    "fixture",
    [pytest.param(one, id=one.name, marks=pytest.mark.sweep(6)) for one in bundles()],
)
