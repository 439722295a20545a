"""Topology files: declared in TOML, made by BRITE, GraphML and others of archives, or of a run folder (JSON).

Standard library only, but for GraphML and archives: plain Mininet (the system's Python) loads it through
`mn --custom`.
Every error is a `TopologyError` that names the file and, for TOML and BRITE, the line.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from topos import Link, Node, Topology, TopologyError, unknown
from topos.brite import read_brite
from topos.build import MAX_NODES, LinkSpec, build

#: File name suffixes that `load` knows.
#: Those whose readers take bytes: some declare an encoding.
_GRAPHS = (".graphml", ".gml", ".xml", ".txt", ".cch", ".intra")
SUFFIXES = (".toml", ".brite", *_GRAPHS, ".json")
_TOP_KEYS = ("name", "node", "link")
NODE_KEYS = ("id", "x", "y", "name")
LINK_KEYS = LinkSpec._fields
_ENDS = ("u", "v")
_JSON_LINK_KEYS = tuple(field.name for field in fields(Link))


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
        text = "" if suffix in _GRAPHS else data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TopologyError(f"{path}: cannot be read: {reason}") from error
    try:
        if suffix == ".brite":
            return read_brite(path.stem, text, keep_properties=keep_properties)
        if suffix in _GRAPHS:
            # Imported late: networkx is no part of the standard library.
            from topos.archives import READERS
            from topos.graphs import from_networkx

            try:
                graph = READERS[suffix](data)
            except UnicodeDecodeError as error:
                raise TopologyError(f"cannot be read: {error}") from error
            return from_networkx(graph, name=path.stem, keep_properties=keep_properties, largest=largest)
        return _from_toml(path.stem, text) if suffix == ".toml" else from_json(text)
    except TopologyError as error:
        raise TopologyError(f"{path}: {error}") from error
    except RecursionError as error:
        raise TopologyError(f"{path}: is nested too deeply") from error


def to_json(topology: Topology) -> str:
    """The text of the topology of a run folder (docs/reference/run-folder.md)."""
    document = asdict(topology)
    del document["notes"]
    for node in document["nodes"]:
        if node["name"] is None:
            del node["name"]
    for link in document["links"]:
        for key in ("jitter_ms", "reorder_percent", "duplicate_percent"):
            if link[key] is None:
                del link[key]
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
    for position, entry in enumerate(links):
        _check_keys(f"link {position}", entry, _JSON_LINK_KEYS)
    specs = [{key: entry[key] for key in LINK_KEYS if entry.get(key) is not None} for entry in links]
    topology = from_table("", {"name": document["name"], "node": _tables(document, "nodes"), "link": specs})
    for link, entry in zip(topology.links, links, strict=True):
        for key in ("index", "u_port", "v_port"):
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
    nodes = [_node(lines.of_table("node", i), entry) for i, entry in enumerate(declared)]
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
        specs.append(_link(where, _numbered(where, entry, ids)))
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


def _from_toml(stem: str, text: str) -> Topology:
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise TopologyError(f"not valid TOML: {error}") from error
    return from_table(stem, document, text)


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


def _node(where: str, entry: Mapping[str, Any]) -> Node:
    _check_keys(where, entry, NODE_KEYS)
    x, y = (None if entry.get(key) is None else _number(where, entry, key) for key in ("x", "y"))
    return Node(_integer(where, entry, "id"), x, y, node_name(where, entry.get("name")))


def node_name(where: str, name: object) -> str | None:
    """The name of a node, or None; `where` begins the error.

    Raises:
        TopologyError: it is no string of printable characters.
    """
    if name is not None and (not isinstance(name, str) or not name or not name.isprintable()):
        raise TopologyError(f"{where}: name is {name!r}; expected a string of printable characters")
    return name


def _link(where: str, entry: Mapping[str, Any]) -> LinkSpec:
    _check_keys(where, entry, LINK_KEYS)
    values: dict[str, Any] = {key: _integer(where, entry, key) for key in ("u", "v")}
    for key in entry.keys() - values.keys():
        values[key] = _integer(where, entry, key) if key == "cost" else _number(where, entry, key)
    return LinkSpec(**values)


def _check_keys(where: str, entry: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in entry:
        if key not in known:
            raise TopologyError(f"{where}: {unknown('key', key, known)}")


def _integer(where: str, entry: Mapping[str, Any], key: str) -> int:
    value = entry.get(key)
    if value is None:
        raise TopologyError(f"{where}: {key} is missing; expected an integer")
    if isinstance(value, bool) or not isinstance(value, int):
        raise TopologyError(f"{where}: {key} is {value!r}; expected an integer")
    return value


def _number(where: str, entry: Mapping[str, Any], key: str) -> float:
    value = entry[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise TopologyError(f"{where}: {key} is {value!r}; expected a number")
    return float(value)
