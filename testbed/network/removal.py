"""Removal of the bridges, devices and rules of a run, in few commands."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from testbed.errors import RunError
from testbed.network import switch_daemon
from testbed.network.commands import ip_batch, run, vsctl
from testbed.network.names import Names
from testbed.network.shaping import nft_table
from testbed.network.state import STATE_ROOT
from testbed.steps import Steps

_RCU_EXPEDITED = Path("/sys/kernel/rcu_expedited")


def remove_network(names: Names, bridges: list[str]) -> None:
    """Removes the bridges, the devices, the rules and the controller's socket of a run, as far as they exist.

    Every step runs, whether or not other steps fail.

    Raises:
        RunError: a step failed, or a device or rule is left; the message names both.
    """
    steps = Steps()
    with _expedited_rcu():
        steps.run("bridges", _remove_bridges, bridges)
        steps.run("nftables", run, ["nft", "delete", "table", "netdev", nft_table(names)], check=False)
        steps.run("links", run, ["ip", "link", "delete", "group", str(names.group)], check=False)
        # Without ovs-vswitchd, the devices of the bridges stay.
        steps.run("devices", _remove_devices, names)
        steps.run("controller's socket", names.controller_socket.unlink, missing_ok=True)
    if left := _devices(names):
        steps.failures.append(f"left on the machine: {', '.join(left)}")
    if steps.failures:
        raise RunError("; ".join(steps.failures))


def _remove_bridges(bridges: list[str]) -> None:
    """Deletes bridges; only from the database if ovs-vswitchd does not run."""
    vsctl([["--if-exists", "del-br", bridge] for bridge in bridges], wait=switch_daemon.answers())


def _remove_devices(names: Names) -> None:
    ip_batch([f"link delete {name}" for name in _devices(names)], force=True)


def _devices(names: Names) -> list[str]:
    """Returns the devices of a run in the root namespace, bridges included."""
    found = (path.name for path in Path("/sys/class/net").iterdir())
    return sorted(name for name in found if name.startswith(names.prefix))


@contextmanager
def _expedited_rcu() -> Iterator[None]:
    """Makes the kernel's RCU grace periods short inside the block.

    Open vSwitch closes one packet socket after the other, and each close waits for a grace period: 100
    switches with 500 ports took 8.7 s to remove, and 2.7 s with this (2 cores, kernel 6.18, userspace
    datapath; `./run.sh bench bring_up` measures the whole).

    The setting applies to the whole machine. One process at a time changes it and writes the previous value
    to the lock file: if that process is killed, the next process restores the value.
    """
    with ExitStack() as stack:
        # Not permitted in a container, and no room for the lock file on a full disk: slower, but correct.
        with suppress(OSError):
            stack.enter_context(_rcu_expedited())
        yield


@contextmanager
def _rcu_expedited() -> Iterator[None]:
    """Sets the kernel's switch inside the block.

    Raises:
        OSError: the switch or the lock file cannot be written; nothing has changed.
    """
    STATE_ROOT.mkdir(mode=0o755, exist_ok=True)
    # Unbuffered: a value that does not fit is an error of `write`, not of each later call.
    with (STATE_ROOT / "rcu_expedited.lock").open("a+b", buffering=0) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        before = lock.read().strip()
        if not before:
            before = _RCU_EXPEDITED.read_bytes().strip()
            lock.write(before)
        try:
            _RCU_EXPEDITED.write_bytes(b"1")
        except OSError:
            lock.truncate(0)
            raise
        try:
            yield
        finally:
            _RCU_EXPEDITED.write_bytes(before)
            lock.truncate(0)
