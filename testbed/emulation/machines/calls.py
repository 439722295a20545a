"""Calls of methods in another process, over a Unix socket: of a site by the driver.

Arguments and results are pickled: nobody but the machines of a run may reach the socket.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from operator import attrgetter
from pathlib import Path
from typing import Any

from testbed.support.errors import RunError

#: Wall seconds after which a machine counts as frozen: no step of a run takes `_STEP_S` (one of 1,000 routers
#: may take 530), and a question takes no time. `_LOST_S`: between looks whether another thread found it lost.
_STEP_S, _QUESTION_S, _LOST_S = 900.0, 30.0, 1.0
_QUESTIONS = {"append", "check", "look", "lost", "quiet_s"}


def serve(path: Path, root: object) -> Listener:
    """Has threads carry out the calls that come by a socket, until the listener that it returns is closed.

    All calls of a thread of the caller are carried out by one thread, which lives as long: what it starts may
    end with it (PR_SET_PDEATHSIG).
    """
    listener = Listener(str(path), backlog=128)

    def accept() -> None:
        with suppress(OSError):  # closed
            while True:
                arguments = (listener.accept(), root)
                threading.Thread(target=_carry_out, args=arguments, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener


def _carry_out(connection: Connection, root: object) -> None:
    with connection, suppress(EOFError, OSError):  # the caller has gone
        while True:
            name, arguments, named = connection.recv()
            try:
                connection.send((attrgetter(name)(root)(*arguments, **named), None))
            except Exception as error:
                connection.send((None, error))


class Remote:
    """An object at the other end of a socket: `remote.network.stop()` calls what is there under that name.

    Raises what the call raises, with the name of the socket before a text, a RunError in place of an OSError,
    and RunError if nobody answers; then all calls fail, of other threads, too.
    """

    def __init__(self, path: Path, name: str = "", own: threading.local | None = None) -> None:
        self._path, self._name = path, name
        self._own = own or threading.local()

    def __getattr__(self, name: str) -> Remote:
        return Remote(self._path, f"{self._name}.{name}".lstrip("."), self._own)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        try:
            self._path.stat()  # the path is gone once a thread has found the machine lost
            if not hasattr(self._own, "connection"):
                self._own.connection = Client(str(self._path))
            self._own.connection.send((self._name, arguments, named))
            until = time.monotonic() + (_QUESTION_S if self._name.split(".")[-1] in _QUESTIONS else _STEP_S)
            while not self._own.connection.poll(_LOST_S):
                if time.monotonic() > until or not self._path.exists():
                    raise TimeoutError
            result, error = self._own.connection.recv()
        except (EOFError, OSError) as ended:
            self._path.unlink(missing_ok=True)
            self._own.__dict__.pop("connection", None)  # a late answer would be that of the next call
            raise RunError(f"{self._path.name} does not answer") from ended
        if error is not None:
            if isinstance(error, OSError):  # of the machine, and no fault of files or sockets here
                error = RunError(str(error))
            if len(error.args) == 1:
                error.args = (f"{self._path.name}: {error}",)
            raise error
        return result


class Each:
    """The same object on several machines: a call goes to all at once, and their results are joined."""

    def __init__(self, pool: ThreadPoolExecutor, remotes: Sequence[Remote]) -> None:
        self._pool, self._remotes = pool, remotes

    def __getattr__(self, name: str) -> Each:
        return Each(self._pool, [getattr(remote, name) for remote in self._remotes])

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        under_way = [self._pool.submit(remote, *arguments, **named) for remote in self._remotes]
        wait(under_way)  # nothing goes on where a call fails
        return _joined([each.result() for each in under_way])


def _joined(results: Sequence[Any]) -> Any:
    """Joins results: numbers are summed up, equal results count once, lists or mappings become one."""
    if not results:
        return None
    first = results[0]
    if isinstance(first, int | float):
        return sum(results)
    if all(each == first for each in results):
        return first
    if isinstance(first, list):
        return [value for each in results for value in each]
    return {key: value for each in results for key, value in each.items()}
