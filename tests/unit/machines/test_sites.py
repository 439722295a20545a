"""The driver's side of a network over machines, without a cluster."""

from __future__ import annotations

from socket import socketpair
from typing import Any

import pytest

from testbed.emulation.machines.sites import Sites
from testbed.support.errors import RunError


@pytest.mark.parametrize(
    ("said", "found"),
    [(b'["r3 is left"]\n', "r3 is left"), (b'["r3', "has not ended the run; `cbcb clean"), (b"", "has not")],
)
def test_a_machine_has_ended_when_it_has_said_so_to_the_end(said: bytes, found: str) -> None:
    none: Any = None
    machine: Any = "m (10.99.0.1)"
    sites = Sites(none, {machine: (0,)}, *(none,) * 6)
    sites._reports[machine], other = socketpair()
    other.sendall(said)
    other.close()
    with pytest.raises(RunError, match=rf"^m \(10.99.0.1\): {found}"):
        sites.stop()
