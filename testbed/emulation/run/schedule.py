"""Schedule of an experiment on a network that is up: workload, timed events, and the wait for quiescence."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from testbed.emulation.control.commands import Commands
from testbed.emulation.control.quiescence import Quiescence, not_quiet, quiet_limit_s
from testbed.emulation.run.governor import EmulationClock
from testbed.emulation.run.lag_watch import OPENING_RATE, LagWatch
from testbed.emulation.run.parts import RunningParts, part_steps_of
from testbed.experiments.config import AUTO, Experiment
from testbed.experiments.events.network import steps_of
from testbed.experiments.workload import Workload
from testbed.experiments.workload.driver import Driver, TimedAction
from testbed.support.processes import ENDING, leave_closed_terminal
from testbed.terminal.numbers import clock as shown_time

#: Further wall seconds, for each router, after the end in which the network must have become quiet.
_QUIET_PER_ROUTER_S = 0.2


def play(
    driver: Driver,
    experiment: Experiment,
    workload: Workload,
    commands: Commands,
    parts: RunningParts,
    check: Callable[[], None],
    clock: EmulationClock,
    watch: LagWatch,
    show: Callable[[str], None],
    hold: bool,
) -> float:
    """Plays the workload and the timed events, then waits until the network is quiet.

    Args:
        commands: of the user, while the workload is played and the network is held.
        check: raises if a part of the emulation has died.
        clock: the experiment clock; second 0 of the workload begins.
        watch: measures lag while the workload is played.
        show: is called with the progress, in words.
        hold: wait for Ctrl-C, which then ends the workload and not the run.

    Returns:
        The greatest lateness of the workload (`Driver.play`).

    Raises:
        RunError: a part died, or the network did not become quiet.
        TypeError: an event is neither a fault nor an event of an application.
    """

    def progress(now_s: float, sent: int, delivered: int) -> None:
        check()
        show(f"{shown_time(now_s, experiment.duration_s)}, {sent} messages sent, {delivered} delivered")

    def checked(ended: Callable[[], bool]) -> Callable[[], bool]:
        def until() -> bool:
            check()
            return ended()

        return until

    events, network = experiment.events, commands.network
    actions = [TimedAction(at_s, partial(apply, network)) for at_s, apply in steps_of(events)]
    actions += [TimedAction(at_s, partial(apply, parts)) for at_s, apply in part_steps_of(events)]
    rate = OPENING_RATE if experiment.time_scale == AUTO else experiment.time_scale
    with _ended_by_ctrl_c(driver, hold) as ended:
        zero_s = clock.begin(rate)
        with commands.served(driver, lambda: clock.now_s):
            with watch:
                lateness_max_s = driver.play(
                    *(workload, clock.clock, experiment.duration_s, progress, actions),
                    *(zero_s, clock.workload, watch),
                )
                parts.restore()
            if hold and not ended():
                show("done; the network stays up until Ctrl-C")
                driver.drain(checked(ended), timeout_s=float("inf"))
    show("waiting until the network is quiet")
    with closing(Quiescence(driver.sockets.values(), commands.quiet_s())) as quiescence:
        # In this order: only after the trees have settled do quiet routers stay quiet.
        timeout_s = quiet_limit_s(experiment) + _QUIET_PER_ROUTER_S * len(driver.sockets)
        if not driver.drain(lambda: commands.unsettled() is None and quiescence.quiet(), timeout_s):
            raise not_quiet(f"{timeout_s:g} s", quiescence.working, commands.unsettled())
    check()
    return lateness_max_s


@contextmanager
def _ended_by_ctrl_c(driver: Driver, hold: bool) -> Iterator[Callable[[], bool]]:
    """With `hold`, makes Ctrl-C, or a signal like it, end the driver's work and not the run.

    Yields whether a signal came.
    """
    over = False

    def end(*_: Any) -> None:
        nonlocal over
        over = True
        leave_closed_terminal()
        driver.stop()

    if not hold:
        yield lambda: False
        return
    # `nohup` ignores SIGHUP.
    ending = [each for each in ENDING if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, end) for each in ending}
    try:
        yield lambda: over
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        driver.resume()
