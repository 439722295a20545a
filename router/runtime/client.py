"""The application's side of the application socket.

`Client` serves two kinds of caller. A program that waits calls its commands (`router.runtime.commands`) and
`deliveries`. A driver of many clients registers each with its selector, queues commands with `start`, and
calls `read_events` and `flush` when the selector reports the socket ready; no call of a driver waits.
"""

from __future__ import annotations

import inspect
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from router.predicates import Predicate, Value
from router.records.json_file import json_line
from router.runtime import commands
from router.runtime.commands import Command
from router.runtime.lines import REQUEST_LIMIT, LineSocket, LineTooLongError, parse_object

if TYPE_CHECKING:
    from router.privacy import KeyRing
    from router.privacy.application import PrivateApplication

#: Seconds that a blocking call waits for its answer.
TIMEOUT = 10.0
# A delivery or a status answer may be longer than any request.
_LINE_LIMIT = 64 * 1024 * 1024
#: Outcomes that a client keeps for a caller that does not ask for them.
_OUTCOMES_MAX = 10_000
#: Operations of a service that has no encoded form: with keys, nothing goes to a router in the clear.
_READ_BY_ROUTERS = frozenset({"register", "publish"})
P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


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
class Request(Generic[T]):
    """A command that has been queued or sent.

    Attributes:
        answer: the router's answer, or None before it arrives. `answer["ok"]` is true if the command was
            served.
        value: what the answer means; None before it arrives.
    """

    id: int
    command: Command[T]
    answer: dict[str, Any] | None = None
    value: T | None = None


def _private(key: KeyRing | PrivateApplication) -> PrivateApplication:
    # The ciphers are loaded by applications that need them.
    from router.privacy.application import PrivateApplication
    from router.privacy.member import Member

    return key if isinstance(key, PrivateApplication) else PrivateApplication(Member(key))


def as_method(
    command: Callable[P, Command[T]], call: Callable[Concatenate[Any, P], R]
) -> Callable[Concatenate[Any, P], R]:
    """Gives a method the name, documentation and signature of its command, and the type of the answer."""
    of = inspect.signature(command)
    answer = of.return_annotation.removeprefix("Command[").removesuffix("]")
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method: Any = update_wrapper(call, command)
    method.__annotations__ = {**command.__annotations__, "return": answer}
    method.__signature__ = of.replace(parameters=[own, *of.parameters.values()], return_annotation=answer)
    return call


