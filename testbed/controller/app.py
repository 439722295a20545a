"""The application of Ryu or os-ken: OpenFlow 1.3 on one side, the machine of `distribution` on the other.

Handlers only translate messages to events and put them in a queue. One thread takes them out, drives the
state machine and performs its actions, so the state has one owner.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from captures.rundir.controller import (
    ControllerLog,
    Failed,
    FrameCounts,
    Listening,
    OpenflowError,
    UnknownSwitch,
)
from router.clock import ClockPage
from router.clock.clock import ExperimentClock, SharedClock
from router.clock.meter import NOTHING, Meter
from router.records.json_file import write_json
from router.wire.codec import DEFAULT_MTU, fragment, read_frame
from router.wire.format import DecodeReason
from router.wire.frames import BroadcastTable, Frame
from router.wire.header import CONTROLLER_HEADER, CONTROLLER_SOURCE, HOST_PORT, node_address
from router.wire.intake import FrameIntake
from testbed.controller import events
from testbed.controller.distribution import Distribution
from testbed.controller.framework import loaded
from testbed.controller.liveness import read_incarnations, read_legacy
from testbed.controller.rules import MISS_PRIORITY, Match, Rule, SentRules, ip_rules, pipeline
from testbed.controller.settings import Settings
from testbed.controller.trees import LAYERS, broadcast_tables, spt_trees

if TYPE_CHECKING:
    from router.security.guard import Guard

_FRAMEWORK = loaded()
_HUB = _FRAMEWORK.hub
_handles = _FRAMEWORK.handles
#: Connections that may wait to be accepted: all switches of a network connect at once.
_BACKLOG = 1024
#: Shortest time between echo requests to a switch, most requests a second to all switches on average, and
#: how many may go unanswered before a switch counts as gone: after some four intervals, 80 s with 1,000
#: switches. os-ken has three native threads for each switch: 200 requests a second, beside 1,000 routers on
#: 2 processors, were answered so late that switches counted as gone.
_ECHO_INTERVAL_S, _ECHOES_PER_S = 5.0, 50
_ECHO_LIMIT = 3


class _Handler(_FRAMEWORK.OFPHandler):  # type: ignore[name-defined]
    """The framework's OpenFlow handshake, on a Unix socket that only this process's user may connect to.

    The framework itself listens on TCP only, where the kernel does not identify the user that connects.
    """

    def __init__(self, *args: Any, settings: Settings, log: ControllerLog, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._path = settings.socket
        self._path.unlink(missing_ok=True)
        # The mask is set before the socket exists, so that it never has other permissions.
        mask = os.umask(0o177)
        try:
            self._server = _FRAMEWORK.listen(self._path, _BACKLOG)
        finally:
            os.umask(mask)
        self._log = log

    def start(self) -> Any:
        _FRAMEWORK.App.start(self)
        self._log.write("listening", Listening(socket=str(self._path)))
        return _HUB.spawn(self._accept)

    def _accept(self) -> None:
        while True:
            connection, _ = self._server.accept()
            _HUB.spawn(_FRAMEWORK.connection, _Connection(connection), str(self._path))


class _Connection:
    """The socket of a switch; the framework sets TCP_NODELAY, which a Unix socket refuses."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def setsockopt(self, *_option: object) -> None:
        """Accepts a socket option and ignores it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class _Switch:
    """A connected switch, with its own send queue, so that a switch that does not read delays no other
    switch.

    Attributes:
        up_ports: the ports that are up, while the state machine has not heard of the switch.
    """

    def __init__(self, datapath: Any) -> None:
        self.datapath = datapath
        self.up_ports: set[int] | None = None
        self.barrier: int | None = None
        self._outbox = _HUB.Queue()
        _HUB.spawn(self._write)

    def send(self, message: Any) -> None:
        self._outbox.put(message)

    def close(self) -> None:
        self._outbox.put(None)

    def _write(self) -> None:
        while (message := self._outbox.get()) is not None:
            self.datapath.send_msg(message)


class ControllerApp(_FRAMEWORK.App):  # type: ignore[name-defined]
    """Connects switches to the state machine.

    `done` is a queue for the exit status, or the error of a controller that fails; the first counts.
    """

    OFP_VERSIONS = (_FRAMEWORK.version,)

    def __init__(self, *args: Any, settings: Settings, log: ControllerLog, done: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.done = done
        self._log = log
        self._settings = settings
        self._layer = LAYERS[settings.layer]
        self._ip_rules = SentRules()
        legacy = None if settings.state is None else read_legacy(settings.state)
        if legacy is not None and settings.ip:
            # The rules for IP in the switches are not known: the next epoch sends them.
            legacy = replace(legacy, settled=False)
        self._inbox = _HUB.Queue()
        self._switches: dict[int, _Switch] = {}
        self._described: dict[Any, set[int]] = {}
        #: Switches without flows of another network, or of an earlier epoch of a controller before this one.
        self._cleared = set(legacy.members) if legacy is not None and legacy.settled else set[int]()
        #: Switches that should have the rules of the controller before, and have not connected to this one.
        self._inherited = set(self._cleared)
        self._guard: Guard | None = None
        verifier = None
        if settings.security != "off":
            from router.security.guard import make_guard  # it comes with cryptography

            self._guard = make_guard(
                CONTROLLER_SOURCE,
                settings.network_keys,
                settings.incarnation,
                settings.windows,
                settings.signing_keys,
            )
            self._guard.neighbours = lambda: range(len(settings.network.nodes))
            if settings.signing_keys is not None:
                from router.security.signatures import PublicKeys, read_public_keys  # with cryptography

                public_keys = read_public_keys(settings.signing_keys)
                verifier = PublicKeys(public_keys, self._guard.windows.floor)
        known = {} if settings.state is None else read_incarnations(settings.log)
        self._machine = Distribution(settings.network, legacy=legacy, verifier=verifier, incarnations=known)
        verify = None if self._guard is None else self._guard.open
        self._intake = FrameIntake(read_frame, verify=verify)
        self._sent: Counter[str] = Counter()
        self._clock: ExperimentClock = ExperimentClock()
        self._meter = Meter()
        if settings.clock is not None:
            page = ClockPage.open(settings.clock)
            self._clock, self._meter = SharedClock(page), Meter(page.slot(settings.slot))

    def start(self) -> None:
        super().start()
        self.threads.append(_HUB.spawn(self._run))

    def counters(self) -> FrameCounts:
        """Returns the numbers of Ethernet frames by type (each fragment counts) and of dropped frames by
        reason."""
        dropped = self._intake.dropped
        undecodable = {reason.value for reason in DecodeReason}
        rejected = Counter({reason: count for reason, count in dropped.items() if reason not in undecodable})
        refused = {} if self._guard is None else self._guard.refused_by_sender()
        for (node, reason), count in sorted(self._machine.refused.items()):
            rejected[reason] += count
            refused.setdefault(str(node), {})[reason] = count
        counts = FrameCounts(
            frames_sent=dict(self._sent),
            frames_received=dict(self._intake.frames),
            undecodable={reason: count for reason, count in dropped.items() if reason in undecodable},
            rejected=dict(rejected),
        )
        if refused:
            counts["refused"] = refused
        return counts

    # --- the state machine

    def _run(self) -> None:
        try:
            while True:
                event = self._next_event()
                began, began_cpu = time.monotonic(), time.thread_time()
                with _FRAMEWORK.turn:
                    for action in self._machine.handle(event, began):
                        self._perform(action)
                self._meter.ends_turn(began, began_cpu, NOTHING, self._clock)
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}", error)

    def _fail(self, text: str, error: Exception) -> None:
        # The log may be what cannot be written, or be closed at the end.
        with suppress(OSError, ValueError), _FRAMEWORK.turn:
            self._log.write("failed", Failed(error=text))
        self.done.put(error)

    def _next_event(self) -> events.Event:
        deadline = self._machine.next_deadline()
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            event: events.Event = self._inbox.get(timeout=timeout)
        except _HUB.QueueEmpty:
            return events.Tick()
        return event

    def _perform(self, action: events.Action) -> None:
        match action:
            case events.Log(event, fields):
                self._log.write(event, fields)
            case events.InstallPipeline(node):
                self._install_pipeline(node)
            case events.SendFrame(node, _):
                self._send_frame(node, action)
            case events.ComputeTables():
                _HUB.spawn(self._compute, action)
            case events.Bequeath(legacy):
                if self._settings.state is not None:
                    write_json(self._settings.state, legacy)

    def _compute(self, request: events.ComputeTables) -> None:
        def compute() -> tuple[dict[int, BroadcastTable], dict[int, dict[int, Rule]]]:
            network, down = self._settings.network, (request.down_links, request.down_nodes)
            tables = broadcast_tables(network, self._layer(network, *down), self._settings.subtrees)
            return tables, ip_rules(network, spt_trees(network, *down)) if self._settings.ip else {}

        try:
            tables, forwarding = _FRAMEWORK.compute(compute)
        except Exception as error:
            self._fail(f"computing trees: {type(error).__name__}: {error}", error)
            return
        for node, rules in forwarding.items():
            # A switch that is disconnected gets another epoch.
            with _FRAMEWORK.turn:
                if (switch := self._switches.get(node)) is not None:
                    for rule, delete in self._ip_rules.changes(request.epoch, node, rules):
                        switch.send(_flow_mod(switch.datapath, rule, delete=delete))
            # Hundreds of nodes have as many rules each, and switches need answers to their echoes meanwhile.
            _HUB.sleep(0)
        self._inbox.put(events.TablesComputed(request.epoch, tables))

    # --- to the switches

    def _install_pipeline(self, node: int) -> None:
        switch = self._switches.get(node)
        if switch is None:
            return  # disconnected; the event is in the queue
        datapath = switch.datapath
        # The switch may have restarted without its rules; the next epoch, which follows, sends those for IP.
        self._ip_rules.forget(node)
        if node not in self._cleared:
            # Deletes flows of an earlier controller. On a reconnection, this controller's flows are installed
            # and must keep working.
            self._cleared.add(node)
            switch.send(
                _flow_mod(datapath, Rule(datapath.ofproto.OFPTT_ALL, MISS_PRIORITY, Match()), delete=True)
            )
        for rule in pipeline(self._settings.network.neighbours(node).keys(), node_address(node)):
            switch.send(_flow_mod(datapath, rule))
        barrier = datapath.ofproto_parser.OFPBarrierRequest(datapath)
        switch.barrier = datapath.set_xid(barrier)
        switch.send(barrier)

    def _send_frame(self, node: int, action: events.SendFrame) -> None:
        switch = self._switches.get(node)
        if switch is None:
            return  # disconnected: the frame is retransmitted, or superseded by a new epoch
        datapath = switch.datapath
        ofproto, parser = datapath.ofproto, datapath.ofproto_parser
        for data in self._ethernet(node, action.frame):
            self._sent[action.frame.type.name] += 1
            switch.send(
                parser.OFPPacketOut(
                    datapath=datapath,
                    buffer_id=ofproto.OFP_NO_BUFFER,
                    in_port=ofproto.OFPP_CONTROLLER,
                    actions=[parser.OFPActionOutput(HOST_PORT)],
                    data=data,
                )
            )

    def _ethernet(self, node: int, frame: Frame) -> list[bytes]:
        guard = self._guard
        if guard is None:
            return [CONTROLLER_HEADER + payload for payload in fragment(frame)]
        return guard.frames(CONTROLLER_HEADER, guard.signed(frame), [node_address(node)], DEFAULT_MTU)

    # --- from the switches

    @_handles("EventOFPPortDescStatsReply", "CONFIG")
    def _ports_described(self, ev: Any) -> None:
        up = self._described.setdefault(ev.msg.datapath, set())
        up.update(port.port_no for port in ev.msg.body if _port_up(ev.msg.datapath, port))

    @_handles("EventOFPStateChange", "MAIN", "DEAD")
    def _state_changed(self, ev: Any) -> None:
        datapath = ev.datapath
        up_ports = frozenset(self._described.pop(datapath, ()))
        if ev.state == _FRAMEWORK.handler.MAIN_DISPATCHER:
            self._connected(datapath, up_ports)
        elif datapath.id is not None and self._switch_of(datapath) is not None:
            node = datapath.id - 1
            self._switches.pop(node).close()
            self._inbox.put(events.SwitchDisconnected(node))

    def _connected(self, datapath: Any, up_ports: frozenset[int]) -> None:
        node = datapath.id - 1
        if not 0 <= node < len(self._settings.network.nodes):
            self._log.write("unknown_switch", UnknownSwitch(dpid=datapath.id))
            datapath.close()
            return
        previous = self._switches.get(node)
        if previous is not None:  # reconnected before the old connection was found dead
            previous.close()
            previous.datapath.close()
        switch = self._switches[node] = _Switch(datapath)
        if node not in self._inherited:
            self._inbox.put(events.SwitchConnected(node, up_ports))
            return
        switch.up_ports = set(up_ports)
        ofproto, parser = datapath.ofproto, datapath.ofproto_parser
        request = parser.OFPAggregateStatsRequest(
            datapath, 0, ofproto.OFPTT_ALL, ofproto.OFPP_ANY, ofproto.OFPG_ANY, 0, 0, parser.OFPMatch()
        )
        switch.send(request)

    @_handles("EventOFPAggregateStatsReply", "MAIN")
    def _rules_counted(self, ev: Any) -> None:
        switch = self._switch_of(ev.msg.datapath)
        if switch is None or switch.up_ports is None:
            return
        node, up_ports, switch.up_ports = ev.msg.datapath.id - 1, frozenset(switch.up_ports), None
        self._inherited.discard(node)
        self._inbox.put(events.SwitchConnected(node, up_ports, emptied=ev.msg.body.flow_count == 0))

    @_handles("EventOFPBarrierReply", "MAIN")
    def _barrier_replied(self, ev: Any) -> None:
        switch = self._switch_of(ev.msg.datapath)
        if switch is not None and ev.msg.xid == switch.barrier:
            self._inbox.put(events.PipelineInstalled(ev.msg.datapath.id - 1))

    @_handles("EventOFPPortStatus", "MAIN")
    def _port_status(self, ev: Any) -> None:
        datapath, desc = ev.msg.datapath, ev.msg.desc
        switch = self._switch_of(datapath)
        if switch is not None:
            gone = ev.msg.reason == datapath.ofproto.OFPPR_DELETE
            up = not gone and _port_up(datapath, desc)
            if switch.up_ports is not None:
                (switch.up_ports.add if up else switch.up_ports.discard)(desc.port_no)
                return
            self._inbox.put(events.PortChanged(datapath.id - 1, desc.port_no, up))

    @_handles("EventOFPErrorMsg", "CONFIG", "MAIN")
    def _error(self, ev: Any) -> None:
        dpid = ev.msg.datapath.id
        self._log.write(
            "openflow_error",
            OpenflowError(node=None if dpid is None else dpid - 1, type=ev.msg.type, code=ev.msg.code),
        )

    @_handles("EventOFPPacketIn", "MAIN")
    def _packet_in(self, ev: Any) -> None:
        if self._switch_of(ev.msg.datapath) is None:
            return
        node = ev.msg.datapath.id - 1
        data = bytes(ev.msg.data)
        now = time.monotonic()
        self._intake.reassembler.expire(now)
        taken = self._intake.take(data, now, expected=node)
        if taken is not None:
            _, frame, _ = taken
            self._inbox.put(events.FrameReceived(node, frame))

    def _switch_of(self, datapath: Any) -> _Switch | None:
        """Returns the switch of a connection, or None if the connection is not, or no longer, in use."""
        switch = None if datapath.id is None else self._switches.get(datapath.id - 1)
        return switch if switch is not None and switch.datapath is datapath else None


def _port_up(datapath: Any, port: Any) -> bool:
    ofproto = datapath.ofproto
    return not (port.config & ofproto.OFPPC_PORT_DOWN or port.state & ofproto.OFPPS_LINK_DOWN)


def _flow_mod(datapath: Any, rule: Rule, *, delete: bool = False) -> Any:
    """Returns the OpenFlow message that adds a rule, or deletes all that its match selects."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    match = rule.match
    destination, source = match.eth_dst, match.eth_src
    fields = {
        "in_port": match.in_port,
        "eth_type": match.eth_type,
        "eth_dst": None if destination is None else (destination.hex(":"), match.eth_dst_mask.hex(":")),
        "vlan_vid": ofproto.OFPVID_NONE if match.untagged else None,
        "eth_src": None if source is None else source.hex(":"),
        "ipv4_dst": match.ipv4_dst,
    }
    actions: list[Any] = []
    if rule.hop is not None:
        actions += [
            parser.OFPActionSetField(eth_src=rule.hop[0].hex(":")),
            parser.OFPActionSetField(eth_dst=rule.hop[1].hex(":")),
            parser.OFPActionDecNwTtl(),
        ]
    actions += [parser.OFPActionOutput(port) for port in rule.outputs]
    if rule.to_controller:
        actions.append(parser.OFPActionOutput(ofproto.OFPP_CONTROLLER, ofproto.OFPCML_NO_BUFFER))
    instructions = []
    if actions:
        instructions.append(parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions))
    if rule.goto_table is not None:
        instructions.append(parser.OFPInstructionGotoTable(rule.goto_table))
    return parser.OFPFlowMod(
        datapath,
        command=ofproto.OFPFC_DELETE if delete else ofproto.OFPFC_ADD,
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
        table_id=rule.table,
        priority=rule.priority,
        match=parser.OFPMatch(**{name: value for name, value in fields.items() if value is not None}),
        instructions=instructions,
    )


