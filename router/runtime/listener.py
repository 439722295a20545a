"""An application whose deliveries are passed to a function."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import Self

from router.predicates import Predicate
from router.runtime.client import Client, Delivery


class Listener:
    """Subscribes to a predicate, and calls a function for each delivery, in a thread of its own.

    Use it as a context manager, and not the client:

        with Listener(Client(path), "price < 400", print):
            ...

    What the function raises ends the listener, and so does a router that closes the connection; `close`
    raises it.

    Args:
        client: a connected application; the listener closes it.
        predicate: of the subscription.
        receive: is called for one delivery after the other, in the order in which they arrive.

    Attributes:
        app, node: as of the client.

    Raises:
        ClientError: the router refused the subscription or did not answer.
        ValueError: the text is not a predicate.
    """

    def __init__(
        self, client: Client, predicate: Predicate | str, receive: Callable[[Delivery], object]
    ) -> None:
        self._client = client
        self.app, self.node = client.app, client.node
        self._receive = receive
        self._error: BaseException | None = None
        try:
            client.subscribe(predicate)
            self._ended = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except BaseException:
            client.close()
            raise
        self._thread = threading.Thread(target=self._run, name=f"listener {client.app}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.close()
        except BaseException:
            # The error of the block says more.
            if error is None:
                raise

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the listener has ended by itself; returns False after `timeout` seconds.

        Args:
            timeout: None waits for ever.
        """
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Ends the listener, after the function has returned; not to be called by the function.

        Raises:
            ClientError: the router had closed the connection.
            BaseException: the function had raised it.
        """
        if self._ended >= 0:
            os.eventfd_write(self._ended, 1)
            self._thread.join()
            os.close(self._ended)
            self._ended = -1
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            poller = select.poll()
            poller.register(self._ended, select.POLLIN)
            while True:
                for delivery in self._client.read_events():
                    self._receive(delivery)
                wanted = select.POLLIN | (select.POLLOUT if self._client.wants_write else 0)
                poller.register(self._client, wanted)
                ready = dict(poller.poll())
                if self._ended in ready:
                    return
                if ready[self._client.fileno()] & select.POLLOUT:
                    self._client.flush()
        except BaseException as error:
            self._error = error
        finally:
            self._client.close()
