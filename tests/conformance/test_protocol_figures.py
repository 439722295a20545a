"""The worked examples of the protocol paper and the traps in its text, under its own rule and ours.

Each case is a folder: README.md (the picture), input.json (links, in order of index, options and steps) and
expected.json (`"paper"` and `"default"`: one record for each step). A case `scheme-*` has a column for each
scheme that its input.json names, and lists the rows of the tables with their scope and part.

A step does one thing; then the network settles, unless it says `"hold": true`. `settle` does just that.
`deliver` passes on the frames of one type that wait on a link [sender, receiver], `lose` loses them, `inject`
hands a router a frame that its neighbour never sent, `restart` restarts a router, `wait` lets seconds pass.
`links_down` starts an epoch and commits it everywhere; `tables` only hands out the TABLEs of a new epoch
without some links, and `commit` hands the COMMIT of an epoch to some nodes.

`python -m tests.conformance.test_protocol_figures FOLDER` prints what a case gives, for a new expected.json.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_predicate
from router.protocol.events import FrameReceived
from router.protocol.options import RouterOptions
from router.wire.frames import Body, Flags, Frame, FrameType, SenderRequest
from tests.support.protocol_network import Network, graph_of
from tests.support.router_tables import predicates_of

#: Column of expected.json -> the routing scheme that it is about, where that is not its name.
SCHEME_OF = {"paper": "pif-strict", "default": "pif"}
CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/input.json"))


def rules(given: dict[str, Any]) -> list[str]:
    """The columns of a case."""
    return list(given.get("schemes", SCHEME_OF))


def crossed(network: Network, kind: FrameType) -> list[str]:
    return sorted(
        f"{sender}-{receiver}"
        for (sender, receiver, carried), count in network.frames.items()
        if carried is kind
        for _ in range(count)
    )


def tables(network: Network) -> dict[str, dict[str, str]]:
    """Node -> neighbour (or "local") -> predicate."""
    found: dict[str, dict[str, str]] = {}
    for node, router in network.routers.items():
        names = {0: "local", **network.neighbours(node)}
        found[str(node)] = {
            str(names[interface]): format_predicate(predicate)
            for interface, predicate in predicates_of(router).items()
        }
    return found


def rows(network: Network) -> dict[str, list[str]]:
    """Node -> the rows of its table: neighbour (or "local", or "-"), scope, part, predicate."""
    found: dict[str, list[str]] = {}
    for node, router in network.routers.items():
        names = {0: "local"} | {
            interface: str(other) for interface, other in network.neighbours(node).items()
        }
        found[str(node)] = [
            " | ".join(
                (
                    "-" if row.interface is None else names[row.interface],
                    row.scope,
                    row.part,
                    format_predicate(row.predicate),
                )
            )
            for row in router.rows()
        ]
    return found


def play(given: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    options = RouterOptions(scheme=SCHEME_OF.get(rule, rule), **given.get("options", {}))
    network = Network(graph_of([(u, v, 1) for u, v in given["links"]]), options, 1)
    network.new_epoch()
    return [take(network, step) for step in given["steps"]]


def take(network: Network, step: dict[str, Any]) -> dict[str, Any]:
    """Takes one step; returns what it did."""
    network.frames.clear()
    dropped = network.dropped()
    sent = act(network, step)
    if not step.get("hold"):
        network.settle()
    if sent is not None:
        delivered = sorted(network.delivered[sent].elements())
        return {"messages": crossed(network, FrameType.MSG), "delivered": delivered}
    message = injected(step)
    record = {
        "advertisements": crossed(network, FrameType.RA),
        "requests": crossed(network, FrameType.SR),
        "replies": crossed(network, FrameType.UR),
        "dropped": dict(network.dropped() - dropped),
        "delivered": sorted(network.delivered[message].elements()) if message is not None else [],
        "tables": tables(network) if network.options.scheme in SCHEME_OF.values() else rows(network),
    }
    seldom = ("requests", "replies", "delivered")
    return {name: value for name, value in record.items() if value or name not in seldom}


def injected(step: dict[str, Any]) -> tuple[int, int] | None:
    """The (source, seq) of a message that a step injects."""
    wanted = step.get("inject")
    return (wanted["issuer"], wanted["seq"]) if wanted and wanted["type"] == "MSG" else None


def act(network: Network, step: dict[str, Any]) -> tuple[int, int] | None:
    """Performs a step without settling.

    Returns (source, seq) of a message.
    """
    if wanted := step.get("set_predicate"):
        network.set_predicate(wanted["node"], parse_predicate(wanted["predicate"]))
    elif wanted := step.get("send_message"):
        return network.send(wanted["node"], parse_message(wanted["message"]))
    elif wanted := step.get("request_update"):
        network.request_update(wanted["node"])
    elif wanted := step.get("deliver"):
        sender, receiver = wanted["link"]
        network.deliver(sender, receiver, FrameType[wanted["type"]])
    elif wanted := step.get("lose"):
        sender, receiver = wanted["link"]
        network.lose(sender, receiver, FrameType[wanted["type"]])
    elif wanted := step.get("inject"):
        inject(network, wanted)
    elif wanted := step.get("restart"):
        network.restart(wanted["node"])
    elif wanted := step.get("wait"):
        network.wait(wanted["seconds"])
    elif (wanted := step.get("links_down")) is not None:
        network.new_epoch(tuple(tuple(link) for link in wanted))
    elif (wanted := step.get("tables")) is not None:
        network.start_epoch(tuple(tuple(link) for link in wanted))
        for node in network.routers:
            assert network.tell(node, FrameType.TABLE, network.epoch)
    elif wanted := step.get("commit"):
        for node in wanted["nodes"]:
            assert network.tell(node, FrameType.COMMIT, wanted["epoch"], oldest=1)
    elif step != {"settle": True}:
        raise AssertionError(f"no such step: {step}")
    return None


def inject(network: Network, wanted: dict[str, Any]) -> None:
    kind = FrameType[wanted["type"]]
    body: Body = SenderRequest(1_000_000)
    if kind is FrameType.MSG:
        body = parse_message(wanted["message"])
        network.delivered.setdefault((wanted["issuer"], wanted["seq"]), Counter())
    elif kind is not FrameType.SR:
        body = parse_predicate(wanted["predicate"])
    frame = Frame(kind, wanted["issuer"], wanted["seq"], network.epoch, 64, body)
    if wanted.get("identified"):
        frame = replace(frame, flags=Flags.IDENTIFIED)
    network.handle(wanted["node"], FrameReceived(wanted["sender"], frame))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_figure(case: Path) -> None:
    given = json.loads((case / "input.json").read_text())
    expected = json.loads((case / "expected.json").read_text())
    assert list(expected) == rules(given)
    for rule in rules(given):
        assert play(given, rule) == expected[rule], rule


if __name__ == "__main__":
    given = json.loads((Path(sys.argv[1]) / "input.json").read_text())
    print(json.dumps({rule: play(given, rule) for rule in rules(given)}, indent=1))
