"""Playing an experiment on a network that is up: workload, timed events, and the wait for quiet."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from testbed.config.model import Experiment
from testbed.errors import RunError
from testbed.run.quiescence import Quiescence
from testbed.workload.driver import Driver, Played, TimedAction
from testbed.workload.model import Workload

#: Wall seconds after the end in which the network must have become quiet.
_QUIET_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Network:
    """What the schedule may do with the network.

    Attributes:
        sockets: application sockets, by node.
        set_link: takes a link (u, v) down or up.
        set_node: cuts a node off, or joins it again.
        check: raises if a part of the emulation has died.
    """

    sockets: Mapping[int, Path]
    set_link: Callable[[int, int, bool], None]
    set_node: Callable[[int, bool], None]
    check: Callable[[], None]


def play(
    driver: Driver,
    experiment: Experiment,
    workload: Workload,
    network: Network,
    show: Callable[[str], None],
    hold: bool,
) -> Played:
    """Plays all, then waits until the network is quiet.

    Args:
        show: is told how it goes, in words.
        hold: wait for the user's Ctrl-C before the wait for quiet.

    Raises:
        RunError: a part died, or the network did not become quiet.
    """

    def progress(now_s: float, sent: int, delivered: int) -> None:
        network.check()
        show(f"{now_s:.0f} of {experiment.duration_s:g} s, {sent} messages sent, {delivered} delivered")

    played = driver.play(
        workload,
        experiment.time_scale,
        experiment.duration_s,
        progress,
        list(_network_events(experiment, network)),
    )
    if hold:
        show("done; the network stays up until Ctrl-C")
        _hold(driver, network)
    show("waiting until the network is quiet")
    with Quiescence(network.sockets.values(), experiment.topology) as quiescence:
        if not driver.drain(quiescence.quiet, _QUIET_TIMEOUT_S):
            raise RunError(
                f"the network is quiet: not after {_QUIET_TIMEOUT_S:g} s; still at work: "
                f"routers {quiescence.working[:10]}"
            )
    network.check()
    return played


def _network_events(experiment: Experiment, network: Network) -> Iterator[TimedAction]:
    for event in experiment.events:
        if event.action in ("link_down", "link_up"):
            assert event.link is not None  # the loader has checked it
            yield TimedAction(event.at_s, partial(network.set_link, *event.link, event.action == "link_up"))
        elif event.action in ("node_down", "node_up"):
            assert event.node is not None
            yield TimedAction(event.at_s, partial(network.set_node, event.node, event.action == "node_up"))


def _hold(driver: Driver, network: Network) -> None:
    """Serves deliveries until Ctrl-C."""
    over = False

    def end(*_: Any) -> None:
        nonlocal over
        over = True

    def until() -> bool:
        network.check()
        return over

    before = signal.signal(signal.SIGINT, end)
    try:
        driver.drain(until, timeout_s=float("inf"))
    finally:
        signal.signal(signal.SIGINT, before)
