"""The application's side of the application socket.

`Client` serves two kinds of caller. A program that waits calls `send_message`, `set_predicate`, `subscribe`,
`deliveries` and `status`. A driver that holds many clients registers each with its selector, queues requests
with `request`, and calls `read_events` and `flush` when the selector reports the socket ready; no call of a
driver waits. Both may be mixed.
"""

from __future__ import annotations

import math
import select
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from router.predicates.model import Message, Predicate, Value
from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_predicate
from router.runtime.lines import REQUEST_LIMIT, LineSocket, LineTooLongError, json_line, parse_object

if TYPE_CHECKING:
    from router.privacy.application import PrivateApplication
    from router.privacy.keys import KeyRing

#: Seconds that a blocking call waits for its answer.
TIMEOUT = 10.0
# A delivery or a status answer may be longer than any request.
_LINE_LIMIT = 64 * 1024 * 1024
#: Outcomes that a client keeps for a caller that does not ask for them.
_OUTCOMES_MAX = 10_000
#: Operations of a service that has no encoded form: with keys, nothing goes to a router in the clear.
_READ_BY_ROUTERS = frozenset({"register", "publish"})
#: Operation -> the fields of its answer, if the request was served.
_ANSWERS = {
    "hello": ("app", "node"),
    "send_message": ("source", "seq"),
    "subscribe": ("subscription",),
    "register": ("subscription", "round"),
    "refresh": ("round",),
    "publish": ("source", "seq"),
}


class ClientError(Exception):
    """The router refused a request, closed the connection, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that the router delivered.

    `(source, seq)` identifies it.

    Attributes:
        subscription, round, age_s: of the attention-limited service: the subscription for which the router
            delivered it, its round, and the time since the upload in experiment seconds; otherwise None.
    """

    source: int
    seq: int
    attributes: Mapping[str, Value]
    subscription: int | None = None
    round: int | None = None
    age_s: float | None = None


@dataclass(frozen=True, slots=True)
class RoundOver:
    """A round of a subscription of the attention-limited service is over.

    Attributes:
        outcome: "satisfied", "expired" or "withdrawn".
        got: publications that were delivered in the round.
    """

    subscription: int
    round: int
    outcome: str
    got: int


@dataclass(slots=True)
class Request:
    """A request that has been queued or sent.

    Attributes:
        answer: the router's answer, or None before it arrives. `answer["ok"]` is true if the request was
            served.
    """

    id: int
    op: str
    answer: dict[str, Any] | None = None


def _private(key: KeyRing | PrivateApplication) -> PrivateApplication:
    # The ciphers are loaded by applications that need them.
    from router.privacy.application import PrivateApplication
    from router.privacy.member import Member

    return key if isinstance(key, PrivateApplication) else PrivateApplication(Member(key))


