"""Settings for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How fast a test is depends on what else the machine does: no test fails for being slow.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")
