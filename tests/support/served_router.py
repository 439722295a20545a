"""A real router core that has no network, whose applications a thread serves."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from pathlib import Path
from typing import Any

from captures.rundir import RunLayout
from router.matching.engines import factory
from router.protocol.core.router import Router
from router.protocol.events import ControllerFrame, Event, Tick
from router.protocol.options import PrivacyMode, RouterOptions
from router.records.applications import ConnectionRecords
from router.runtime.applications import Applications
from router.runtime.client import Client, Delivery
from router.wire.frames import BroadcastTable, Commit, Frame, FrameType
from tests.support.applications import application_events, failed, records_in, service_records_in
from tests.support.tree_entries import TreeEntry, table_of

OUTPUT_LIMIT = 256 * 1024
#: The table of a router that has no neighbours.
ALONE = table_of((), (TreeEntry(4, 0, (), 0),))


def in_first_epoch(router: Router, table: BroadcastTable = ALONE) -> Router:
    for kind, body in ((FrameType.TABLE, table), (FrameType.COMMIT, Commit(1))):
        router.handle(ControllerFrame(Frame(kind, 4, 1 << 32 | 1, 1, 1, body)), 0.0)
    return router


def unserved(folder: Path, selector: selectors.BaseSelector) -> tuple[Router, Applications]:
    """A router and its applications, which the test serves."""
    router = in_first_epoch(Router(4, RouterOptions(), factory("counting"), 1))
    applications = Applications(
        *(router, folder / "r4.sock", selector),
        lambda event: router.handle(event, 0.0),
        lambda _tables: {"node": 4},
        records_in(folder, 4),
    )
    return router, applications


def arrived(client: Client) -> list[Delivery]:
    """The deliveries of everything that the router had answered before: it serves requests one by one."""
    client.status()
    return client.read_events()


class Node:
    """A router that a thread serves, by default alone in its network.

    The thread owns router and applications until `events` or `close` ends it; what a test reads of them
    meanwhile, other than in answers, may change a moment after an answer or the end of a connection.
    """

    def __init__(
        self,
        path: Path,
        service: str = "exhaustive",
        privacy: PrivacyMode = "off",
        table: BroadcastTable = ALONE,
        scheme: str = "pif",
    ) -> None:
        self.path = path
        self.folder = path.parent
        engine = factory("counting") if privacy == "off" else None
        records = records_in(path.parent, 4)
        if privacy != "off":
            records = ConnectionRecords(RunLayout(path.parent).applications_of(4), failed)
        options = RouterOptions(scheme=scheme, service=service, privacy=privacy)
        self.router = in_first_epoch(Router(4, options, engine, 1), table)
        self.selector = selectors.DefaultSelector()
        self.applications = Applications(
            *(self.router, path, self.selector, self._handle, lambda _tables: {"node": 4}),
            *(records, OUTPUT_LIMIT),
            service_records=service_records_in(path.parent, 4) if service == "attention" else None,
        )
        self._waker, self._wakes = socket.socketpair()
        self.selector.register(self._wakes, selectors.EVENT_READ, lambda _mask: self._wakes.recv(1))
        #: The router's clock, seconds; see `advance`.
        self._now = 0.0
        self._running = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _handle(self, event: Event) -> list[Any]:
        return self.router.handle(event, self._now)

    def advance(self, seconds: float) -> None:
        """Lets time pass for the router."""
        self._now += seconds
        self._waker.send(b"x")

    def _stop(self) -> None:
        self._running = False
        self._waker.send(b"x")
        self._thread.join()
        self.applications.close()

    def _run(self) -> None:
        while self._running:
            due = self.applications.next_deadline()
            timeout = None if due is None else due - time.monotonic()
            if self.applications.behind or self._is_due():
                timeout = 0
            for key, mask in self.selector.select(timeout):
                key.data(mask)
            self.applications.serve(time.monotonic())
            self.applications.tick(time.monotonic())
            if self._is_due():
                self.applications.perform(self.router.handle(Tick(), self._now))

    def _is_due(self) -> bool:
        due = self.router.next_deadline()
        return due is not None and due <= self._now

    def events(self) -> list[dict[str, Any]]:
        """Ends the service; returns the records of the applications."""
        self._stop()
        return application_events(self.folder)

    def deliveries(self) -> list[int]:
        return [each["seq"] for each in application_events(self.folder) if each["event"] == "deliver"]

    def close(self) -> None:
        self._stop()
        self.selector.close()
        self._waker.close()
        self._wakes.close()

    def client(self, app: str | None = None, **options: Any) -> Client:
        return Client(self.path, app, **options)
