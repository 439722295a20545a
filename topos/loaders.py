"""Topology files: declared in TOML, made by BRITE, GraphML and others of archives, or of a run folder (JSON).

Standard library only, but for GraphML and archives: plain Mininet (the system's Python) loads it through
`mn --custom`.
Every error is a `TopologyError` that names the file and, for TOML and BRITE, the line.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from router.options import Option, options_of
from topos import PROPERTIES, LinkSpec, Node, Topology, TopologyError, checked, unknown
from topos.build import MAX_NODES, PARALLEL_LEFT_OUT, PROPERTIES_LEFT_OUT, build

#: Suffixes of files whose readers take bytes, since some declare an encoding.
_GRAPHS = (".graphml", ".gml", ".xml", ".txt", ".cch", ".intra")
#: Suffixes that `load` knows.
SUFFIXES = (".toml", ".brite", *_GRAPHS, ".json")
_TOP_KEYS = ("name", "node", "link")
#: The keys of [[node]].
NODE_OPTIONS = options_of(Node)
#: The keys of [[link]]: those of the link, then its properties.
LINK_OPTIONS = (*options_of(LinkSpec)[len(PROPERTIES) :], *PROPERTIES.values())
_ENDS = ("u", "v")
#: The keys of a link in JSON, in the order of the text.
JSON_LINK_KEYS = tuple(
    dict.fromkeys(("index", *_ENDS, "u_port", "v_port", "cost", "bandwidth_mbps", "delay_ms", *PROPERTIES))
)


def load(path: str | Path, *, keep_properties: bool = False, largest: bool = False) -> Topology:
    """Loads a topology file, by its suffix.

    Args:
        path: a file with one of `SUFFIXES`.
        keep_properties: for all but TOML and JSON: take over delay and bandwidth too, not just the cost.
        largest: for all but TOML, BRITE and JSON: take the greatest component of a graph that is not
            connected.

    Raises:
        TopologyError: the file cannot be read, or is not a valid topology.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise TopologyError(
            f"{path}: unknown kind of file; expected a name that ends in {', '.join(SUFFIXES)}"
        )
    try:
        data = path.read_bytes()
        if suffix in _GRAPHS:
            # Imported late: networkx is no part of the standard library.
            from topos.archives import READERS
            from topos.graphs import from_networkx

            graph = READERS[suffix](data)
            return from_networkx(graph, name=path.stem, keep_properties=keep_properties, largest=largest)
        text = data.decode("utf-8-sig")
        if suffix == ".brite":
            return read_brite(path.stem, text, keep_properties=keep_properties)
        return from_json(text) if suffix == ".json" else from_table(path.stem, tomllib.loads(text), text)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TopologyError(f"{path}: cannot be read: {reason}") from error
    except TopologyError as error:
        raise TopologyError(f"{path}: {error}") from error
    except ValueError as error:
        raise TopologyError(f"{path}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise TopologyError(f"{path}: is nested too deeply") from error


def to_json(topology: Topology) -> str:
    """The text of the topology of a run folder (docs/reference/run-folder.md)."""
    document = asdict(topology)
    del document["notes"]
    document["links"] = [{key: getattr(link, key) for key in JSON_LINK_KEYS} for link in topology.links]
    for entry in (*document["nodes"], *document["links"]):
        for key in ("name", "jitter_ms", "reorder_percent", "duplicate_percent"):
            if entry.get(key, "") is None:
                del entry[key]
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Topology:
    """The topology that `to_json` wrote.

    Raises:
        TopologyError: not JSON, not of this form, or not a valid topology.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise TopologyError(f"not valid JSON: {error}") from error
    if not isinstance(document, dict) or not document.keys() >= {"name", "nodes", "links"}:
        raise TopologyError('expected an object with "name", "nodes" and "links"')
    links = _tables(document, "links")
    follow = ("index", "u_port", "v_port")
    specs = [{key: value for key, value in entry.items() if key not in follow} for entry in links]
    topology = from_table("", {"name": document["name"], "node": _tables(document, "nodes"), "link": specs})
    for link, entry in zip(topology.links, links, strict=True):
        for key in follow:
            # They follow from the order of the links; others would make captures and tables disagree.
            if entry.get(key) != getattr(link, key):
                raise TopologyError(
                    f"link {link.index}: {key} is {entry.get(key)!r}; expected {getattr(link, key)}"
                )
    return topology


def from_table(default_name: str, document: Mapping[str, Any], text: str = "") -> Topology:
    """The topology of a declared form: `name` and the tables `[[node]]` and `[[link]]`.

    A link names its ends by number or by name. Without [[node]] tables, the nodes are those that the links
    name; names are numbered in the order in which they first appear. Nodes without an id are numbered in the
    order of their tables.

    Args:
        default_name: the topology's name if the table has none.
        text: what it was parsed from, if errors are to give lines.

    Raises:
        TopologyError: a key is unknown or of the wrong type, or the topology is not valid.
    """
    lines = _Lines(text)
    for key in document:
        if key not in _TOP_KEYS:
            raise TopologyError(f"{lines.of_key(key)}{unknown('key', key, _TOP_KEYS)}")
    name = document.get("name", default_name)
    if not isinstance(name, str):
        raise TopologyError(f"{lines.of_key('name')}name is {name!r}; expected a string")
    declared = _tables(document, "node", lines.of_key("node"))
    if declared and not any("id" in entry for entry in declared):
        declared = [{"id": i, **entry} for i, entry in enumerate(declared)]
    nodes = []
    for position, entry in enumerate(declared):
        where = lines.of_table("node", position)
        node = Node(**values_of(where, entry, NODE_OPTIONS))
        nodes.append(replace(node, name=node_name(where, node.name)))
    links = _tables(document, "link", lines.of_key("link"))
    ids = {node.name: node.id for node in nodes if node.name is not None}
    if not nodes and links and all(isinstance(entry.get(end), str) for entry in links for end in _ENDS):
        for entry in links:
            for end in _ENDS:
                ids.setdefault(entry[end], len(ids))
        nodes = [Node(number, name=name) for name, number in ids.items()]
    specs = []
    for position, entry in enumerate(links):
        where = lines.of_table("link", position)
        specs.append(LinkSpec(**values_of(where, _numbered(where, entry, ids), LINK_OPTIONS)))
    if not nodes:
        last = -1
        for position, spec in enumerate(specs):
            last = max(last, spec.u, spec.v)
            if last >= MAX_NODES:
                where = lines.of_table("link", position)
                raise TopologyError(f"{where}: names node {last}; expected nodes 0 to {MAX_NODES - 1}")
        nodes = [Node(i) for i in range(last + 1)]
    return build(name, nodes, specs, where=lambda index: lines.of_table("link", index))


def _numbered(where: str, entry: Mapping[str, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    """Returns a link with the ids of ends that it names."""
    found = dict(entry)
    for end in _ENDS:
        name = entry.get(end)
        if isinstance(name, str) and ids:
            if name not in ids:
                raise TopologyError(f"{where}: {end}: {unknown('node', name, ids)}")
            found[end] = ids[name]
    return found


def _tables(document: Mapping[str, Any], key: str, where: str = "") -> list[dict[str, Any]]:
    entries = document.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise TopologyError(f"{where}{key}: expected a list of tables ([[{key}]] in TOML)")
    return entries


class _Lines:
    """Where the tables of a TOML text begin, for errors (tomllib does not tell)."""

    _HEADER = re.compile(r"\s*\[\[\s*([A-Za-z_]+)\s*\]\]")

    def __init__(self, text: str) -> None:
        self._text = text.splitlines()
        self._tables: dict[str, list[int]] = {}
        for number, content in enumerate(self._text, 1):
            if header := self._HEADER.match(content):
                self._tables.setdefault(header[1], []).append(number)

    def of_table(self, key: str, position: int) -> str:
        """ "line 12" of the table [[key]] at `position`; "link 3" if it is written in another way."""
        numbers = self._tables.get(key, [])
        return f"line {numbers[position]}" if position < len(numbers) else f"{key} {position}"

    def of_key(self, key: str) -> str:
        """ "line 2: " of the first line that begins with this key, or nothing."""
        begins = re.compile(rf"\s*(\[\s*)*[\"']?{re.escape(key)}\b")
        for number, content in enumerate(self._text, 1):
            if begins.match(content):
                return f"line {number}: "
        return ""


def node_name(where: str, name: object) -> str | None:
    """The name of a node, or None; `where` begins the error.

    Raises:
        TopologyError: it is no string of printable characters.
    """
    if name is not None and (not isinstance(name, str) or not name or not name.isprintable()):
        raise TopologyError(f"{where}: name is {name!r}; expected a string of printable characters")
    return name


def values_of(
    where: str, entry: Mapping[str, Any], options: Sequence[Option], others: Collection[str] = ()
) -> dict[str, Any]:
    """Returns the values of a table; `where` begins the error.

    Args:
        others: keys that the caller reads.

    Raises:
        TopologyError: a key is unknown or missing, or a value is not valid.
    """
    declared = {option.key: option for option in options}
    known = [*declared, *others]
    for key in entry:
        if key not in known:
            raise TopologyError(f"{where}: {unknown('key', key, known)}")
    for option in options:
        if option.required and entry.get(option.key) is None:
            raise TopologyError(f"{where}: {option.key} is missing; expected {option.expected}")
    # JSON has null.
    given = {key: value for key, value in entry.items() if key in declared and value is not None}
    return {key: checked(f"{where}: ", declared[key], value) for key, value in given.items()}


_SECTION = re.compile(r"(Nodes|Edges)\s*:\s*\(\s*(\d+)\s*\)", re.IGNORECASE)
_T = TypeVar("_T", int, float)


def read_brite(name: str, text: str, *, keep_properties: bool = False) -> Topology:
    """The topology in the text of a `.brite` file: a header, a section of nodes and a section of edges.

    Columns of a node: id, x, y, in-degree, out-degree, AS, type. Columns of an edge: id, from, to, length,
    delay (ms), bandwidth (Mbit/s), AS from, AS to, type, direction (A. Medina, A. Lakhina, I. Matta,
    J. Byers, "BRITE user manual", 2001, section on output formats).

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
            _check_columns(where, columns, 3, "id x y ...")
            x, y = (_parse(where, key, columns[i], float) for i, key in ((1, "x"), (2, "y")))
            nodes.append(Node(_parse(where, "id", columns[0], int), x, y))
        elif section == "edges":
            _check_columns(where, columns, 6, "id from to length delay bandwidth ...")
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
    return LinkSpec(u, v, cost, bandwidth_mbps=bandwidth if bandwidth > 0 else None, delay_ms=delay)


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
