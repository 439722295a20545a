"""The functions that are fuzzed: they take any bytes, and raise nothing but the errors of wrong input.

Each target imports its modules when it is made, so that an engine can instrument them before.
"""

from __future__ import annotations

import atexit
import json
import shutil
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

#: Takes one input.
Run = Callable[[bytes], object]
#: Bytes of an input that are used.
LONGEST = 4_096


@dataclass(frozen=True)
class Target:
    """Something that is fuzzed.

    Attributes:
        make: returns the function that takes inputs.
        packages: are instrumented for coverage. Compiled code cannot be.
        doc: a few words.
    """

    make: Callable[[], Run]
    packages: tuple[str, ...]
    doc: str


def decoder() -> Run:
    """Decodes frames: what decodes is encoded to a frame that is equal."""
    from router.wire import codec

    def run(data: bytes) -> None:
        with suppress(codec.DecodeError):
            frame = codec.decode(data)
            again = codec.decode(codec.encode(frame))
            assert again == frame, f"{frame} is encoded as {again}"

    return run


def intake() -> Run:
    """Takes a sequence of Ethernet frames: fragments, tags cut short, padding."""
    from router.wire.addresses import ETHERTYPE, node_address
    from router.wire.codec import forwarded_frame
    from router.wire.intake import FrameIntake

    def run(data: bytes) -> None:
        taken = FrameIntake(forwarded_frame)
        source = _Source(data)
        while source.left:
            head = b"\x03\0\0\0\0\x01" + node_address(source.number(3)) + ETHERTYPE.to_bytes(2, "big")
            taken.take(head + source.take(source.number(256)), source.number(256) / 100)
        reassembler = taken.reassembler
        reassembler.expire(1e9)
        assert not len(reassembler)

    return run


def core() -> Run:
    """Frames of neighbours and requests of applications, in any order, at any time, in several schemes."""
    from router.predicates.model import EVERYTHING, NOTHING, Message
    from router.protocol.events import (
        ApplicationGone,
        ControllerFrame,
        Event,
        FrameReceived,
        RequestUpdate,
        Send,
        SendMessage,
        SetPredicate,
        Settle,
        Tick,
    )
    from router.protocol.options import RouterOptions
    from router.wire.codec import encode_body, forwarded_frame
    from router.wire.frames import Commit, Flags, Frame, FrameType
    from router.wire.header import DecodeError, Header
    from tests.support.one_router import BELOW, CONTROL, NEXT_TABLE, NODE, TABLE, control, set_up
    from tests.support.tree_entries import with_subtrees

    table = with_subtrees(TABLE, BELOW)
    variants = (
        RouterOptions(),
        RouterOptions(reliable_control=True),
        RouterOptions(scheme="pif-classes", sr_policy="periodic", sr_period_s=1.0),
        RouterOptions(sr_policy="count", sr_threshold=1, max_filters=2),
        RouterOptions(scheme="pif-strict", ra_min_interval_s=0.5, ra_period_s=2.0),
        RouterOptions(scheme="psf"),
        RouterOptions(scheme="drp", reliable_control=True),
        RouterOptions(service="attention"),
    )
    types = tuple(FrameType)
    nodes = (NODE, 11, 12, 13, 21, 22, 0, 2**32 - 1)

    def frame(source: _Source) -> Frame | None:
        kind, issuer = types[source.number(len(types))], nodes[source.number(len(nodes))]
        flags, hops, epoch = Flags(source.number(32) & ~Flags.SIGNED), source.number(4), source.number(4)
        seq = CONTROL | source.number(8) if kind in (FrameType.TABLE, FrameType.COMMIT) else source.number(8)
        body = source.take(source.number(256))
        header = Header(kind, flags, hops, issuer, seq, epoch, len(body), 0, 1, len(body))
        try:
            return forwarded_frame(header, body)
        except DecodeError:
            return None

    def run(data: bytes) -> None:
        source = _Source(data)
        router = set_up(variants[source.number(len(variants))], table)
        now = 0.0
        while source.left:
            event: Event = Tick()
            what = source.number(16)
            if what < 8:
                received = frame(source)
                if received is None:
                    continue
                event = FrameReceived(nodes[what], received)
            elif what == 8:
                control(router, FrameType.TABLE, 2, NEXT_TABLE, now)
                event = ControllerFrame(Frame(FrameType.COMMIT, NODE, CONTROL | 2, 2, 1, Commit(1)))
            elif what == 9:
                received = frame(source)
                if received is None:
                    continue
                event = ControllerFrame(received)
            elif what == 10:
                event = SetPredicate(source.number(3), EVERYTHING if source.number(2) else NOTHING)
            elif what == 11:
                event = SendMessage(1, Message({"a": source.number(4)}))
            elif what == 12:
                event = ApplicationGone(source.number(3))
            elif what == 13:
                event = RequestUpdate() if source.number(8) else Settle()
            else:
                now += source.number(256) / 16
            for action in router.handle(event, now):
                if isinstance(action, Send):
                    assert action.interfaces
                    assert action.interfaces <= {1, 2, 3}
                    encode_body(action.frame)
        tuple(router.rows())
        due = router.next_deadline()
        assert due is None or due == due

    return run