class Client:
    """One application, connected to the router of its node.

    Args:
        path: the router's application socket.
        app: name of the application, unique at its router (None: the router names it).
        timeout: seconds that a blocking call waits for an answer.
        key: the keys of a private network, whose routers get encoded predicates and messages only; or the
            application's private side, with its records. `register` and `publish` then raise ClientError:
            they have no encoded form. None: routers read predicates and messages.

    Attributes:
        app: the application's name.
        node: the router's node.
        commands: those of the router's service, values of `op`.
        private: the application's private side; None: routers read predicates and messages.

    Raises:
        ClientError: no router listens at `path`, the name is in use, or the router does not answer.
    """

    def __init__(
        self,
        path: Path | str,
        app: str | None = None,
        timeout: float = TIMEOUT,
        key: KeyRing | PrivateApplication | None = None,
    ) -> None:
        self.private = None if key is None else _private(key)
        self._path = path
        self._timeout = timeout
        self._requests: dict[int, Request] = {}
        self._next_id = 1
        self._deliveries: deque[Delivery] = deque()
        #: Rounds that are over and that `outcomes` has not returned; the driver of a workload reads none.
        self._outcomes: deque[RoundOver] = deque(maxlen=_OUTCOMES_MAX)
        self._open = True
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(path))
        except OSError as error:
            connection.close()
            self._close_private()
            raise ClientError(f"{path}: {error.strerror or error}") from error
        self._lines = LineSocket(connection, _LINE_LIMIT)
        try:
            answer = self._wait(self.request("hello", **({} if app is None else {"app": app})))
        except ClientError:
            self._lines.close()
            self._close_private()
            raise
        self.app = str(answer["app"])
        self.node = int(answer["node"])
        self.commands = frozenset(answer.get("commands", ()))
        if self.private is not None:
            self.private.connected(self.node, self.app)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Calls that wait.

    def send_message(self, message: Message | str) -> tuple[int, int]:
        """Sends a message (text: readable notation).

        Returns its (source, seq).

        Raises:
            ClientError: the router refused it or did not answer.
            ValueError: the text is not a message.
        """
        answer = self._wait(self.request_send_message(message))
        return int(answer["source"]), int(answer["seq"])

    def set_predicate(self, predicate: Predicate | str) -> None:
        """Declares this application's predicate, in place of the last predicate that it declared.

        Raises:
            ClientError: the router refused it or did not answer.
            ValueError: the text is not a predicate.
        """
        self._wait(self.request_set_predicate(predicate))

    def subscribe(self, predicate: Predicate | str) -> int:
        """Subscribes to the messages of `predicate`.

        Returns the number of the subscription.

        An application receives the messages that its declared predicate or any of its subscriptions selects,
        each message once.

        Raises:
            ClientError: the router refused it or did not answer.
            ValueError: the text is not a predicate.
        """
        return int(self._wait(self.request_subscribe(predicate))["subscription"])

    def unsubscribe(self, subscription: int) -> None:
        """Revokes a subscription.

        Raises:
            ClientError: this application has no subscription of that number, or the router did not answer.
        """
        self._wait(self.request_unsubscribe(subscription))

    def register(
        self,
        predicate: Predicate | str,
        max: int,
        lifetime_s: float,
        freshness_s: float,
        refreshed: bool = False,
    ) -> int:
        """Registers a subscription with the attention-limited service.

        Returns its number.

        Args:
            max: greatest number of publications of a round.
            lifetime_s: duration of a round, experiment seconds.
            freshness_s: greatest age of a publication, experiment seconds.
            refreshed: it continues a subscription that the router forgot; no publication comes twice.

        Raises:
            ClientError: the router refused it or did not answer.
            ValueError: the text is not a predicate, or a duration is not finite.
        """
        request = self.request_register(predicate, max, lifetime_s, freshness_s, refreshed)
        return int(self._wait(request)["subscription"])

    def refresh(self, subscription: int) -> int:
        """Refreshes a subscription whose round is over.

        Returns the number of the round.

        Raises:
            ClientError: the router refused it or did not answer.
        """
        return int(self._wait(self.request_refresh(subscription))["round"])

    def unregister(self, subscription: int) -> None:
        """Withdraws a subscription of the attention-limited service.

        Raises:
            ClientError: this application has no subscription of that number, or the router did not answer.
        """
        self._wait(self.request_unregister(subscription))

    def publish(self, message: Message | str) -> tuple[int, int]:
        """Uploads a publication (text: readable notation) to the attention-limited service.

        Returns its (source, seq).

        Raises:
            ClientError: the router refused it or did not answer.
            ValueError: the text is not a message.
        """
        answer = self._wait(self.request_publish(message))
        return int(answer["source"]), int(answer["seq"])

    def outcomes(self) -> list[RoundOver]:
        """Returns the rounds that the lines read so far have ended, since the last call; does not wait."""
        found = list(self._outcomes)
        self._outcomes.clear()
        return found

    def subscriptions(self) -> dict[int, Predicate]:
        """Returns this application's subscriptions at the router, by number."""
        if self.private is not None:
            return self.private.subscriptions
        answer = self._wait(self.request("subscriptions"))
        return {int(number): parse_predicate(text) for number, text in answer["subscriptions"].items()}

    def set_keys(self, ring: KeyRing) -> None:
        """Uses other keys of the private network from now on: a step of a rotation (`router.privacy.keys`).

        Raises:
            ClientError: the router did not answer.
            ValueError: this application has no keys.
        """
        if self.private is None:
            raise ValueError("an application without keys has none to replace")
        self.private.member.set_keys(ring)
        self._wait(self._request("set_predicate", {"predicate": self.private.declared}))

    def status(self, tables: bool = True) -> dict[str, Any]:
        """Returns counters and tables of the router: see `router.runtime.loop.RouterLoop.status`.

        Args:
            tables: False leaves out the predicates and interfaces, for callers that ask often.
        """
        return self._wait(self.request("status", tables=tables))

    def request_update(self) -> None:
        """Makes the router send an SR through every interface (paper, section 3.5.2)."""
        self._wait(self.request("request_update"))

    def settle(self) -> None:
        """Stops the router's periodic sending, so that the network becomes quiet."""
        self._wait(self.request("settle"))

    def deliveries(self, timeout: float | None = None) -> Iterator[Delivery]:
        """Yields deliveries as they arrive, until none has arrived for `timeout` seconds (None: never ends).

        Raises:
            ClientError: the router closed the connection.
        """
        while True:
            self._deliveries.extend(self._read())
            if not self._deliveries and not self._poll(timeout):
                return
            while self._deliveries:
                yield self._deliveries.popleft()

    def close(self) -> None:
        """Disconnects; the router withdraws the predicates of this application.

        Waits for the answers to messages, which a router whose answers nobody reads might not take.
        """
        if not self._open:
            return
        self._open = False
        try:
            for request in list(self._requests.values()):
                if request.op in ("send_message", "publish"):
                    self._await(request)
        except ClientError:
            # The router is gone or blocked: it takes nothing more in either case.
            pass
        finally:
            self._lines.close()
            self._close_private()

    # Calls that do not wait.

    def fileno(self) -> int:
        return self._lines.fileno()

    @property
    def wants_write(self) -> bool:
        """True if requests wait until the socket is writable; then call `flush`."""
        return self._lines.pending > 0

    @property
    def outstanding(self) -> int:
        """Returns the number of requests that have not been answered."""
        return len(self._requests)

    def request_send_message(self, message: Message | str) -> Request:
        """As `send_message`, without waiting; the answer holds `source` and `seq`."""
        return self._request_message("send_message", message)

    def request_register(
        self,
        predicate: Predicate | str,
        max: int,
        lifetime_s: float,
        freshness_s: float,
        refreshed: bool = False,
    ) -> Request:
        """As `register`, without waiting; the answer holds `subscription` and `round`."""
        if not math.isfinite(lifetime_s) or not math.isfinite(freshness_s):
            raise ValueError(f"lifetime_s, freshness_s: {lifetime_s}, {freshness_s}; JSON has finite numbers")
        if isinstance(predicate, str):
            predicate = parse_predicate(predicate)
        fields: dict[str, Any] = {
            "predicate": format_predicate(predicate),
            "max": max,
            "lifetime_s": lifetime_s,
            "freshness_s": freshness_s,
        }
        return self._request("register", fields | ({"refreshed": True} if refreshed else {}))

    def request_refresh(self, subscription: int) -> Request:
        """As `refresh`, without waiting; the answer holds `round`."""
        return self._request("refresh", {"subscription": subscription})

    def request_unregister(self, subscription: int) -> Request:
        """As `unregister`, without waiting."""
        return self._request("unregister", {"subscription": subscription})

    def request_publish(self, message: Message | str) -> Request:
        """As `publish`, without waiting; the answer holds `source` and `seq`."""
        return self._request_message("publish", message)

    def request_set_predicate(self, predicate: Predicate | str) -> Request:
        """As `set_predicate`, without waiting."""
        return self._request_predicate("set_predicate", predicate)

    def request_subscribe(self, predicate: Predicate | str) -> Request:
        """As `subscribe`, without waiting; the answer holds `subscription`."""
        return self._request_predicate("subscribe", predicate)

    def request_unsubscribe(self, subscription: int) -> Request:
        """As `unsubscribe`, without waiting."""
        return self._request("unsubscribe", {"subscription": subscription})

    def request(self, op: str, **fields: Any) -> Request:
        """Queues any request and sends what the socket takes.

        Its answer comes with `read_events`.

        Raises:
            ClientError: the connection is closed.
            ValueError: the request is longer than a router accepts.
        """
        return self._request(op, fields)

    def flush(self) -> None:
        """Sends queued requests, as far as the socket accepts them.

        Raises:
            ClientError: the router closed the connection.
        """
        if not self._lines.flush():
            raise self._closed()

    def read_events(self) -> list[Delivery]:
        """Reads the input that has arrived: completes requests and returns the deliveries.

        Does not wait.

        Raises:
            ClientError: the router closed the connection, or sent a line that is not of the protocol.
        """
        found = [*self._deliveries, *self._read()]
        self._deliveries.clear()
        return found

    # Internals.

    def _close_private(self) -> None:
        if self.private is not None:
            self.private.close()

    def _request_message(self, op: str, message: Message | str) -> Request:
        if isinstance(message, str):
            message = parse_message(message)
        return self._request(op, {"attributes": message})

    def _request_predicate(self, op: str, predicate: Predicate | str) -> Request:
        if isinstance(predicate, str):
            predicate = parse_predicate(predicate)
        return self._request(op, {"predicate": format_predicate(predicate)})

    def _request(self, op: str, fields: Mapping[str, Any]) -> Request:
        number = self._next_id
        if self.private is not None and op in _READ_BY_ROUTERS:
            raise ClientError(f"{op}: routers read what this service is given; connect without keys")
        if self.private is not None:
            fields = self.private.request(number, op, fields)
        line = json_line({"id": number, "op": op, **fields})
        if len(line) - 1 > REQUEST_LIMIT:
            if self.private is not None:
                self.private.answered(number, {"ok": False})
            raise ValueError(f"{op}: a request of {len(line) - 1} bytes; a router accepts {REQUEST_LIMIT}")
        self._next_id += 1
        request = self._requests[number] = Request(number, op)
        if not self._lines.send(line):
            raise self._closed()
        return request

    def _wait(self, request: Request) -> dict[str, Any]:
        """Waits for the answer to a request that must be served."""
        answer = self._await(request)
        if not answer.get("ok"):
            raise ClientError(f"{self._path}: {request.op}: {answer.get('error')}")
        return answer

    def _await(self, request: Request) -> dict[str, Any]:
        """Waits for the answer to a request, whether or not the request is served."""
        deadline = time.monotonic() + self._timeout
        while request.answer is None:
            if not self._poll(deadline - time.monotonic()):
                raise ClientError(f"{self._path}: no answer to {request.op} in {self._timeout:g} s")
            self._deliveries.extend(self._read())
        return request.answer

    def _poll(self, timeout: float | None) -> bool:
        """Waits until input arrives, and sends queued requests. Returns False after the timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            poller = select.poll()
            poller.register(self._lines, select.POLLIN | (select.POLLOUT if self.wants_write else 0))
            ready = poller.poll(None if left is None else left * 1000)
            if not ready:
                return False
            mask = ready[0][1]
            if mask & select.POLLOUT:
                self.flush()
            if mask & ~select.POLLOUT:
                return True

    def _read(self) -> list[Delivery]:
        found: list[Delivery] = []
        lines, open_ = self._lines.receive()
        for line in lines:
            if isinstance(line, LineTooLongError):
                raise ClientError(f"{self._path}: {line}")
            content = self._parsed(line)
            if isinstance(content, Delivery):
                found.append(content)
            elif isinstance(content, RoundOver):
                self._outcomes.append(content)
            elif content is not None:
                if self.private is not None:
                    self.private.answered(content["id"], content)
                self._requests.pop(content["id"]).answer = content
        # Lines that arrived before the end are returned first; the next read finds the end.
        if not open_ and not lines:
            raise self._closed()
        return found

    def _parsed(self, line: bytes) -> Delivery | RoundOver | dict[str, Any] | None:
        """Parses a line from the router: a delivery, the end of a round, or the answer to an outstanding
        request with all its fields.

        None: a delivery of a message that is not for this application.
        """
        try:
            content = parse_object(line)
            message: Mapping[str, Value] | None
            if content.get("event") == "deliver" and self.private is not None:
                source, seq = content["source"], content["seq"]
                message = self.private.delivered(source, seq, content["encoded"])
                return None if message is None else Delivery(source, seq, message)
            if content.get("event") == "deliver":
                return Delivery(
                    content["source"],
                    content["seq"],
                    content["attributes"],
                    content.get("subscription"),
                    content.get("round"),
                    content.get("age_s"),
                )
            if content.get("event") == "outcome":
                return RoundOver(*(content[name] for name in ("subscription", "round", "outcome", "got")))
            request = self._requests[content["id"]]
            for name in _ANSWERS.get(request.op, ()) if content["ok"] else ():
                content[name]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            said = line[:80].decode(errors="replace")
            raise ClientError(f"{self._path}: unexpected line from the router: {said}") from error
        return content

    def _closed(self) -> ClientError:
        return ClientError(f"{self._path}: the router closed the connection")
