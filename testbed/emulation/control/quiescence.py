"""Detection of a quiet network: no frame is under way, and no router has work left."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from router.protocol.core.reliable_control import LONGEST_WAIT, SENDINGS
from router.runtime.client import Client
from testbed.experiments.config import Experiment
from testbed.support.errors import RunError
from topos import TBF_LATENCY_S, Link

#: Wall seconds, far more than a frame takes through an unshaped network.
_MARGIN_S = 0.2
#: Wall seconds between two rounds of queries, which cost every router time.
_ROUND_S = 0.1
#: Wall seconds after the end in which a network must become quiet in which no router waits.
_QUIET_LIMIT_S = 60.0
#: Working routers that a round looks for.
_ENOUGH = 10


def quiet_period_s(links: Sequence[Link]) -> float:
    """Returns wall seconds, longer than any frame can be under way between two routers.

    Args:
        links: of the network, in every state in which they can have taken a frame that is under way.
    """
    longest = max(((link.delay_ms or 0.0) + (link.jitter_ms or 0.0) for link in links), default=0.0)
    longest /= 1000
    shaped = any(link.bandwidth_mbps for link in links)
    return _MARGIN_S + longest + (TBF_LATENCY_S if shaped else 0.0)


def quiet_limit_s(experiment: Experiment) -> float:
    """Returns the wall seconds after the end within which the network must have become quiet.

    Routers wait in experiment seconds: for URs and RECEIPTs, which may never come, and between two RAs.
    """
    options = experiment.protocol
    waits = [options.ra_min_interval_s + options.ra_jitter_s]
    waits += [options.sr_timeout_s] if options.sr_policy != "never" else []
    waits += [SENDINGS * LONGEST_WAIT * options.control_retry_s] if options.reliable_control else []
    return _QUIET_LIMIT_S + max(waits) / experiment.virtual_rate


def not_quiet(waited: str, working: Sequence[int], trees: str | None) -> RunError:
    """Returns the error of a network that is not quiet.

    Args:
        waited: time since the end, in words.
        working: routers that are not idle.
        trees: the fault of the broadcast trees in words, or None.
    """
    reasons = [f"routers {list(working[:10])} are at work"] if working else []
    reasons += [trees] if trees else []
    why = " and ".join(reasons) or "frames move"
    return RunError(f"the network is quiet: not {waited} after the end; {why}")


class Quiescence:
    """Stops the periodic sending of all routers and polls their state, by one connection each.

    Args:
        period_s: wall seconds for which a quiet network moves no frame (`quiet_period_s`).

    Attributes:
        working: the routers that were not idle, or had moved frames, in the last round.

    Raises:
        ClientError: a router does not answer.
    """

    def __init__(self, sockets: Iterable[Path], period_s: float) -> None:
        self.working: list[int] = []
        self._period = period_s
        self._last: dict[int, Any] = {}
        self._quiet_since = self._asked = time.monotonic()
        self._clients: list[Client] = []
        with ExitStack() as stack:
            for path in sockets:
                self._clients.append(stack.enter_context(Client(path)))
                # Periodic RAs and SRs would never end.
                self._clients[-1].settle()
            self.close = stack.pop_all().close

    def quiet(self) -> bool:
        """Returns whether all routers were idle, and no frame moved, for longer than a frame can be under
        way."""
        now = time.monotonic()
        if now - self._asked >= _ROUND_S:
            self._asked = now
            self._ask()
        return not self.working and bool(self._last) and now - self._quiet_since >= self._period

    def _ask(self) -> None:
        """Queries the routers; no more of them once enough are found working, which are the first next time:
        queries cost routers time that those at work need."""
        self.working = []
        for position, client in enumerate(self._clients):
            status = client.status(tables=False)
            counters = status["counters"]
            seen = (counters["frames_received"], counters["frames_sent"])
            before = self._last.get(client.node)
            self._last[client.node] = seen
            if not status["idle"] or before != seen:
                self.working.append(client.node)
                if len(self.working) >= _ENOUGH and before is not None:
                    self._clients = self._clients[position:] + self._clients[:position]
                    break
        if self.working:
            self._quiet_since = time.monotonic()
