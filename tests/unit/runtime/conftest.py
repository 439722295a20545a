"""The wire between the routers of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.runtime_wire import Wire


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    try:
        made.up()
        yield made
    finally:
        made.down()
