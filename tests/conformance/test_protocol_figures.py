"""The worked examples of the protocol paper, step by step, under its own rule and ours.

Each case is a folder: README.md (the picture), input.json (links, in order of index, and steps) and
expected.json (`"paper"` and `"default"`: one record for each step).
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from protocol_network import Network, graph_of

from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_predicate
from router.protocol.options import RouterOptions
from router.wire.frames import FrameType

CASES = sorted(path.parent for path in Path(__file__).parent.glob("figure-*/input.json"))


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
        names = {0: "local", **router.interfaces()}
        found[str(node)] = {
            str(names[interface]): format_predicate(predicate)
            for interface, predicate in router.predicates().items()
        }
    return found


def play(links: list[list[int]], steps: list[dict[str, Any]], strict_paper: bool) -> list[dict[str, Any]]:
    network = Network(graph_of([(u, v, 1) for u, v in links]), RouterOptions(strict_paper=strict_paper), 1)
    network.new_epoch()
    records: list[dict[str, Any]] = []
    for step in steps:
        network.frames.clear()
        dropped = network.dropped()
        if "set_predicate" in step:
            wanted = step["set_predicate"]
            network.set_predicate(wanted["node"], parse_predicate(wanted["predicate"]))
            network.settle()
            records.append(
                {
                    "advertisements": crossed(network, FrameType.RA),
                    "dropped": dict(network.dropped() - dropped),
                    "tables": tables(network),
                }
            )
        else:
            wanted = step["send_message"]
            sent = network.send(wanted["node"], parse_message(wanted["message"]))
            network.settle()
            delivered = sorted(Counter(network.delivered[sent]).elements())
            records.append({"messages": crossed(network, FrameType.MSG), "delivered": delivered})
    return records


@pytest.mark.parametrize("rule", ["paper", "default"])
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_figure(case: Path, rule: str) -> None:
    given = json.loads((case / "input.json").read_text())
    expected = json.loads((case / "expected.json").read_text())
    assert play(given["links"], given["steps"], rule == "paper") == expected[rule]
