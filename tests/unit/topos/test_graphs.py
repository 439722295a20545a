"""Topologies of networkx graphs and of GraphML, and nodes with names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest

from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import ExperimentError
from testbed.experiments.events import SendMessage
from testbed.experiments.events.network import LinkDown
from topos import PROPERTIES, LinkSpec, Node, Topology, TopologyError, archives, build as build_module, graphs
from topos.build import MAX_LINKS, MAX_NODES, build
from topos.graphs import from_networkx
from topos.loaders import from_json, load, to_json

_NAMESPACE = ' xmlns="http://graphml.graphdrawing.org/xmlns"'
_ZOO = (Path(__file__).with_name("files") / "zoo.graphml").read_text()


def read_graphml(name: str, text: bytes, keep_properties: bool = False) -> Topology:
    return from_networkx(archives.read_graphml(text), name=name, keep_properties=keep_properties)


def test_a_file_of_the_topology_zoo_becomes_a_topology(tmp_path: Path) -> None:
    path = tmp_path / "it.graphml"
    path.write_text(_ZOO)
    nodes = [Node(0, 12.5, 41.9, "Rome"), Node(1, name="Milan (1)"), Node(2, name="Milan (7)")]
    assert load(path) == build("it", nodes, [LinkSpec(0, 1), LinkSpec(1, 2)])
    assert load(path, keep_properties=True).links[0].bandwidth_mbps == 10_000


def _graphml(*inside: str) -> str:
    keys = (
        '<key attr.name="label" attr.type="string" for="node" id="label"/>',
        '<key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="speed"/>',
    )
    return f"<graphml{_NAMESPACE}>{''.join(keys)}<graph>{''.join(inside)}</graph></graphml>"


def _edge(u: int, v: int, speed: float | None = None) -> str:
    data = "" if speed is None else f'<data key="speed">{speed}</data>'
    return f'<edge source="{u}" target="{v}">{data}</edge>'


def _node(number: int, label: str) -> str:
    return f'<node id="{number}"><data key="label">{label}</data></node>'


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "UTF-16", "utf-8", "windows-1252"])
def test_a_file_is_read_in_the_encoding_that_it_declares(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.graphml"
    text = f'<?xml version="1.0" encoding="{encoding}"?>' + _graphml(
        _node(0, "Zürich"), _node(1, "Évry"), _edge(0, 1)
    )
    path.write_bytes(text.encode(encoding))
    assert [node.name for node in load(path).nodes] == ["Zürich", "Évry"]


@pytest.mark.parametrize("encoding", ["klingon", "UTF-8"])
def test_a_file_in_another_encoding_than_it_declares_is_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.graphml"
    text = f'<?xml version="1.0" encoding="{encoding}"?>' + _graphml(_node(0, "Zürich"))
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(TopologyError, match=r"a\.graphml: not valid GraphML: "):
        load(path)


@pytest.mark.parametrize("prefix", ["", "g:"])
@pytest.mark.parametrize("nested", [True, False])
def test_another_graph_in_a_file_is_refused(prefix: str, nested: bool) -> None:
    inner = f"<{prefix}graph><{prefix}node id='b'/></{prefix}graph>"
    text = (
        f"<{prefix}graphml xmlns{':g' if prefix else ''}='http://graphml.graphdrawing.org/xmlns'>\n"
        f"<{prefix}graph>\n<{prefix}node id='a'>\n"
        f"{inner if nested else ''}</{prefix}node>\n</{prefix}graph>\n"
        f"{'' if nested else inner}</{prefix}graphml>"
    )
    with pytest.raises(TopologyError, match="it has 2 <graph>; expected one"):
        read_graphml("a", text.encode())


def test_a_file_that_is_not_connected_is_refused_or_its_greatest_part_is_taken(tmp_path: Path) -> None:
    nodes = [_node(number, name) for number, name in enumerate(("Reef", "Island", "North", "South", "East"))]
    path = tmp_path / "a.graphml"
    path.write_text(_graphml(*nodes, _edge(0, 1), _edge(2, 3), _edge(3, 4)))
    with pytest.raises(TopologyError, match=r"2 parts of 3 to 2 nodes; topology\.largest = true"):
        load(path)
    note = "2 nodes outside of the greatest connected part are left out"
    expected = [Node(number, name=name) for number, name in enumerate(("North", "South", "East"))]
    assert load(path, largest=True) == build("a", expected, [LinkSpec(0, 1), LinkSpec(1, 2)], notes=[note])
    file = tmp_path / "a.toml"
    file.write_text('duration_s = 1\ntopology = { file = "a.graphml", largest = true }\n')
    assert len(load_experiment(file).topology.nodes) == 3


def test_of_parallel_links_the_fastest_is_kept_and_a_speed_of_0_is_none() -> None:
    edges = [_edge(0, 1, 1e7), _edge(1, 0, 1e9), _edge(0, 1), _edge(1, 2, 0.0), _edge(1, 2), _edge(2, 2, 1e9)]
    text = _graphml(*(_node(number, name) for number, name in enumerate("abc")), *edges)
    found = read_graphml("a", text.encode(), keep_properties=True)
    assert [(link.u, link.v, link.bandwidth_mbps) for link in found.links] == [(0, 1, 1000), (1, 2, None)]
    note = "3 parallel links are left out: of those between two nodes, the fastest, else the first, is kept"
    assert found.notes == (note,)


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16"])
@pytest.mark.parametrize("attributes", ["", ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'])
def test_a_file_without_the_namespace_of_graphml_is_read(encoding: str, attributes: str) -> None:
    text = _ZOO.replace(_NAMESPACE, attributes).replace("utf-8", encoding)
    assert read_graphml("it", text.encode(encoding)) == read_graphml("it", _ZOO.encode())


@pytest.mark.parametrize("namespace", ["", _NAMESPACE])
def test_a_graph_of_another_namespace_is_the_data_of_a_tool(namespace: str) -> None:
    tool = '<data key="d9"><y:x xmlns:y="urn:yed"><y:graph/></y:x></data>'
    key = '<key id="d9" for="graphml" yfiles.type="resources"/>'
    text = _ZOO.replace(_NAMESPACE, namespace).replace("  <graph ", f"{key}{tool}<graph ")
    assert read_graphml("it", text.encode()) == read_graphml("it", _ZOO.encode())


@pytest.mark.parametrize("kind", ["string", "double"])
def test_only_a_property_that_is_kept_must_be_a_number(kind: str) -> None:
    text = _ZOO.replace(
        "<graph ", f'<key attr.name="delay_ms" attr.type="{kind}" for="edge" id="d4"/><graph '
    )
    text = text.replace('target="7"/>\n    <edge', 'target="7"><data key="d4">12 ms</data></edge>\n    <edge')
    assert read_graphml("it", text.encode()) == read_graphml("it", _ZOO.encode())
    with pytest.raises(TopologyError, match="edge '1' - '7': delay_ms is '12 ms'; expected a number"):
        read_graphml("it", text.encode(), keep_properties=True)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["2", "2 (a)", "y"], ["2 (a) (a)", "2 (a)", "y"]),
        (["X", "X", "X (a)"], ["X (a) (a)", "X (b)", "X (a)"]),
    ],
)
def test_a_name_that_is_made_unique_is_no_label_of_another_node(labels: list[str], names: list[str]) -> None:
    graph = nx.path_graph(["a", "b", "c"])
    nx.set_node_attributes(graph, dict(zip("abc", labels, strict=True)), "label")
    assert [node.name for node in from_networkx(graph).nodes] == names


def test_two_edges_in_opposite_directions_are_one_link() -> None:
    graph = nx.MultiDiGraph([(0, 1), (1, 0), (1, 2)])
    assert from_networkx(graph).notes == ()
    graph.add_edge(1, 0)
    assert from_networkx(graph).notes[0].startswith("1 parallel links are left out")


def test_a_label_that_is_the_number_of_another_node_is_not_a_name_by_itself() -> None:
    names = [_node(0, "1"), _node(1, "002"), _node(2, "2"), _node(3, "77")]
    text = _graphml(*names, *(_edge(number, number + 1) for number in range(3)))
    found = read_graphml("a", text.encode())
    assert [node.name for node in found.nodes] == ["1 (0)", "002 (1)", None, "77"]


def test_a_declared_name_that_is_the_number_of_another_node_is_refused() -> None:
    nodes = [Node(0, name="1"), Node(1)]
    with pytest.raises(TopologyError, match="node 0 is named '1', the number of another node"):
        build("a", nodes, [LinkSpec(0, 1)])
    assert build("a", [Node(0, name="0"), Node(1, name="7")], [LinkSpec(0, 1)]).ids == {"0": 0, "7": 1}


def test_the_numbers_of_nodes_and_links_are_bounded_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most_nodes, most_links = 500, 2_000
    assert (most_nodes, most_links) < (MAX_NODES, MAX_LINKS)
    for module in (build_module, graphs):
        monkeypatch.setattr(module, "MAX_NODES", most_nodes)
    monkeypatch.setattr(build_module, "MAX_LINKS", most_links)
    count = most_nodes + 1
    brite = [f"Nodes: ( {count} )", *(f"{i} 0 0" for i in range(count)), "Edges: ( 0 )"]
    nodes = "".join(f'<node id="{i}"/>' for i in range(count))
    for name, text in (
        ("a.graphml", f"<graphml{_NAMESPACE}><graph>{nodes}</graph></graphml>"),
        ("a.brite", "\n".join(brite)),
        ("a.toml", "[[node]]\n" * count),
        ("a.json", json.dumps({"name": "a", "nodes": [{"id": i} for i in range(count)], "links": []})),
    ):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(TopologyError, match=f"{name}: {count} nodes; expected at most {most_nodes}"):
            load(path)
    with pytest.raises(TopologyError, match=f"{most_links + 1} links; expected at most {most_links}"):
        build("a", [Node(0)], [LinkSpec(0, 1)] * (most_links + 1))


def test_attributes_of_a_networkx_graph_become_properties() -> None:
    graph = nx.Graph(name="pair")
    graph.add_node("a", x=1, y=2)
    graph.add_edge("a", "b", weight=2.5, delay_ms=4, loss_percent=1)
    nodes = [Node(0, 1.0, 2.0, "a"), Node(1, name="b")]
    assert from_networkx(graph) == build("pair", nodes, [LinkSpec(0, 1, 3, delay_ms=4.0, loss_percent=1.0)])


def test_nodes_that_are_their_numbers_have_no_names() -> None:
    assert from_networkx(nx.path_graph(3)).nodes == (Node(0), Node(1), Node(2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<graphml", "not valid GraphML"),
        ("<graphml></graphml>", "not valid GraphML: it has 0 <graph>"),
        ("<x><y><graph/></y></x>", "it has 1 <graph>; expected one, within <graphml>"),
        (_ZOO.replace('source="1" target="7"', 'source="1" target="0"'), "not connected"),
        (_ZOO.replace("12.5", "east"), "not valid GraphML: could not convert"),
    ],
)
def test_faults_of_graphml(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        read_graphml("g", text.encode())


_NAMED = (Path(__file__).with_name("files") / "named.toml").read_text()


def test_links_and_events_name_nodes_that_are_known(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(_NAMED)
    experiment = load_experiment(path)
    assert experiment.topology.ids == {"Rome": 0, "Milan": 1, "Turin": 2}
    assert experiment.events == (SendMessage(1.0, 2, "a = 1"), LinkDown(2.0, (0, 1)))
    assert from_json(to_json(experiment.topology)) == experiment.topology
    path.write_text(_NAMED.replace('node = "Turin"', 'node = "Turing"'))
    with pytest.raises(ExperimentError, match=r"\[events 1\] node: unknown node 'Turing'; did you mean 'Tur"):
        load_experiment(path)
    path = tmp_path / "t.toml"
    path.write_text('[[node]]\nname = "a"\n[[node]]\nname = "b"\n[[link]]\nu = "a"\nv = "c"\n')
    with pytest.raises(TopologyError, match=r"line 5: v: unknown node 'c'; expected one of: a, b"):
        load(path)


#: Names, places, costs and properties, also such as other programs would take for their own syntax.
_WRITTEN = build(
    'my "net"',
    [Node(0, 1.5, -2.0, 'a "b" \\ #1'), Node(1, 0.0, 0.0), Node(2, 3.0, 1e-7, "<&>")],
    [
        LinkSpec(0, 1, 7, **dict(zip(PROPERTIES, (1.0, 5.0, 2.5, 0.5, 10.0, 3.0), strict=True))),
        LinkSpec(2, 1),
    ],
)


def test_graphml_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "net.graphml"
    path.write_text("\n".join(graphs.to_graphml(_WRITTEN)))
    found = load(path, keep_properties=True)
    assert found.nodes == _WRITTEN.nodes
    ends = [(replace(link, u=0, v=0, u_port=0, v_port=0), {link.u, link.v}) for link in _WRITTEN.links]
    assert [(replace(link, u=0, v=0, u_port=0, v_port=0), {link.u, link.v}) for link in found.links] == ends


def test_dot_and_mermaid_quote_names(printed: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(to_json(_WRITTEN))
    topology = ("topology", "--topology", path, "--to")
    lines = {form: printed(*topology, form).splitlines() for form in ("dot", "mermaid")}
    words = "cost 7, loss_percent 1, bandwidth_mbps 5, delay_ms 2.5, jitter_ms 0.5, reorder_percent 10"
    assert lines["dot"] == [
        r'graph "my \"net\"" {',
        r'  0 [label="0 a \"b\" \\ #1" pos="1.5,-2!"];',
        *('  1 [label="1" pos="0,0!"];', '  2 [label="2 <&>" pos="3,1e-07!"];'),
        *(f'  0 -- 1 [label="{words}, duplicate_percent 3"];', '  2 -- 1 [label=""];', "}"),
    ]
    assert lines["mermaid"] == [
        *("graph LR", r'  n0["0 a #quot;b#quot; \ #35;1"]', '  n1["1"]', '  n2["2 <&>"]'),
        *(f'  n0 ---|"{words}, duplicate_percent 3"| n1', "  n2 --- n1"),
    ]
