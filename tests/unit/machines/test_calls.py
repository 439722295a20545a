"""Calls of methods in another process."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from testbed.emulation.machines import calls
from testbed.emulation.machines.calls import Remote, serve
from testbed.support.errors import RunError


class _Site:
    def __init__(self) -> None:
        self.asked, self.thawed = Event(), Event()

    def stop(self) -> None:
        self.asked.set()
        self.thawed.wait()

    check = stop

    def write(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_frozen_machine_is_lost_for_all_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_QUESTION_S", 0.2)
    monkeypatch.setattr(calls, "_LOST_S", 0.05)
    (tmp_path / "m").symlink_to(tmp_path / "site")  # as a relay, it knows nothing of a frozen site
    site, remote = _Site(), Remote(tmp_path / "m")
    with serve(tmp_path / "site", site), ThreadPoolExecutor(1) as idle, ThreadPoolExecutor(1) as busy:
        # As an OSError it would be that of the driver's disk, and end the run without its evidence.
        with pytest.raises(RunError, match=r"^m: \[Errno 28\] No space left"):
            idle.submit(remote.write).result()
        step = busy.submit(remote.stop)
        assert site.asked.wait(60)
        with pytest.raises(RunError, match=r"^m does not answer$"):
            remote.check()
        for late in (step, idle.submit(remote.write)):
            with pytest.raises(RunError, match=r"^m does not answer$"):
                late.result()
        site.thawed.set()