def algebra() -> Run:
    """Unions, covering and canonical forms, held against the meaning of predicates on many messages."""
    from router.predicates.covering.algebra import covers, disjoin, simplify
    from router.predicates.model import (
        STRING_ONLY,
        Constraint,
        Filter,
        Message,
        Operator,
        Predicate,
        Type,
        Value,
    )
    from router.predicates.semantics import matches

    strings = ("", "a", "b", "ab", "ba", "aab", "abab")
    values: dict[Type, tuple[Value, ...]] = {
        Type.INTEGER: (-(2**63), -1, 0, 1, 2, 2**53, 2**63 - 1),
        Type.DOUBLE: (-0.0, 0.5, 1.0, 1e308, -1e308, 5e-324, 2.0**53),
        Type.BOOLEAN: (False, True, False, True, False, True, False),
        Type.STRING: strings,
    }
    operators = tuple(Operator)
    probes = [
        Message({name: value for name, value in zip("xy", pair, strict=True) if value is not None})
        for pair in product((None, 1, 2**53, 0.5, True, "", "ab", "abab"), repeat=2)
    ]

    def constraint(source: _Source) -> Constraint:
        name, type_ = "xy"[source.number(2)], tuple(Type)[source.number(len(Type))]
        operator = operators[source.number(len(operators))]
        if operator in STRING_ONLY:
            type_ = Type.STRING
        value = None if operator is Operator.ANY else values[type_][source.number(7)]
        return Constraint(name, type_, operator, value)

    def predicate(source: _Source) -> Predicate:
        return Predicate(
            tuple(
                Filter(tuple(constraint(source) for _ in range(source.number(4))))
                for _ in range(source.number(5))
            )
        )

    def run(data: bytes) -> None:
        source = _Source(data)
        while source.left:
            p, q = predicate(source), predicate(source)
            union, simple, covered = disjoin(p, q), simplify(p), covers(p, q)
            for message in probes:
                in_p, in_q = matches(p, message), matches(q, message)
                assert matches(union, message) == (in_p or in_q), (p, q, message)
                assert matches(simple, message) == in_p, (p, message)
                assert in_p or not in_q or not covered, (p, q, message)
            assert simplify(simple) == simple, p

    return run


