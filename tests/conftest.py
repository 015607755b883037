"""Settings for all tests.

Hypothesis draws the same examples every time; `--hypothesis-profile=fresh` draws others.
`--exhaustive` has every case run where a test otherwise takes some of them.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=_QUIET
)
settings.register_profile(
    "fresh", database=None, deadline=None, max_examples=1000, suppress_health_check=_QUIET
)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of these tests."""
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="run every case, also where that takes many minutes",
    )


@pytest.fixture
def exhaustive(request: pytest.FixtureRequest) -> bool:
    """Tell whether every case is to be run."""
    return bool(request.config.getoption("--exhaustive"))
