"""A router as a process: its specification, its start and its end."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from router.clock import ClockPage
from router.clock.clock import ExperimentClock, SharedClock
from router.clock.meter import Meter
from router.matching.engines import COMPILED, DEFAULT, ENGINES
from router.protocol.options import RouterOptions
from router.recording.file import Origin, Recorder
from router.records.applications import ApplicationRecords, ConnectionRecords
from router.records.attention import ServiceRecords
from router.records.json_file import write_json
from router.runtime.lines import Log
from router.runtime.loop import RECORDING_FAILED, RouterLoop
from router.runtime.packet_socket import PacketSockets
from router.system import die_with, enter_network_namespace, returning_to_its_namespace
from router.wire.header import node_address

if TYPE_CHECKING:
    from router.security.guard import Guard

#: Event in a router's log: the records of its applications cannot be written (`error`).
RECORDS_FAILED = "records_failed"
#: Event in a router's log: it does not know which frames an earlier start has taken (`file`).
WINDOWS_LOST = "windows_lost"
#: Routers that are made before the first of them is forked; each has some ten descriptors.
_BATCH = 50


@dataclass(frozen=True, slots=True)
class RouterSpec:
    """The specification of a router process.

    Attributes:
        node: identifier of the router's node.
        device: the device towards its switch, inside the namespace.
        namespace: the router's network namespace: a path, or the id of a process in it (None: that of the
            parent).
        socket_path: where applications connect.
        counters_path: file of its counters, written when the router ends (one JSON object).
        log_path: file of its log (JSON lines) and of its standard error.
        options: see `router.protocol.options`.
        seed: seed of its jitter, together with `node`.
        matcher: name of the matching engine in `router.matching.engines`.
        incarnation: 32 bits, greater than at any earlier start of this node.
        recording_path: file of its recording (None: no recording).
        clock_path: the page of the experiment clock (None: the experiment passes in wall seconds).
        slot: the router's slot of that page.
        records_path: file to which the records of its applications are appended.
        service_records_path: file to which the records of its service are appended (None: it keeps none).
        security: mode of authentication: "off", "mac" or "signed".
        network_keys_path: file of the network keys (None: the mode needs none).
        windows_path: file of its replay windows, which a restart finds again (None: in memory alone).
        signing_keys_path: folder of the signing keys (None: issuers do not sign).

    Raises:
        ValueError: `matcher` is not the name of a matching engine.
    """

    node: int
    device: str
    namespace: str | int | None
    socket_path: str
    counters_path: str
    log_path: str
    options: RouterOptions = field(default_factory=RouterOptions)
    seed: int = 0
    matcher: str = DEFAULT
    incarnation: int = field(default_factory=lambda: int(time.time()) & 0xFFFF_FFFF)
    recording_path: str | None = None
    clock_path: str | None = None
    slot: int = 0
    records_path: str = os.devnull
    service_records_path: str | None = None
    security: str = "off"
    network_keys_path: str | None = None
    windows_path: str | None = None
    signing_keys_path: str | None = None

    def __post_init__(self) -> None:
        if self.matcher not in ENGINES:
            raise ValueError(f"matcher: {self.matcher!r}; expected one of {', '.join(ENGINES)}")


def load_engines(specs: Sequence[RouterSpec]) -> None:
    """Loads the compiled code that the routers use, once for all of them."""
    if any(spec.security != "off" for spec in specs):
        import router.security.guard  # noqa: F401 - it comes with cryptography
    if any(spec.matcher == COMPILED and spec.options.privacy == "off" for spec in specs):
        warm()


def warm() -> None:
    """Loads the machine code of matching and forwarding, or compiles it (within two minutes), and tests it.

    Raises:
        RuntimeError: the machine code gives a wrong answer.
    """
    # The modules come with Numba.
    from router.forwarding.plane import warm as warm_forwarding
    from router.matching.compiled.engine import warm as warm_matching

    warm_matching()
    warm_forwarding()


class _Prepared:
    """A router that its parent has made, for a child that is forked afterwards.

    A child that made it would write to most of the pages that it shares with the parent, and so copy them:
    1,700 pages in place of 860, which takes longer than the work itself.

    Attributes:
        spec: of the router.
        log_file: its log; None: it could not be opened.
        loop: the router; None: it could not be made.
        error: why not; None: it was made.
        descriptors: those that were opened for it.
    """

    def __init__(self, spec: RouterSpec) -> None:
        self.spec = spec
        self.log_file: TextIO | None = None
        self.loop: RouterLoop | None = None
        self.error: BaseException | None = None
        self.descriptors: set[int] = set()
        self._recorder: Recorder | None = None
        try:
            self.log_file = Path(spec.log_path).open("a", buffering=1)  # noqa: SIM115 - the child's
            log = Log(self.log_file, spec.node)
            if spec.namespace is not None:
                enter_network_namespace(spec.namespace)
            self.loop = self._make(log)
        except Exception as error:
            self.error = error

    def _make(self, log: Log) -> RouterLoop:
        spec = self.spec
        sockets = PacketSockets(spec.device)
        clock, meter = ExperimentClock(), Meter()
        if spec.clock_path is not None:
            page = _clock_page(spec.clock_path)
            clock, meter = SharedClock(page), Meter(page.slot(spec.slot))
        public_keys = None
        if spec.signing_keys_path is not None:
            from router.security.signatures import read_public_keys  # it comes with cryptography

            public_keys = read_public_keys(Path(spec.signing_keys_path)).hex()
        guard = _guard(spec)
        floor = 0 if guard is None else guard.windows.floor
        origin = Origin(
            spec.node, spec.options, spec.matcher, spec.seed, spec.incarnation, public_keys, floor
        )
        if spec.recording_path is not None:
            try:
                self._recorder = Recorder(Path(spec.recording_path), origin, clock)
            except OSError as error:
                # On a full disk, for instance: the router runs without it.
                log.write_always(RECORDING_FAILED, {"error": str(error)})

        def failed(error: OSError) -> None:
            log.write_always(RECORDS_FAILED, {"error": str(error)})

        kept = ApplicationRecords if spec.options.privacy == "off" else ConnectionRecords
        records = kept(spec.records_path, failed)
        service_records = (
            None if spec.service_records_path is None else ServiceRecords(spec.service_records_path, failed)
        )
        if guard is not None and guard.windows.lost:
            log.write_always(WINDOWS_LOST, {"file": spec.windows_path})
        return RouterLoop(
            origin.router(),
            spec.matcher,
            sockets,
            Path(spec.socket_path),
            log.write,
            records,
            self._recorder,
            clock,
            meter,
            service_records,
            guard,
        )

    def leave(self) -> None:
        """Closes the parent's descriptors: the router is the child's."""
        if self._recorder is not None:
            self._recorder.leave()
        for descriptor in self.descriptors:
            with suppress(OSError):  # closed already
                os.close(descriptor)


#: Routers that were left to children. They are never freed: that would close their descriptors a second time,
#: whose numbers others have by then.
_left: list[_Prepared] = []


def spawn_routers(specs: Sequence[RouterSpec], ready_descriptor: int) -> dict[int, int]:
    """Makes one router for each spec, and forks the process in which it runs.

    The calling process must have one thread. It should have no other files open, and have called
    `load_engines`.

    Args:
        specs: the routers.
        ready_descriptor: where a child writes the line `{"event": "ready", ...}` once its sockets are open.

    Returns:
        Process id -> node.
    """
    # Memory that the collector never touches stays shared with the children. Free memory goes back to the
    # kernel: a child that used it would get copies of old pages, 4 MB more a router.
    gc.collect()
    gc.freeze()
    with suppress(AttributeError):  # a C library other than glibc
        ctypes.CDLL(None).malloc_trim(0)
    # Before the descriptors of each router are noted: routers share a page.
    for path in {spec.clock_path for spec in specs if spec.clock_path is not None}:
        with suppress(OSError, ValueError):  # a router finds the error
            _clock_page(path)
    children: dict[int, int] = {}
    for batch in _in_batches(specs):
        gc.freeze()
        # A child that gets SIGTERM before it has a handler must not lose the signal.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        with returning_to_its_namespace():
            for prepared in batch:
                children[_fork(prepared, ready_descriptor)] = prepared.spec.node
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return children


@cache
def _clock_page(path: str) -> ClockPage:
    """The page of a clock; a parent that starts routers again opens it once, since it never closes it."""
    return ClockPage.open(Path(path))


def _in_batches(specs: Sequence[RouterSpec]) -> Iterator[list[_Prepared]]:
    """Makes the routers, some at a time."""
    for first in range(0, len(specs), _BATCH):
        batch = []
        with returning_to_its_namespace():
            known = _open_descriptors()
            for spec in specs[first : first + _BATCH]:
                prepared = _Prepared(spec)
                prepared.descriptors = _open_descriptors() - known
                known |= prepared.descriptors
                batch.append(prepared)
        yield batch


def _open_descriptors() -> set[int]:
    """Returns the open descriptors of this process, without the descriptor that lists them."""
    listed = [int(each.name) for each in Path("/proc/self/fd").iterdir()]
    return set(filter(_is_open, listed))


def _is_open(descriptor: int) -> bool:
    try:
        os.get_inheritable(descriptor)
    except OSError:
        return False
    return True


def _fork(prepared: _Prepared, ready_descriptor: int) -> int:
    """Forks the process of a router, in the router's namespace; returns its process id."""
    parent = os.getpid()
    if prepared.error is None and prepared.spec.namespace is not None:
        try:
            enter_network_namespace(prepared.spec.namespace)
        except OSError as error:
            prepared.error = error
    child = os.fork()
    if child == 0:
        _child(prepared, parent, ready_descriptor)
    prepared.leave()
    _left.append(prepared)
    return child


