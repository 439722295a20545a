"""BRITE's own output format (`.brite`): a header, a section of nodes and a section of edges.

Columns of a node: id, x, y, in-degree, out-degree, AS, type. Columns of an edge: id, from, to, length,
delay (ms), bandwidth (Mbit/s), AS from, AS to, type, direction.
Source: A. Medina, A. Lakhina, I. Matta, J. Byers, "BRITE user manual", 2001, section on output formats.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from typing import TypeVar

from topos import Node, Topology, TopologyError
from topos.build import PARALLEL_LEFT_OUT, PROPERTIES_LEFT_OUT, LinkSpec, build

_SECTION = re.compile(r"(Nodes|Edges)\s*:\s*\(\s*(\d+)\s*\)", re.IGNORECASE)
_NODE_COLUMNS = 3
_EDGE_COLUMNS = 6
_T = TypeVar("_T", int, float)


def read_brite(name: str, text: str, *, keep_properties: bool = False) -> Topology:
    """The topology in the text of a `.brite` file.

    The length of an edge, rounded and at least 1, is the cost of the link. Delay and bandwidth are
    taken over only on request: BRITE always writes some, and the protocol paper's evaluation sets none.
    A bandwidth of 0 or less means that there is no limit. Of parallel links, the one of least cost is kept.
    The notes of the topology say what was left out.

    Raises:
        TopologyError: with the line, when the text does not keep to the format; see also `build`.
    """
    nodes: list[Node] = []
    specs: dict[tuple[int, int], LinkSpec] = {}
    spec_lines: dict[tuple[int, int], int] = {}
    edges = 0
    announced: dict[str, int] = {}
    section = ""
    for number, content in enumerate(text.splitlines(), 1):
        where = f"line {number}"
        columns = content.split()
        if not columns:
            continue
        if header := _SECTION.match(content.strip()):
            section = header[1].lower()
            announced[section] = int(header[2])
        elif section == "nodes":
            _check_columns(where, columns, _NODE_COLUMNS, "id x y ...")
            x, y = (_parse(where, key, columns[i], float) for i, key in ((1, "x"), (2, "y")))
            nodes.append(Node(_parse(where, "id", columns[0], int), x, y))
        elif section == "edges":
            _check_columns(where, columns, _EDGE_COLUMNS, "id from to length delay bandwidth ...")
            spec = _edge(where, columns, keep_properties)
            edges += 1
            pair = min(spec.u, spec.v), max(spec.u, spec.v)
            if pair not in specs or spec.cost < specs[pair].cost:
                specs[pair], spec_lines[pair] = spec, number
    for section, found in (("nodes", len(nodes)), ("edges", edges)):
        if section not in announced:
            raise TopologyError(f"no line '{section.capitalize()}: ( n )'; expected a BRITE file")
        if announced[section] != found:
            raise TopologyError(
                f"{announced[section]} {section} announced, {found} found; is the file whole?"
            )
    notes = [] if keep_properties or not specs else [PROPERTIES_LEFT_OUT]
    if edges > len(specs):
        notes.append(PARALLEL_LEFT_OUT.format(edges - len(specs), "that of least cost"))
    lines = list(spec_lines.values())
    return build(name, nodes, specs.values(), where=lambda index: f"line {lines[index]}", notes=notes)


def _edge(where: str, columns: list[str], keep_properties: bool) -> LinkSpec:
    u, v = (_parse(where, key, columns[i], int) for i, key in ((1, "from"), (2, "to")))
    length = _parse(where, "length", columns[3], float)
    cost = max(1, math.floor(length + 0.5))
    if not keep_properties:
        return LinkSpec(u, v, cost)
    delay = _parse(where, "delay", columns[4], float)
    bandwidth = _parse(where, "bandwidth", columns[5], float)
    return LinkSpec(u, v, cost, bandwidth if bandwidth > 0 else None, delay)


def _check_columns(where: str, columns: list[str], least: int, form: str) -> None:
    if len(columns) < least:
        raise TopologyError(f"{where}: {len(columns)} columns; expected '{form}'")


def _parse(where: str, key: str, text: str, kind: Callable[[str], _T]) -> _T:
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not abs(value) <= sys.float_info.max:
        expected = "an integer" if kind is int else "a number"
        raise TopologyError(f"{where}: {key} is {text!r}; expected {expected}")
    return value
