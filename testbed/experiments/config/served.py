"""The requests of applications that the service of an experiment serves."""

from __future__ import annotations

from collections.abc import Collection

from router.content.base import CONTENTS
from router.protocol.registries import SERVICES
from router.protocol.service import Session
from testbed.experiments.config.model import ProtocolOptions, ServiceOptions


def commands(service: ServiceOptions, protocol: ProtocolOptions) -> Collection[str]:
    """Returns the commands of the application socket, such as `set_predicate`."""
    session: Session = SERVICES[service.kind].session(0, CONTENTS[protocol.covering]())
    return session.commands()
