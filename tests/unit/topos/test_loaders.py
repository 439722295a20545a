"""Topology files: their content, and errors that name file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cases import cases_beside
from topos import LinkSpec, Node, Topology, TopologyError
from topos.build import build
from topos.generators import waxman
from topos.loaders import from_json, load, to_json

#: Files of each format.
_FILES = Path(__file__).with_name("files")
_TOML = (_FILES / "pair.toml").read_text()
_BRITE = (_FILES / "waxman.brite").read_text()
_GML = (_FILES / "zoo.gml").read_text()
_SNDLIB_XML = (_FILES / "sndlib.xml").read_text()
_SNDLIB_NATIVE = (_FILES / "sndlib.txt").read_text()
_CCH = (_FILES / "map.cch").read_text()
_CASES = cases_beside(__file__)


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_toml(tmp_path: Path) -> None:
    topology = load(_write(tmp_path, "t.toml", _TOML))
    assert topology.name == "pair and one"
    assert topology.nodes == (Node(0), Node(1, 10.0, 2.5), Node(2))
    first, second = topology.links
    assert (first.u, first.v, first.cost, first.bandwidth_mbps) == (0, 1, 4, None)
    assert (second.cost, second.bandwidth_mbps, second.delay_ms, second.loss_percent) == (1, 10.0, 0.5, 1.0)
    assert (second.u_port, second.v_port) == (1, 2)


def test_toml_nodes_may_be_left_out(tmp_path: Path) -> None:
    topology = load(_write(tmp_path, "short.toml", "link = [{ u = 0, v = 1 }, { u = 1, v = 2 }]"))
    assert topology.name == "short"
    assert topology.nodes == (Node(0), Node(1), Node(2))


def test_brite_takes_the_length_as_cost(tmp_path: Path) -> None:
    topology = load(_write(tmp_path, "t.brite", _BRITE))
    assert topology.name == "t"
    assert topology.nodes[0] == Node(0, 619.0, 665.0)
    assert [(link.u, link.v, link.cost) for link in topology.links] == [(1, 2, 1), (1, 0, 417), (0, 2, 249)]
    assert {(link.bandwidth_mbps, link.delay_ms) for link in topology.links} == {(None, None)}


def test_a_note_says_what_is_left_out(tmp_path: Path) -> None:
    parallel = "\n3\t2\t0\t17.4\t0.1\t10.0\t-1\t-1\tE_RT\tU\n4\t0\t2\t99\t0.1\t10.0\t-1\t-1\tE_RT\tU\n"
    path = _write(tmp_path, "t.brite", _BRITE.replace("Edges: ( 3 )", "Edges: ( 5 )").rstrip() + parallel)
    topology = load(path)
    assert [(link.u, link.v, link.cost) for link in topology.links] == [(1, 2, 1), (1, 0, 417), (2, 0, 17)]
    properties, links = topology.notes
    assert properties.startswith("bandwidths and delays of the file are left out")
    assert links == "2 parallel links are left out: of those between two nodes, that of least cost is kept"
    kept = load(path, keep_properties=True)
    assert kept.notes == (links,)
    assert [(k.bandwidth_mbps, k.delay_ms) for k in kept.links] == [(10.0, 2.8), (None, 1.4), (10.0, 0.1)]


@pytest.mark.parametrize(
    ("form", "old", "new", "message"),
    [
        *_CASES["changed"],
        (
            "toml",
            _TOML[_TOML.index("[[node]]") :],
            "[link]\nu = 0",
            "line 4: link: expected a list of tables ([[link]] in TOML)",
        ),
        ("brite", _BRITE[_BRITE.index("Edges:") :], "", "no line 'Edges: ( n )'; expected a BRITE file"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, form: str, old: str, new: str, message: str) -> None:
    text = {"toml": _TOML, "brite": _BRITE, "xml": _SNDLIB_XML, "txt": _SNDLIB_NATIVE}[form]
    assert old in text
    path = _write(tmp_path, f"t.{form}", text.replace(old, new, 1))
    with pytest.raises(TopologyError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name, why in (
        ("none.toml", "cannot be read: No such file"),
        ("x.graph", "unknown kind of file; expec"),
    ):
        with pytest.raises(TopologyError, match=f"{name}: {why}"):
            load(tmp_path / name)


def test_json_has_the_fields_of_the_run_folder() -> None:
    document = json.loads(to_json(waxman(3, 1)))
    assert document.keys() == {"name", "nodes", "links"}
    assert document["nodes"][0].keys() == {"id", "x", "y"}
    assert list(document["links"][0]) == [
        *("index", "u", "v", "u_port", "v_port"),
        *("cost", "bandwidth_mbps", "delay_ms", "loss_percent"),
    ]


@pytest.mark.parametrize(("change", "message"), _CASES["json"])
def test_json_errors(change: dict[str, object], message: str) -> None:
    document = {"name": "t", "nodes": [{"id": 0}, {"id": 1}], "links": [], **change}
    with pytest.raises(TopologyError) as caught:
        from_json(json.dumps(document))
    assert message in str(caught.value)


def test_what_is_not_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"t\.json: not valid JSON"):
        _loaded(tmp_path, "t.json", "[")
    with pytest.raises(TopologyError, match='an object with "name", "nodes" and "links"'):
        from_json("[]")


# Files of the Topology Zoo (GML), SNDlib, Rocketfuel and CAIDA.


def _loaded(folder: Path, name: str, text: str, **options: bool) -> Topology:
    return load(_write(folder, name, text), **options)


def test_gml_of_the_topology_zoo_has_names_places_and_speeds(tmp_path: Path) -> None:
    nodes = [Node(0, 12.5, 41.9, "Rome"), Node(1, name="Milan (8)"), Node(2, name="Milan (9)")]
    found = _loaded(tmp_path, "zoo.gml", _GML, keep_properties=True)
    assert found.nodes == tuple(nodes)
    assert [(link.u, link.v, link.bandwidth_mbps) for link in found.links] == [(0, 1, 10_000), (1, 2, None)]
    assert found.notes == (
        "1 parallel links are left out: of those between two nodes, the fastest, else the first, is kept",
    )


@pytest.mark.parametrize(("name", "text"), [("a.xml", _SNDLIB_XML), ("a.txt", _SNDLIB_NATIVE)])
def test_both_forms_of_sndlib_give_nodes_in_their_places(tmp_path: Path, name: str, text: str) -> None:
    found = _loaded(tmp_path, name, text.replace("ö", "oe"))
    nodes = [Node(0, 6.04, 50.76, "Aachen"), Node(1, 6.96, 50.94, "Koeln")]
    assert found == build("a", nodes, [LinkSpec(0, 1)])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.xml", _SNDLIB_XML.replace("UTF-8", "ISO-8859-1")),
        (
            "a.gml",
            'graph [ node [ id 0 label "Aachen" ] node [ id 1 label "Köln" ] edge [ source 0 target 1 ] ]',
        ),
    ],
)
def test_a_file_may_be_in_latin_1(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode("latin-1"))
    assert [node.name for node in load(path).nodes] == ["Aachen", "Köln"]


def test_a_rocketfuel_map_has_the_routers_of_the_isp_alone(tmp_path: Path) -> None:
    names = ("Perth, Australia 1", "Sydney, Australia 2", "Sydney, Australia 5")
    nodes = [Node(number, name=name) for number, name in enumerate(names)]
    assert _loaded(tmp_path, "1221.cch", _CCH) == build("1221", nodes, [LinkSpec(0, 1), LinkSpec(0, 2)])


def test_weights_of_rocketfuel_are_costs(tmp_path: Path) -> None:
    found = _loaded(tmp_path, "weights.intra", "Perth,+WA1 Sydney 7.6\nSydney Perth,+WA1 7.6\n")
    assert found == build(
        "weights", [Node(0, name="Perth, WA1"), Node(1, name="Sydney")], [LinkSpec(0, 1, 8)]
    )


@pytest.mark.parametrize("more", ["", "|bgp"])
def test_relationships_of_caida_join_autonomous_systems(tmp_path: Path, more: str) -> None:
    text = f"# source:topology\n3356|1|-1{more}\n1|7018|0{more}\n11|12|0{more}\n"
    with pytest.raises(TopologyError, match=r"not connected: 2 parts of 3 to 2 nodes; topology\.largest"):
        _loaded(tmp_path, "20240101.as-rel.txt", text)
    found = _loaded(tmp_path, "20240101.as-rel.txt", text, largest=True)
    assert [node.name for node in found.nodes] == ["AS3356", "AS1", "AS7018"]
    assert [(link.u, link.v) for link in found.links] == [(0, 1), (1, 2)]


@pytest.mark.parametrize(("name", "text", "complaint"), _CASES["malformed"])
def test_a_malformed_file_is_refused_with_the_place(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        _loaded(tmp_path, name, text)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")
    assert complaint in str(caught.value)
