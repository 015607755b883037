"""TensorFlow itself, imported once; without it these tests are skipped."""

from __future__ import annotations

import importlib.util
import os
import warnings
from typing import Any

import pytest


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
