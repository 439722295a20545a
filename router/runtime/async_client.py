"""An application in an asyncio program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Self

from router.predicates import Predicate
from router.runtime import commands
from router.runtime.client import TIMEOUT, Client, ClientError, Delivery, P, RoundOver, T, as_method
from router.runtime.commands import Command

if TYPE_CHECKING:
    from router.privacy import KeyRing
    from router.privacy.application import PrivateApplication


def _awaits(
    command: Callable[P, Command[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    async def call(client: AsyncClient, /, *args: P.args, **fields: P.kwargs) -> T:
        return await client.call(command(*args, **fields))

    return as_method(command, call)


class AsyncClient:
    """One application, connected to the router of its node, for one asyncio loop.

    Use it as an asynchronous context manager; iteration yields deliveries as they arrive:

        async with AsyncClient(path) as client:
            await client.subscribe("price < 400")
            async for delivery in client:
                ...

    Args:
        path, app, timeout, key: as of `Client`.

    Raises:
        ClientError: on entering, no router listens at `path`, or the name is in use.
    """

    def __init__(
        self,
        path: Path | str,
        app: str | None = None,
        timeout: float = TIMEOUT,
        key: KeyRing | PrivateApplication | None = None,
    ) -> None:
        self._path = path
        self._key = key
        self._app = app
        self._timeout = timeout
        self._client: Client | None = None
        self._deliveries: asyncio.Queue[Delivery | ClientError] = asyncio.Queue()
        self._answered = asyncio.Event()
        self._error: ClientError | None = None

    async def __aenter__(self) -> Self:
        # The router answers the greeting at once: it waits for nothing.
        self._client = Client(self._path, self._app, self._timeout, self._key)
        asyncio.get_running_loop().add_reader(self._client.fileno(), self._read)
        return self

    async def __aexit__(self, *_: object) -> None:
        client = self._connected
        loop = asyncio.get_running_loop()
        loop.remove_reader(client.fileno())
        loop.remove_writer(client.fileno())
        client.close()
        self._client = None

    @property
    def node(self) -> int:
        """The router's node."""
        return self._connected.node

    @property
    def app(self) -> str:
        """The application's name."""
        return self._connected.app

    send_message = _awaits(commands.send_message)
    set_predicate = _awaits(commands.set_predicate)
    subscribe = _awaits(commands.subscribe)
    unsubscribe = _awaits(commands.unsubscribe)
    register = _awaits(commands.register)
    refresh = _awaits(commands.refresh)
    unregister = _awaits(commands.unregister)
    publish = _awaits(commands.publish)
    status = _awaits(commands.status)
    request_update = _awaits(commands.request_update)
    settle = _awaits(commands.settle)

    async def subscriptions(self) -> dict[int, Predicate]:
        """As `Client.subscriptions`."""
        private = self._connected.private
        return await self.call(commands.subscriptions()) if private is None else private.subscriptions

    def outcomes(self) -> list[RoundOver]:
        """As `Client.outcomes`."""
        return self._connected.outcomes()

    async def set_keys(self, ring: KeyRing) -> None:
        """As `Client.set_keys`."""
        await self.set_predicate(self._connected.renewed(ring))

    async def call(self, command: Command[T]) -> T:
        """As `Client.call`."""
        request = self._connected.start(command)
        self._write()
        try:
            async with asyncio.timeout(self._timeout):
                while request.answer is None:
                    if self._error is not None:
                        raise self._error
                    self._answered.clear()
                    await self._answered.wait()
        except TimeoutError as error:
            raise ClientError(f"{self._path}: no answer to {command.op} in {self._timeout:g} s") from error
        return self._connected.value(request)

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        """Yields deliveries as they arrive.

        Raises:
            ClientError: the router closed the connection.
        """
        while True:
            if self._error is not None and self._deliveries.empty():
                # Another iteration has taken the error from the queue.
                raise self._error
            found = await self._deliveries.get()
            if isinstance(found, ClientError):
                raise found
            yield found

    @property
    def _connected(self) -> Client:
        if self._client is None:
            raise ClientError(f"{self._path}: not connected; expected `async with`")
        return self._client

    def _write(self) -> None:
        """Has the loop send queued requests once the socket takes them."""
        client = self._connected
        if client.wants_write:
            asyncio.get_running_loop().add_writer(client.fileno(), self._flush)

    def _flush(self) -> None:
        client = self._connected
        try:
            client.flush()
        except ClientError as error:
            self._fail(error)
        if self._error is not None or not client.wants_write:
            asyncio.get_running_loop().remove_writer(client.fileno())

    def _read(self) -> None:
        try:
            for delivery in self._connected.read_events():
                self._deliveries.put_nowait(delivery)
        except ClientError as error:
            self._fail(error)
        self._answered.set()

    def _fail(self, error: ClientError) -> None:
        self._error = error
        self._deliveries.put_nowait(error)
        self._answered.set()
        asyncio.get_running_loop().remove_reader(self._connected.fileno())
