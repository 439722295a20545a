"""The OpenFlow framework of the controller: Ryu, or os-ken, OpenStack's fork of it, with the same names.

This is the only module that imports either of them, and the only place that knows of their threads: Ryu's are
green threads of eventlet, of which one runs at a time; os-ken's are native threads, which nothing can end. So
a thread here ends by itself, when it finds a sentinel in its queue or its socket closed, and whoever waits
for a result waits for a queue.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Handler = Callable[[Any, Any], None]

RYU, OS_KEN = "ryu", "os-ken"
#: Framework -> its package.
FRAMEWORKS = {RYU: "ryu", OS_KEN: "os_ken"}

#: How to install what is missing, or too old.
INSTALL_OS_KEN = "`./run.sh setup` installs it"


class Framework:
    """A framework that has been imported.

    Attributes:
        App: the base class of an application.
        AppManager: what starts applications.
        OFPHandler: the application with the handshake of OpenFlow.
        cfg: the framework's configuration.
        hub: its queues, and `spawn`, which starts a thread.
        handler: the phases of a connection.
        ofp_event: the events, one for each message of OpenFlow.
        connection: called with a socket and its address, it serves the connection of a switch.
        native: the threads are native: several run at once, and they outlive the main thread.
        turn: held while the state of an application is used: its handlers have a thread of their own.
        sockets: the module `socket`: a thread that waits for one of its sockets keeps no other from running.
    """

    def __init__(self, name: str) -> None:
        """Imports a framework.

        Raises:
            ModuleNotFoundError: the framework is not installed.
            RuntimeError: it has not the threads that this module counts on.
        """
        self.native = name == OS_KEN
        if self.native:
            os.environ["OSKEN_HUB_TYPE"] = "native"  # whatever the user has set
        else:
            _complete_eventlet()
        package = FRAMEWORKS[name]

        def module(path: str) -> Any:
            return import_module(f"{package}.{path}")

        manager = module("base.app_manager")
        self.App: Any = manager.OSKenApp if self.native else manager.RyuApp
        self.AppManager: Any = manager.AppManager
        self.cfg: Any = module("cfg")
        self.hub: Any = module("lib.hub")
        if self.native and self.hub.HUB_TYPE != "native":
            raise RuntimeError(f"os-ken runs on {self.hub.HUB_TYPE}: os-ken 4.2 or newer has native threads")
        self.handler: Any = module("controller.handler")
        self.ofp_event: Any = module("controller.ofp_event")
        self.OFPHandler: Any = module("controller.ofp_handler").OFPHandler
        self.connection: Callable[..., None] = module("controller.controller").datapath_connection_factory
        self.version: int = module("ofproto.ofproto_v1_3").OFP_VERSION
        self.turn: AbstractContextManager[object] = threading.RLock() if self.native else nullcontext()
        self.sockets: Any = socket if self.native else import_module("eventlet.green.socket")

    def handles(self, event: str, *phases: str) -> Callable[[Handler], Handler]:
        """Declares a method of an application as the handler of an event, in some phases of a connection."""
        of_phases = [getattr(self.handler, f"{phase}_DISPATCHER") for phase in phases]

        def declare(method: Handler) -> Handler:
            @wraps(method)
            def handler(app: Any, occurred: Any) -> None:
                with self.turn:
                    method(app, occurred)

            declared: Handler = self.handler.set_ev_cls(getattr(self.ofp_event, event), of_phases)(handler)
            return declared

        return declare

    def listen(self, path: Path, backlog: int) -> Any:
        server = self.sockets.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(str(path))
        server.listen(backlog)
        return server

    def compute(self, function: Callable[[], T]) -> T:
        """Returns what a function computes, within seconds; the threads of other switches run meanwhile."""
        if self.native:
            return function()
        import eventlet.tpool

        result: T = eventlet.tpool.execute(function)
        return result

    def start(self, function: Callable[[], None]) -> None:
        """Calls a function that starts threads, none of which the process waits for when it ends."""
        if not self.native:
            function()
            return
        outcome = Future[None]()

        def body() -> None:
            try:
                function()
                outcome.set_result(None)
            except BaseException as error:
                outcome.set_exception(error)

        # A thread is a daemon if the thread that starts it is; those of the framework have no such option.
        threading.Thread(target=body, daemon=True).start()
        outcome.result()


def _complete_eventlet() -> None:
    """Gives eventlet a name that Ryu 4.34 imports and later versions lack; its value was an object()."""
    import eventlet.tpool
    import eventlet.wsgi

    if not hasattr(eventlet.wsgi, "ALREADY_HANDLED"):
        eventlet.wsgi.ALREADY_HANDLED = object()
    eventlet.tpool.set_num_threads(1)


_loaded: Framework | None = None


def load(name: str) -> Framework:
    """Imports the framework of this process, and returns it."""
    global _loaded
    _loaded = Framework(name)
    return _loaded


def loaded() -> Framework:
    """Returns the framework of this process, Ryu unless `load` was called: handlers are declared by it."""
    return _loaded or load(RYU)
