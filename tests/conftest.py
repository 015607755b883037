"""Settings for all tests.

Hypothesis draws the same examples every time; `--hypothesis-profile=fresh` draws others.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=_QUIET
)
settings.register_profile(
    "fresh", database=None, deadline=None, max_examples=1000, suppress_health_check=_QUIET
)
settings.load_profile("fixed")
