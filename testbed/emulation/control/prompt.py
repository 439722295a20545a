"""The prompt of `cbcb cli`: commands that users of Mininet know, on a running emulation."""

from __future__ import annotations

import cmd
import os
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Self

from captures.rundir import RunLayout
from router.predicates import Message
from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_message
from router.runtime.client import Client
from router.system import enter_network_namespace
from testbed.emulation.control.running import Running
from testbed.support.errors import InputError, exit_status, reading
from testbed.support.names import host_name
from testbed.terminal import put
from testbed.terminal.numbers import message

#: Name of the prompt's applications.
_APP = "cli"


_Command = Callable[["Prompt", list[str]], None]


def _operands(least: int, most: int | None = None) -> Callable[[_Command], Callable[[Prompt, str], None]]:
    """Makes a command of `cmd.Cmd` from a function of the split line, whose docstring is the command's help.

    Raises InputError: the line has fewer or more operands.
    """

    def decorate(function: _Command) -> Callable[[Prompt, str], None]:
        @wraps(function)
        def command(self: Prompt, line: str) -> None:
            try:
                operands = shlex.split(line)
            except ValueError as error:
                raise InputError(f"{line}: {error}") from error
            if len(operands) < least or (most is not None and len(operands) > most):
                usage = (function.__doc__ or "").splitlines()[0]
                raise InputError(f"expected {usage.partition(':')[0]}")
            function(self, operands)

        return command

    return decorate