def parsers() -> Run:
    """Predicates, messages, the notation of `cbcb match`, and scripts of cbcbsim."""
    from router.predicates.lexer import ParseError
    from router.predicates.parser import parse_message, parse_predicate
    from router.predicates.printer import format_message, format_predicate
    from testbed.cbcbsim.script import read_script
    from testbed.siena_ff.notation import literal

    def run(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        with suppress(ParseError):
            predicate = parse_predicate(text)
            assert parse_predicate(format_predicate(predicate)) == predicate
        with suppress(ParseError):
            message = parse_message(text)
            assert parse_message(format_message(message)) == message
        with suppress(ParseError):
            read_script("fuzzed", text)
        with suppress(ValueError):
            literal(text)

    return run


def topologies() -> Run:
    """Topology files: BRITE, GraphML, TOML, JSON; what loads is written and loads again."""
    from topos.loaders import from_json, load, to_json
    from topos.model import TopologyError

    suffixes = (".brite", ".graphml", ".toml", ".json")
    folder = _folder()

    def run(data: bytes) -> None:
        source = _Source(data)
        path = folder / f"fuzzed{suffixes[source.number(len(suffixes))]}"
        path.write_bytes(source.rest())
        with suppress(TopologyError):
            topology = load(path, keep_properties=True)
            again = from_json(to_json(topology))
            assert (again.nodes, again.links) == (topology.nodes, topology.links)

    return run


def workloads() -> Run:
    """Traces of requests: CSV and JSON lines."""
    from testbed.config.load import load_experiment
    from testbed.errors import InputError
    from testbed.workload.given import read_trace

    folder = _folder()
    path = folder / "experiment.toml"
    path.write_text('duration_s = 60\n[topology]\ngenerator = "ring"\nnodes = 4\n[workload]\n')
    experiment = load_experiment(path)

    def run(data: bytes) -> None:
        source = _Source(data)
        trace = folder / f"fuzzed{('.csv', '.jsonl')[source.number(2)]}"
        trace.write_bytes(source.rest())
        with suppress(InputError):
            read_trace(trace, experiment)

    return run


def experiments() -> Run:
    """Experiment files; a network of its own, since generators take as long as the network is large."""
    from testbed.config.load import load_experiment
    from testbed.errors import InputError
    from topos.generators import ring

    topology = ring(5)
    path = _folder() / "fuzzed.toml"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(InputError):
            load_experiment(path, topology=topology)

    return run


def sockets() -> Run:
    """Lines of an application: cut anywhere, any JSON, requests of both services; answers are JSON."""
    from router.protocol.options import RouterOptions
    from router.protocol.service import RequestError
    from router.runtime.lines import LineSocket, LineTooLongError
    from tests.support.one_router import set_up

    ours, theirs = socket.socketpair()
    ours.close()

    def run(data: bytes) -> None:
        source = _Source(data)
        router = set_up(RouterOptions(service=("exhaustive", "attention")[source.number(2)]))
        commands = router.session(1).commands()
        lines = LineSocket(theirs, 1 + source.number(256))
        received: list[bytes | LineTooLongError] = []
        while source.left:
            received += lines.feed(source.take(1 + source.number(64)))
        for line in received:
            if isinstance(line, LineTooLongError):
                continue
            try:
                request = json.loads(line)
            except (ValueError, RecursionError):
                continue
            operation = request.get("op") if isinstance(request, dict) else None
            if not isinstance(operation, str) or operation not in commands:
                continue
            with suppress(RequestError, ValueError):
                served = commands[operation](request, lambda event: router.handle(event, 0.0))
                if isinstance(served, tuple):
                    json.dumps(served[0])

    return run


def pcap() -> Run:
    """Capture files of any origin, read to their end."""
    from captures.pcap.formats import PcapError
    from captures.pcap.reader import PcapReader

    path = _folder() / "fuzzed.pcap"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(PcapError):
            for _ in PcapReader(path).records():
                pass

    return run


def recordings() -> Run:
    """Recordings of routers: read, described and replayed."""
    from router.recording.file import Recording, RecordingError
    from router.recording.replay import describe

    path = _folder() / "fuzzed.rec"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(RecordingError):
            for _ in describe(Recording(path)):
                pass

    return run


#: By name.
TARGETS = {
    make.__name__: Target(make, packages, (make.__doc__ or "").splitlines()[0])
    for make, packages in (
        (decoder, ("router",)),
        (intake, ("router",)),
        (core, ("router",)),
        (algebra, ("router",)),
        (parsers, ("router", "testbed")),
        (topologies, ("topos",)),
        (workloads, ("testbed", "router")),
        (experiments, ("testbed", "router", "topos")),
        (sockets, ("router",)),
        (pcap, ("captures",)),
        (recordings, ("router",)),
    )
}


class _Source:
    """Choices and bytes from an input; 0 and nothing behind its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data[:LONGEST]
        self._at = 0

    @property
    def left(self) -> int:
        return max(0, len(self._data) - self._at)

    def number(self, below: int) -> int:
        byte = self._data[self._at] if self.left else 0
        self._at += 1
        return byte % below

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def rest(self) -> bytes:
        return self.take(self.left)


def _folder() -> Path:
    """A folder of files for one process, which ends with it."""
    folder = Path(tempfile.mkdtemp(prefix="cbcb-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
