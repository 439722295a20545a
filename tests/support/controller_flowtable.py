"""A flow table in memory, which processes frames by rules as OpenFlow 1.3 specifies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from testbed.controller.rules import Match, Rule


@dataclass(frozen=True)
class Fate:
    """The fate of a frame: the ports by which it left, in order, and whether the controller got it."""

    ports: list[int]
    to_controller: bool


class FlowTable:
    """The tables of one switch.

    Two rules of equal priority that match one frame are an error.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._tables: dict[int, list[Rule]] = {}
        for rule in rules:
            if rule.goto_table is not None:
                assert rule.goto_table > rule.table, f"{rule}: OpenFlow goes to later tables only"
            self._tables.setdefault(rule.table, []).append(rule)

    def run(
        self, in_port: int, destination: bytes, eth_type: int, source: bytes, tagged: bool = False
    ) -> Fate:
        ports: list[int] = []
        to_controller = False
        table: int | None = 0
        while table is not None:
            found = [
                r
                for r in self._tables.get(table, [])
                if not (r.match.untagged and tagged)
                and _matches(r.match, in_port, destination, eth_type, source)
            ]
            if not found:
                break  # a table miss without a rule of its own drops
            best = max(rule.priority for rule in found)
            chosen = [rule for rule in found if rule.priority == best]
            assert len(chosen) == 1, f"ambiguous: {chosen}"
            # A switch sends a frame back through its input port only for an explicit IN_PORT action.
            ports += [port for port in chosen[0].outputs if port != in_port]
            to_controller |= chosen[0].to_controller
            table = chosen[0].goto_table
        return Fate(ports, to_controller)


def _matches(match: Match, in_port: int, destination: bytes, eth_type: int, source: bytes) -> bool:
    if match.eth_src is not None and match.eth_src != source:
        return False
    if match.in_port is not None and match.in_port != in_port:
        return False
    if match.eth_type is not None and match.eth_type != eth_type:
        return False
    return match.eth_dst is None or all(
        (have ^ want) & mask == 0
        for have, want, mask in zip(destination, match.eth_dst, match.eth_dst_mask, strict=True)
    )
