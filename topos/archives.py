"""Files of the collections that studies take their networks from, as networkx graphs.

- GraphML (U. Brandes, M. Eiglsperger, I. Herman et al., "GraphML progress report", Graph Drawing 2001).
- GML, as of the Internet Topology Zoo (M. Himsolt, "GML: a portable graph file format", 1997).
- SNDlib, its XML and its native form (S. Orlowski, R. Wessäly, M. Pióro, A. Tomaszewski, "SNDlib 1.0",
  Networks 55(3), 2010): nodes, their places and links; capacities and costs are those of a design problem.
- Rocketfuel: maps of ISPs (`.cch`) and inferred weights (`.intra`) (N. Spring, R. Mahajan, D. Wetherall,
  "Measuring ISP topologies with Rocketfuel", SIGCOMM 2002; R. Mahajan, N. Spring, D. Wetherall, T. Anderson,
  "Inferring link weights using end-to-end measurements", IMW 2002).
- CAIDA: relationships of autonomous systems, `serial-1` and `serial-2` (as-rel).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

import networkx as nx
from networkx.readwrite.graphml import GraphMLReader

from topos import TopologyError
from topos.graphs import EDGE_PROPERTIES

_SNDLIB_XML = "{http://sndlib.zib.de/network}"
_SNDLIB_NATIVE = "?SNDlib native format"
_SECTION = re.compile(r"(\w+)\s*\($")
_SNDLIB_NODE = re.compile(r"(\S+)\s*\(\s*(\S+)\s+(\S+)\s*\)")
_WEIGHT = re.compile(r"\d+(\.\d+)?")
_SNDLIB_LINK = re.compile(r"\S+\s*\(\s*(\S+)\s+(\S+)\s*\)")
#: uid @place [+] [bb] (neighbours) [&external] -> <uid> ... {-euid} ... =name[!] rn
_ROUTER = re.compile(r"(\d+)\s+@(\S+)(?:\s+\+)?(?:\s+bb)?\s+\(\d+\)(?:\s+&\d+)?\s+->\s*((?:<\d+>\s*)*)")


def read_graphml(data: bytes) -> nx.Graph:
    """The one graph of a GraphML file, in the encoding that it declares.

    Elements are those in the namespace of the root, if any. `networkx.parse_graphml` would leave all graphs
    but the first out, without a note, and takes a document without a namespace as a string only.
    """
    reader = GraphMLReader()
    try:
        root = ElementTree.fromstring(data)
        namespace = root.tag.rpartition("}")[0]
        for element in root.iter():
            own, _, local = element.tag.rpartition("}")
            if own == namespace:
                element.tag = f"{{{reader.NS_GRAPHML}}}{local}"
                if local == "key" and element.get("attr.name") in EDGE_PROPERTIES:
                    # Texts become numbers where they are kept.
                    element.set("attr.type", "string")
        graphs = list(root.iter(f"{{{reader.NS_GRAPHML}}}graph"))
        if len(graphs) != 1 or graphs[0] not in list(root):
            raise TopologyError(f"it has {len(graphs)} <graph>; expected one, within <graphml>")
        return reader.make_graph(graphs[0], *reader.find_graphml_keys(root))
    except (ElementTree.ParseError, nx.NetworkXError, LookupError, ValueError, TypeError) as error:
        raise TopologyError(f"not valid GraphML: {error}") from error


def read_gml(data: bytes) -> nx.Graph:
    """The graph of a GML file, in UTF-8 or ISO 8859-1; names are its labels."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    # The Topology Zoo has parallel links, not always with a word on it.
    if not re.search(r"\bmultigraph\s+1", text):
        text = re.sub(r"\bgraph\s*\[", "graph [ multigraph 1", text, count=1)
    try:
        return nx.parse_gml(text.splitlines(), label="id")
    except (nx.NetworkXError, AttributeError, ValueError, TypeError, KeyError) as error:
        raise TopologyError(f"not valid GML: {error}") from error


def read_sndlib(data: bytes) -> nx.Graph:
    """The graph of an SNDlib network in XML, in the encoding that it declares."""
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise TopologyError(f"not valid XML: {error}") from error
    if root.tag != f"{_SNDLIB_XML}network":
        raise TopologyError(f"the root element is {root.tag!r}; expected an SNDlib network")
    graph = nx.MultiGraph()
    for node in root.iter(f"{_SNDLIB_XML}node"):
        x, y = (node.findtext(f"{_SNDLIB_XML}coordinates/{_SNDLIB_XML}{axis}") for axis in "xy")
        if (name := node.get("id")) is None:
            raise TopologyError("a <node> without an id")
        graph.add_node(name, x=x, y=y)
    for link in root.iter(f"{_SNDLIB_XML}link"):
        ends = [(link.findtext(f"{_SNDLIB_XML}{end}") or "").strip() for end in ("source", "target")]
        _add_edge(graph, f"link {link.get('id')!r}", *ends)
    return graph


