"""TensorFlow itself, imported once; without it these tests are skipped."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.process import OLDER, Saver, Values, asking


@pytest.fixture(scope="session")
def tf() -> Any:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed for this interpreter")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow
    return tensorflow


@pytest.fixture(scope="module", params=["2.21", "1.15"])
def saver(request: pytest.FixtureRequest, tf: Any) -> Iterator[Saver]:
    """The TensorFlow of this process, and 1.15 behind a pipe.

    What they do is in the module that the tests name as `ACTIONS_OF_SAVER`.
    """
    script: Any = request.module.ACTIONS_OF_SAVER
    if request.param == "1.15":
        python = os.environ.get(OLDER)
        if not python:
            pytest.skip(f"{OLDER} names no interpreter that has TensorFlow 1.15")
        with asking(python, script.__file__) as ask:
            yield ask
        return

    def answer(action: str, prefix: str, what: Values) -> Values:
        values: Values = script.ACTIONS[action](tf, prefix, what)
        return values

    yield answer
