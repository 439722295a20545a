"""Settings for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How fast a test is depends on what else the machine does: no test fails for being slow.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The whole suite tries the same cases each time, so that it says something of the change that it is run
# for; new cases are looked for by `pytest` itself and by `./run.sh bench adversary`.
settings.register_profile("repeatable", settings.get_profile("default"), derandomize=True)
settings.load_profile("default")

_UNIT = Path(__file__).parent / "unit"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves all but the unit tests out of the coverage: tracing costs random cases a third of their time."""
    for item in items:
        if not item.path.is_relative_to(_UNIT):
            item.add_marker(pytest.mark.no_cover)