class Prompt(cmd.Cmd):
    """The prompt.

    Use it as a context manager: leaving it ends its subscriptions.

    Args:
        interactive: show a prompt, and go on after an error; otherwise show each line before it is carried
            out, and end at the first error.
    """

    intro = None

    def __init__(self, running: Running, *, interactive: bool) -> None:
        super().__init__()
        self.prompt = "cbcb> " if interactive else ""
        self.use_rawinput = interactive
        self.status = 0
        self._running = running
        self._interactive = interactive
        self._clients: dict[int, Client] = {}
        #: Messages shown since the last `wait`.
        self._unawaited = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    # `cmd.Cmd` calls these around each line.

    def precmd(self, line: str) -> str:
        if not self._interactive and line != "EOF":
            put(f"cbcb> {line}", flush=True)
        return line

    def onecmd(self, line: str) -> bool:
        try:
            end = bool(super().onecmd(line))
            # A script shows deliveries where it waits for them, not wherever they happen to arrive.
            if self._interactive:
                self._unawaited += self._show_deliveries(0)
        except KeyboardInterrupt:
            put()
            self.status = 0 if self._interactive else 130
            end = not self._interactive
        except Exception as error:
            if (status := exit_status(error)) is None:
                raise
            put(f"cbcb: {error}", file=sys.stderr)
            self.status = 0 if self._interactive else status
            end = not self._interactive
        return end

    def emptyline(self) -> bool:
        return False  # the base class would repeat the last command

    def default(self, line: str) -> None:
        """Runs a program on a node: `r3 ip address`."""
        name, _, program = line.partition(" ")
        if not program:
            raise InputError(f"{name}: expected a command (help lists them), or NODE PROGRAM [ARGUMENTS]")
        self._run_on(self._running.node(name), program)

    def _run_on(self, node: int, program: str) -> None:
        namespace = self._running.namespace(node, f"exec {node} -- {program}")
        shell = os.environ.get("SHELL") or "/bin/sh"
        try:
            ended = subprocess.run(
                [shell, "-c", program],
                env=self._running.environment(node),
                preexec_fn=lambda: enter_network_namespace(namespace),
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise InputError(f"{program}: cannot be started by {shell} on r{node}: {error}") from error
        if ended.returncode:
            raise InputError(f"{program}: exit status {ended.returncode}")

    @_operands(0, 0)
    def do_nodes(self, _operands: list[str]) -> None:
        """nodes: lists the nodes, with their names and neighbours."""
        topology = self._running.topology
        for node in topology.nodes:
            near = " ".join(host_name(other) for other in sorted(topology.neighbours(node.id).values()))
            put(f"{host_name(node.id)}{f' {node.name}' if node.name else ''}: {near}")

    @_operands(0, 0)
    def do_links(self, _operands: list[str]) -> None:
        """links: lists the links, with cost and interfaces."""
        for link in self._running.topology.links:
            ends = f"{host_name(link.u)}-{host_name(link.v)}"
            put(f"{ends} cost {link.cost}, interfaces {link.u_port} and {link.v_port}")

    @_operands(1, 1)
    def do_tables(self, operands: list[str]) -> None:
        """tables NODE: shows the predicates of a router, for its applications and by interface."""
        with self._running.client(self._running.node(operands[0])) as client:
            rows = client.status()["table"]
        for row in rows:
            scope = f" {row['scope']}" if row["scope"] else ""
            put(f"interface {row['interface']}{scope}: {row['predicate']}")

    def do_pub(self, line: str) -> None:
        """pub NODE MESSAGE: sends a message, such as: pub 0 dest = "ORD", price = 300."""
        node, text = _node_and_text(line, "pub NODE MESSAGE")
        with reading():
            put(message(*self._client(node).send_message(parse_message(text))))

    def do_sub(self, line: str) -> None:
        """sub NODE PREDICATE: subscribes, such as: sub 3 price < 400; prints the subscription's number."""
        node, text = _node_and_text(line, "sub NODE PREDICATE")
        with reading():
            put(self._client(node).subscribe(parse_predicate(text)))

    @_operands(1, 2)
    def do_unsub(self, operands: list[str]) -> None:
        """unsub NODE [SUBSCRIPTION]: ends a subscription of the prompt at a node, or all of them."""
        client = self._client(operands[0])
        if len(operands) == 2 and not operands[1].isdecimal():
            raise InputError(f"{operands[1]}: expected the number that sub printed")
        for number in client.subscriptions() if len(operands) == 1 else (int(operands[1]),):
            client.unsubscribe(number)

    @_operands(0, 2)
    def do_wait(self, operands: list[str]) -> None:
        """wait [MESSAGES [SECONDS]]: waits for messages of the prompt's subscriptions (1), at most 10 s.

        Messages that a terminal showed since the last `wait` count.
        """
        try:
            count = int(operands[0]) if operands else 1
            timeout_s = float(operands[1]) if len(operands) > 1 else 10.0
        except ValueError as error:
            raise InputError("expected wait [MESSAGES [SECONDS]], two numbers") from error
        known = self._unawaited
        self._unawaited = max(0, known - count)
        shown = known + self._show_deliveries(timeout_s, count - known)
        if shown < count:
            raise InputError(f"{shown} of {count} messages in {timeout_s:g} s")

    @_operands(0, 0)
    def do_settle(self, _operands: list[str]) -> None:
        """settle: waits until routers have the trees of the network, and all predicates have spread."""
        self._running.settle()

    @_operands(0, 1)
    def do_trace(self, operands: list[str]) -> None:
        """trace [SOURCE:NUMBER]: follows a message so far, such as 3:1; without one, lists the messages."""
        # DuckDB and pyarrow take a third of a second to load.
        from testbed.results.trace.live import live_listing, live_trace

        run = RunLayout(Path(self._running.state.run_dir))
        found = live_trace(run, self._running.tables, operands[0]) if operands else live_listing(run)
        with reading():
            for line in found:
                put(line)

    @_operands(3)
    def do_link(self, operands: list[str]) -> None:
        """link U V up|down|set [loss=1] [bandwidth=5] [delay=2]: takes a link up or down, or shapes it."""
        u, v, state, *settings = operands
        self._running.change_link(u, v, state, settings)

    @_operands(2, 2)
    def do_node(self, operands: list[str]) -> None:
        """node NODE up|down: cuts a node off, or joins it to the network."""
        self._running.set_node(self._running.node(operands[0]), operands[1])

    def do_help(self, arg: str) -> None:
        """help [COMMAND]: shows the commands, or a command."""
        if arg:
            super().do_help(arg)
            return
        put("NODE PROGRAM [ARGUMENTS]: runs a program on a node, such as: r3 ip address")
        commands = [getattr(self, name).__doc__ for name in self.get_names() if name.startswith("do_")]
        put("\n".join(sorted({text.splitlines()[0] for text in commands})))

    def do_exit(self, _line: str) -> bool:
        """exit: ends the prompt; the network stays."""
        return True

    do_quit = do_exit

    def do_EOF(self, _line: str) -> bool:  # noqa: N802 - the name of the end of the input in `cmd.Cmd`
        """Ctrl-D: ends the prompt; the network stays."""
        if self._interactive:
            put()
        return True

    def _client(self, name: str) -> Client:
        node = self._running.node(name)
        if node not in self._clients:
            key = self._running.keys()
            self._clients[node] = self._running.client(node, f"{_APP}-{os.getpid()}", key)
        return self._clients[node]

    def _show_deliveries(self, timeout_s: float, count: int = 0) -> int:
        """Prints the deliveries that have arrived, and waits for at least `count`; returns their number."""
        deadline = time.monotonic() + timeout_s
        shown = 0
        while True:
            for client in self._clients.values():
                for delivery in client.read_events():
                    name = message(delivery.source, delivery.seq)
                    text = format_message(Message(delivery.attributes))
                    put(f"{host_name(client.node)} got {name} {text}", flush=True)
                    shown += 1
            left = deadline - time.monotonic()
            if shown >= count or left <= 0:
                return shown
            select.select(list(self._clients.values()), (), (), left)


def _node_and_text(line: str, usage: str) -> tuple[str, str]:
    """Splits a line into the name of a node and the text behind it, which may be in single quotes."""
    node, _, text = line.strip().partition(" ")
    text = text.strip()
    if not text:
        raise InputError(f"expected {usage}")
    if len(text) > 1 and text[0] == text[-1] == "'":
        text = text[1:-1]
    return node, text
