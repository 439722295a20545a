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
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from router.clock.clock import ExperimentClock, FixedClock, SharedClock
from router.clock.meter import Meter
from router.clock.page import ClockPage
from router.content.registry import OFF, content_of
from router.forwarding.factory import why_no_data_plane
from router.matching.factory import COMPILED, DEFAULT, FALLBACK, check_engine, serving, why_not_compiled
from router.namespaces import die_with, enter_network_namespace
from router.protocol.options import RouterOptions
from router.recording.file import Origin, Recorder
from router.records.applications import ApplicationRecords, ConnectionRecords
from router.records.attention import ServiceRecords
from router.records.json_file import write_json
from router.runtime.collector import bound_collections
from router.runtime.log import Log
from router.runtime.loop import RECORDING_FAILED, RouterLoop
from router.runtime.packet_socket import PacketSockets
from router.security.registry import OFF as SECURITY_OFF
from router.security.registry import SECURITY_MODES
from router.wire.addresses import node_address

if TYPE_CHECKING:
    from router.security.guard import Guard

#: Event in a router's log: the records of its applications cannot be written (`error`).
RECORDS_FAILED = "records_failed"
#: Event in a router's log: it does not know which frames an earlier start has taken (`file`).
WINDOWS_LOST = "windows_lost"


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
        matcher: name of the matching engine in `router.matching.factory`.
        incarnation: 32 bits, greater than at any earlier start of this node.
        recording_path: file of its recording (None: no recording).
        clock_path: the page of the experiment clock (None: the experiment passes in wall seconds).
        slot: the router's slot of that page.
        records_path: file to which the records of its applications are appended.
        service_records_path: file to which the records of its service are appended (None: it keeps none).
        security: name of the mode of authentication in `router.security.registry`.
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
    security: str = SECURITY_OFF
    network_keys_path: str | None = None
    windows_path: str | None = None
    signing_keys_path: str | None = None

    def __post_init__(self) -> None:
        try:
            check_engine(self.matcher)
        except ValueError as error:
            raise ValueError(f"matcher: {error}") from error

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def load_engines(specs: Sequence[RouterSpec]) -> None:
    """Loads the compiled code that the routers use, once for all of them.

    Reports a failure to load it on standard error.
    """
    for mode in {spec.security for spec in specs}:
        # The look-up loads the code of the mode.
        SECURITY_MODES[mode]
    private = [spec for spec in specs if spec.options.privacy != OFF]
    if private:
        # Making an engine loads its code.
        content_of(private[0].options.covering, private[0].options.privacy).matcher(private[0].matcher)
    if any(spec.matcher == COMPILED for spec in specs):
        if (reason := why_not_compiled()) is not None:
            print(f"matching engine {FALLBACK} in place of {COMPILED}: {reason}", file=sys.stderr)
        elif (reason := why_no_data_plane()) is not None:
            print(f"messages forwarded by the core, not by compiled code: {reason}", file=sys.stderr)


def spawn_routers(specs: Sequence[RouterSpec], ready_descriptor: int) -> dict[int, int]:
    """Forks one router for each spec.

    The calling process should have no other files open, and have called `load_engines`.

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
    parent = os.getpid()
    children: dict[int, int] = {}
    # A child that gets SIGTERM before it has a handler must not lose the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    for spec in specs:
        child = os.fork()
        if child == 0:
            _child(spec, parent, ready_descriptor)
        children[child] = spec.node
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return children


def _child(spec: RouterSpec, parent: int, ready_descriptor: int) -> NoReturn:
    """Runs a router in a forked child; never returns to the parent's code."""
    status = 1
    try:
        # The terminal's Ctrl-C goes to the whole process group; the parent decides when routers stop.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        die_with(parent)
        bound_collections()
        _keep_only(ready_descriptor)
        with Path(spec.log_path).open("a", buffering=1) as log_file:
            os.dup2(log_file.fileno(), sys.stdout.fileno())
            os.dup2(log_file.fileno(), sys.stderr.fileno())
            _run(spec, Log(log_file, spec.node), ready_descriptor)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # Not sys.exit: a child must not run the parent's handlers, buffers and finally clauses.
        sys.stderr.flush()
        os._exit(status)


def _keep_only(descriptor: int) -> None:
    """Closes the inherited descriptors, except the standard streams and `descriptor`."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    limit = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, limit)


def _run(spec: RouterSpec, log: Log, ready_descriptor: int) -> None:
    if spec.namespace is not None:
        enter_network_namespace(spec.namespace)
    sockets = PacketSockets(spec.device)
    clock, meter = _clock(spec)
    public_keys = None
    if spec.signing_keys_path is not None:
        from router.security.signing_keys import read_public_keys  # it comes with cryptography

        public_keys = read_public_keys(Path(spec.signing_keys_path)).hex()
    guard = _guard(spec)
    floor = 0 if guard is None else guard.floor
    origin = Origin(spec.node, spec.options, spec.matcher, spec.seed, spec.incarnation, public_keys, floor)
    recorder = (
        None if spec.recording_path is None else _recorder(Path(spec.recording_path), origin, log, clock)
    )

    def failed(error: OSError) -> None:
        log.write_always(RECORDS_FAILED, {"error": str(error)})

    kept = ApplicationRecords if spec.options.privacy == OFF else ConnectionRecords
    records = kept(spec.records_path, failed)
    service_records = (
        None if spec.service_records_path is None else ServiceRecords(spec.service_records_path, failed)
    )
    if guard is not None and guard.windows_lost:
        log.write_always(WINDOWS_LOST, {"file": spec.windows_path})
    loop = RouterLoop(
        origin.router(),
        spec.matcher,
        sockets,
        Path(spec.socket_path),
        log.write,
        records,
        recorder,
        clock,
        meter,
        service_records,
        guard,
    )
    signal.signal(signal.SIGTERM, lambda *_: loop.stop())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    ready = {
        "event": "ready",
        "node": spec.node,
        "pid": os.getpid(),
        "matcher": serving(spec.matcher),
    }
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
    windows = None if spec.windows_path is None else Path(spec.windows_path)
    signing_keys = None if spec.signing_keys_path is None else Path(spec.signing_keys_path)
    keys = Path(spec.network_keys_path or os.devnull)
    make = SECURITY_MODES[spec.security]
    return make(node_address(spec.node), keys, spec.incarnation, windows, signing_keys)


def _cpu_seconds() -> dict[str, float]:
    """Returns the CPU seconds of this process since it was forked."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_user_s": round(used.ru_utime, 6), "cpu_system_s": round(used.ru_stime, 6)}


def _clock(spec: RouterSpec) -> tuple[ExperimentClock, Meter]:
    """Returns the clock of the router, and the meter of its loop."""
    if spec.clock_path is None:
        return FixedClock(), Meter()
    page = ClockPage.open(Path(spec.clock_path))
    return SharedClock(page), Meter(page.slot(spec.slot))


def _recorder(path: Path, origin: Origin, log: Log, clock: ExperimentClock) -> Recorder | None:
    """Opens a recording. Returns None if it cannot, on a full disk for instance; the router runs without
    it."""
    try:
        return Recorder(path, origin, clock)
    except OSError as error:
        log.write_always(RECORDING_FAILED, {"error": str(error)})
        return None