def _native_sndlib(text: str) -> nx.Graph:
    graph, section = nx.MultiGraph(), ""
    for where, line in _lines(text):
        if line.startswith("?"):
            continue
        if begins := _SECTION.match(line):
            section = begins[1]
        elif section == "NODES" and (node := _SNDLIB_NODE.match(line)):
            graph.add_node(node[1], x=node[2], y=node[3])
        elif section == "LINKS" and (link := _SNDLIB_LINK.match(line)):
            _add_edge(graph, where, link[1], link[2])
        elif section in ("NODES", "LINKS") and line != ")":
            expected = "NODE ( X Y )" if section == "NODES" else "LINK ( SOURCE TARGET ) ..."
            raise TopologyError(f"{where}: {line[:80]!r}; expected '{expected}'")
    return graph


def _as_relationships(text: str) -> nx.Graph:
    graph = nx.Graph()
    for where, line in _lines(text):
        fields = line.split("|")
        if len(fields) < 3 or not (fields[0].isdigit() and fields[1].isdigit() and fields[2] in ("-1", "0")):
            raise TopologyError(f"{where}: {line[:80]!r}; expected 'AS|AS|RELATIONSHIP', -1 or 0")
        graph.add_edge(f"AS{fields[0]}", f"AS{fields[1]}")
    return graph


def read_text(data: bytes) -> nx.Graph:
    """The graph of a text file: SNDlib's native form, or CAIDA's relationships of autonomous systems."""
    text = data.decode("utf-8-sig")
    return (_native_sndlib if text.lstrip().startswith(_SNDLIB_NATIVE) else _as_relationships)(text)


def read_cch(data: bytes) -> nx.Graph:
    """The graph of a Rocketfuel map: the routers of the ISP; lines of other networks are left out."""
    graph = nx.Graph()
    edges = []
    for where, line in _lines(data.decode("utf-8-sig")):
        if line.startswith("-"):
            continue
        router = _ROUTER.match(line)
        if router is None:
            raise TopologyError(f"{where}: {line[:80]!r}; expected 'uid @place (n) -> <uid> ... =name rn'")
        uid, place, neighbours = router.groups()
        graph.add_node(uid, label=f"{place.replace('+', ' ')} {uid}")
        edges += [(where, uid, neighbour) for neighbour in re.findall(r"\d+", neighbours)]
    for where, uid, neighbour in edges:
        _add_edge(graph, where, uid, neighbour)
    return graph


def read_intra(data: bytes) -> nx.Graph:
    """The graph of Rocketfuel's inferred weights, which are the costs of links: equal in both directions."""
    graph = nx.Graph()
    for where, line in _lines(data.decode("utf-8-sig")):
        fields = line.split()
        if len(fields) != 3 or not _WEIGHT.fullmatch(fields[2]):
            raise TopologyError(f"{where}: {line[:80]!r}; expected 'ROUTER ROUTER WEIGHT'")
        u, v = (name.replace("+", " ") for name in fields[:2])
        if graph.has_edge(u, v) and graph.edges[u, v]["weight"] != fields[2]:
            raise TopologyError(f"{where}: {u} and {v} have two weights; links here have one cost")
        graph.add_edge(u, v, weight=fields[2])
    return graph


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yields the lines that are not empty or comments, each after its place."""
    for number, line in enumerate(text.splitlines(), 1):
        if (content := line.strip()) and not content.startswith("#"):
            yield f"line {number}", content


def _add_edge(graph: nx.Graph, where: str, u: str, v: str) -> None:
    for end in (u, v):
        if end not in graph:
            raise TopologyError(f"{where}: there is no node {end!r}")
    graph.add_edge(u, v)


#: Suffix -> the reader of such files.
READERS: dict[str, Callable[[bytes], nx.Graph]] = {
    ".graphml": read_graphml,
    ".gml": read_gml,
    ".xml": read_sndlib,
    ".txt": read_text,
    ".cch": read_cch,
    ".intra": read_intra,
}
