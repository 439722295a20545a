"""A simulated router: the protocol core, its deadlines in virtual time, and the application on it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from captures.rundir import RunLayout
from router.protocol import events
from router.protocol.core.layers import Verifier, make_router
from router.wire.frames import COUNTER_BITS
from testbed.experiments.config import Experiment, SecurityOptions
from testbed.sim import Agenda, Alarm
from testbed.sim.fabric import Fabric

if TYPE_CHECKING:
    from router.security.guard import Guard

#: Greater than 0, which is no valid incarnation; no router restarts in a simulation.
INCARNATION = 1


class SimulatedRouter:
    """A router in virtual time.

    Its jitter is that of the emulated router.

    Args:
        sink: handles the actions for the application, with the node.
        verifier: verifies the signatures of others; None: frames need none.
    """

    def __init__(
        self,
        node: int,
        experiment: Experiment,
        agenda: Agenda,
        fabric: Fabric,
        sink: Callable[[int, Any], None],
        verifier: Verifier | None,
    ) -> None:
        self.node = node
        jitter = Random(f"{experiment.seed}/{node}")
        self.router = make_router(node, experiment.router_options, None, INCARNATION, jitter, verifier)
        self.core = self.router.core
        self._agenda = agenda
        self._fabric = fabric
        self._sink = sink
        self._alarm = Alarm(
            agenda, lambda: self.handle(events.Tick()), lambda deadline: agenda.piece.time_of(deadline)
        )

    def handle(self, event: events.Event) -> None:
        router = self.router
        for action in router.handle(event, self._agenda.now_s):
            if isinstance(action, events.Send):
                self._fabric.send(self.node, action.interfaces, action.frame)
            elif isinstance(action, events.SendToController):
                self._fabric.send_to_controller(self.node, action.frame)
            else:
                self._sink(self.node, action)
        deadline = router.next_deadline()
        if deadline is not None:
            self._alarm.set(deadline)

    def rate_changed(self) -> None:
        """Sets the alarm for the new rate of the experiment clock."""
        self._alarm.rate_changed()
        self._alarm.set(self.router.next_deadline())

    def counters(self) -> dict[str, Any]:
        return self._fabric.router_counters(self.node, self.core.counters)


def guard_of(security: SecurityOptions, run: RunLayout, own: bytes) -> Guard:
    """The guard of a router or the controller; no restart needs its replay windows."""
    from router.security.guard import make_guard  # it comes with cryptography

    signing_keys = run.signing_keys if security.signs else None
    return make_guard(own, run.network_keys, INCARNATION, None, signing_keys)


def verifier_of(security: SecurityOptions, run: RunLayout) -> Verifier | None:
    """Verifies the signatures of issuers; None: frames have none."""
    if not security.signs:
        return None
    from router.security.signatures import PublicKeys, read_public_keys

    return PublicKeys(read_public_keys(run.signing_keys), INCARNATION << COUNTER_BITS)
