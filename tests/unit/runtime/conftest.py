"""The wire between the routers of these tests, and routers that a thread serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.runtime_wire import Wire
from tests.support.served_router import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with closing(Node(tmp_path / "r4.sock")) as made:
        yield made


@pytest.fixture
def private_node(tmp_path: Path) -> Iterator[Node]:
    with closing(Node(tmp_path / "r4.sock", privacy="bloom")) as made:
        yield made


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Node]:
    with closing(Node(tmp_path / "r4.sock", "attention")) as made:
        yield made


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    try:
        made.up()
        yield made
    finally:
        made.down()