def _waits(command: Callable[P, Command[T]]) -> Callable[Concatenate[Client, P], T]:
    def call(client: Client, /, *args: P.args, **fields: P.kwargs) -> T:
        return client.call(command(*args, **fields))

    return as_method(command, call)


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
        self._requests: dict[int, Request[Any]] = {}
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
            self.app, self.node, self.commands = self.call(commands.hello(app))
        except ClientError:
            self._lines.close()
            self._close_private()
            raise
        if self.private is not None:
            self.private.connected(self.node, self.app)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Calls that wait.

    send_message = _waits(commands.send_message)
    set_predicate = _waits(commands.set_predicate)
    subscribe = _waits(commands.subscribe)
    unsubscribe = _waits(commands.unsubscribe)
    register = _waits(commands.register)
    refresh = _waits(commands.refresh)
    unregister = _waits(commands.unregister)
    publish = _waits(commands.publish)
    status = _waits(commands.status)
    request_update = _waits(commands.request_update)
    settle = _waits(commands.settle)

    def call(self, command: Command[T]) -> T:
        """Sends a command and returns the value of its answer.

        Raises:
            ClientError: the router refused the command, or did not answer.
        """
        request = self.start(command)
        self._await(request)
        return self.value(request)

    def value(self, request: Request[T]) -> T:
        """Returns the value of a request that was answered.

        Raises:
            ClientError: the router refused the command.
        """
        assert request.answer is not None
        if not request.answer.get("ok"):
            raise ClientError(f"{self._path}: {request.command.op}: {request.answer.get('error')}")
        return request.value  # type: ignore[return-value]  # set with the answer

    def outcomes(self) -> list[RoundOver]:
        """Returns the rounds that the lines read so far have ended, since the last call; does not wait."""
        found = list(self._outcomes)
        self._outcomes.clear()
        return found

    def subscriptions(self) -> dict[int, Predicate]:
        """Returns this application's subscriptions, by number."""
        return self.call(commands.subscriptions()) if self.private is None else self.private.subscriptions

    def set_keys(self, ring: KeyRing) -> None:
        """Uses other keys of the private network from now on: a step of a rotation (`router.privacy`).

        Raises:
            ClientError: the router did not answer.
            ValueError: this application has no keys.
        """
        self.set_predicate(self.renewed(ring))

    def renewed(self, ring: KeyRing) -> str:
        """Uses other keys; returns the predicate (text) that is to be declared under them.

        Raises:
            ValueError: this application has no keys.
        """
        if self.private is None:
            raise ValueError("an application without keys has none to replace")
        self.private.member.set_keys(ring)
        return self.private.declared

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
                if request.command.op in ("send_message", "publish"):
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

    def request(self, op: str, **fields: Any) -> Request[dict[str, Any]]:
        """As `start`, of any operation and fields; the value is the answer."""
        return self.start(Command(op, dict, fields))

    def start(self, command: Command[T]) -> Request[T]:
        """Queues a command and sends what the socket takes.

        Its answer comes with `read_events`.

        Raises:
            ClientError: the connection is closed.
            ValueError: the request is longer than a router accepts.
        """
        number, op, fields = self._next_id, command.op, command.fields
        if self.private is not None:
            if op in _READ_BY_ROUTERS:
                raise ClientError(f"{op}: routers read what this service is given; connect without keys")
            fields = self.private.request(number, op, fields)
        line = json_line({"id": number, "op": op, **fields})
        if len(line) - 1 > REQUEST_LIMIT:
            if self.private is not None:
                self.private.answered(number, {"ok": False})
            raise ValueError(f"{op}: a request of {len(line) - 1} bytes; a router accepts {REQUEST_LIMIT}")
        self._next_id += 1
        request = self._requests[number] = Request(number, command)
        if not self._lines.send(line):
            raise self._closed()
        return request

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

    def _await(self, request: Request[Any]) -> None:
        """Waits for the answer to a request, whether or not the request is served."""
        deadline = time.monotonic() + self._timeout
        while request.answer is None:
            if not self._poll(deadline - time.monotonic()):
                raise ClientError(f"{self._path}: no answer to {request.command.op} in {self._timeout:g} s")
            self._deliveries.extend(self._read())

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
        lines, open_ = self._lines.receive()
        found = [delivery for line in lines if (delivery := self._take(line)) is not None]
        # Lines that arrived before the end are returned first; the next read finds the end.
        if not open_ and not lines:
            raise self._closed()
        return found

    def _take(self, line: bytes | LineTooLongError) -> Delivery | None:
        """Takes a line from the router: a delivery, which it returns, the end of a round, or an answer."""
        if isinstance(line, LineTooLongError):
            raise ClientError(f"{self._path}: {line}")
        try:
            content = parse_object(line)
            match content.get("event"):
                case "deliver" if self.private is not None:
                    source, seq = content["source"], content["seq"]
                    message = self.private.delivered(source, seq, content["encoded"])
                    return None if message is None else Delivery(source, seq, message)
                case "deliver":
                    limited = (content.get(name) for name in ("subscription", "round", "age_s"))
                    return Delivery(content["source"], content["seq"], content["attributes"], *limited)
                case "outcome":
                    self._outcomes.append(
                        RoundOver(*(content[name] for name in ("subscription", "round", "outcome", "got")))
                    )
                    return None
            request = self._requests[content["id"]]
            if content["ok"]:
                request.value = request.command.value(content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            said = line[:80].decode(errors="replace")
            raise ClientError(f"{self._path}: unexpected line from the router: {said}") from error
        if self.private is not None:
            self.private.answered(request.id, content)
        request.answer = content
        del self._requests[request.id]
        return None

    def _closed(self) -> ClientError:
        return ClientError(f"{self._path}: the router closed the connection")
