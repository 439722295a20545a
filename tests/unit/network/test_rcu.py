"""Shorter grace periods of the kernel while switches end; the switch is a file of the test's own."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from testbed.emulation.network import namespaces as kernel


@pytest.fixture
def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "rcu_expedited"
    path.write_text("0\n")
    monkeypatch.setattr(kernel, "_RCU_EXPEDITED", path)
    monkeypatch.setattr(kernel, "STATE_ROOT", tmp_path / "state")
    return path


def test_grace_periods_are_short_inside_the_block_only(switch: Path) -> None:
    with kernel.expedited_rcu():
        assert switch.read_text() == "1"
    assert switch.read_text() == "0"


def test_the_value_that_a_killed_process_changed_is_restored(switch: Path) -> None:
    lock = switch.parent / "state" / "rcu_expedited.lock"
    lock.parent.mkdir()
    lock.write_text("0")
    switch.write_text("1\n")
    with kernel.expedited_rcu():
        assert switch.read_text() == "1"
    assert (switch.read_text(), lock.read_text()) == ("0", "")


def test_a_removal_goes_on_where_the_lock_file_cannot_be_written(switch: Path) -> None:
    inside = []
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with kernel.expedited_rcu():
            inside.append(switch.read_text())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert inside == ["0\n"]
    assert switch.read_text() == "0\n"


def test_a_removal_goes_on_where_the_switch_cannot_be_written(switch: Path) -> None:
    switch.unlink()
    inside = []
    with kernel.expedited_rcu():
        inside.append(True)
    assert inside == [True]