def _signals() -> Any:
    """Returns a socket with a byte for each signal that the process gets; SIGTERM itself ends nothing."""
    receiver, sender = _FRAMEWORK.sockets.socketpair()
    sender.setblocking(False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(sender.detach(), warn_on_full_buffer=False)
    return receiver


def _end_on_sigterm(signals: Any, done: Any) -> None:
    while signal.SIGTERM not in signals.recv(64):
        pass
    done.put(0)


def run(settings: Settings) -> int:
    """Runs the controller until SIGTERM; returns its exit status.

    Writes its counters last.
    """
    conf = _FRAMEWORK.cfg.CONF
    conf(args=[], project="cbcb-testbed", default_config_files=[])  # no configuration files
    switches = len(settings.network.nodes)
    conf.set_override("echo_request_interval", max(_ECHO_INTERVAL_S, switches / _ECHOES_PER_S))
    conf.set_override("maximum_unreplied_echo_requests", _ECHO_LIMIT)
    # A table for 1,000 nodes has a million entries, none of them in a cycle: repeated collections would
    # double the time to make the table.
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
    log = ControllerLog(settings.log)
    manager = _FRAMEWORK.AppManager.get_instance()
    manager.applications_cls = {"ofp_event": _Handler, "controller": ControllerApp}
    done, signals = _HUB.Queue(), _signals()

    def start() -> None:
        manager.instantiate_apps(settings=settings, log=log, done=done)
        _HUB.spawn(_end_on_sigterm, signals, done)

    _FRAMEWORK.start(start)
    try:
        outcome: int | Exception = done.get()
    finally:
        # It is held to the end: no thread of a switch writes after the counters.
        _FRAMEWORK.turn.__enter__()
        log.write("counters", manager.applications[ControllerApp.__name__].counters())
        log.close()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
