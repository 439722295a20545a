"""Settings for all tests."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# How fast a test is depends on what else the machine does: no test fails for being slow.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The whole suite tries the same cases each time, so that it says something of the change that it is run
# for; `pytest` itself looks for new cases, and for more with CBCB_FUZZ (tests/support/fuzz.py).
settings.register_profile("repeatable", settings.get_profile("default"), derandomize=True)
settings.load_profile("default")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # The collector would look at all that is imported again and again: it takes half the time, and of the
    # tests with many objects some twentieth.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


#: What takes long begins first, so that no process is left alone with it at the end.
_FIRST = (
    "tests/spark/",
    "tests/unit/figures/",
    "tests/emulation/test_mutations.py",
    "tests/emulation/test_outages.py",
    "tests/emulation/test_parity.py",
    "tests/emulation/test_security.py",
    "tests/emulation/test_stock_kernel.py",
    "tests/emulation/test_sweep.py",
)
#: Modules of emulations that read the same runs (the fixture `emulated`).
_OF_SHARED_RUNS = {f"tests/emulation/test_{name}.py" for name in ("mutations", "parity", "security")}
#: Modules of tests/spark that start sessions of their own; the others share one.
_OF_OWN_SESSIONS = {f"tests/spark/test_{name}.py" for name in ("cluster", "prepared", "sweep")}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(_FIRST))


class _Shared(LoadScopeScheduling):  # type: ignore[misc]
    """Gives tests that share fixtures, of a module and of most of tests/spark, to the same process."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        if module.startswith("tests/spark/") and module not in _OF_OWN_SESSIONS:
            return "tests/spark"
        return "shared runs" if module in _OF_SHARED_RUNS else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return _Shared(config, log)