def _child(prepared: _Prepared, parent: int, ready_descriptor: int) -> NoReturn:
    """Runs a router in a forked child; never returns to the parent's code."""
    status = 1
    try:
        # The terminal's Ctrl-C goes to the whole process group; the parent decides when routers stop.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        die_with(parent)
        _keep_only({ready_descriptor, *prepared.descriptors})
        if prepared.log_file is not None:
            os.dup2(prepared.log_file.fileno(), sys.stdout.fileno())
            os.dup2(prepared.log_file.fileno(), sys.stderr.fileno())
        if prepared.error is not None:
            raise prepared.error
        assert prepared.loop is not None
        # The collector looks at young objects alone: events and applications leave no cycles (tests hold it),
        # and a look at all objects of a full table takes 42 ms.
        gc.set_threshold(gc.get_threshold()[0], 1 << 30, 1 << 30)
        _run(prepared.spec, prepared.loop, ready_descriptor)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # Not sys.exit: a child must not run the parent's handlers, buffers and finally clauses.
        sys.stderr.flush()
        os._exit(status)


def _keep_only(descriptors: Iterable[int]) -> None:
    """Closes the inherited descriptors, except the standard streams and these."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    first = 3
    for descriptor in sorted(descriptors):
        os.closerange(first, descriptor)
        first = max(first, descriptor + 1)
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def _run(spec: RouterSpec, loop: RouterLoop, ready_descriptor: int) -> None:
    signal.signal(signal.SIGTERM, lambda *_: loop.stop())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    ready = {"event": "ready", "node": spec.node, "pid": os.getpid(), "matcher": spec.matcher}
    # A line shorter than PIPE_BUF is written whole, whoever else writes to the same pipe.
    os.write(ready_descriptor, json.dumps(ready).encode() + b"\n")
    os.close(ready_descriptor)
    try:
        loop.run()
    finally:
        write_json(Path(spec.counters_path), {**loop.counters(), **_cpu_seconds()}, durable=False)
        loop.close()


def _guard(spec: RouterSpec) -> Guard | None:
    """Raises KeyFileError, OSError, ValueError: the files of keys or windows cannot be used."""
    if spec.security == "off":
        return None
    from router.security.guard import make_guard  # it comes with cryptography

    windows = None if spec.windows_path is None else Path(spec.windows_path)
    signing_keys = None if spec.signing_keys_path is None else Path(spec.signing_keys_path)
    keys = Path(spec.network_keys_path or os.devnull)
    return make_guard(node_address(spec.node), keys, spec.incarnation, windows, signing_keys)


def _cpu_seconds() -> dict[str, float]:
    """Returns the CPU seconds of this process since it was forked."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_user_s": round(used.ru_utime, 6), "cpu_system_s": round(used.ru_stime, 6)}
