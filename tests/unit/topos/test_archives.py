"""Files of the Topology Zoo (GML), SNDlib, Rocketfuel and CAIDA."""

from __future__ import annotations

from pathlib import Path

import pytest

from topos import Node, Topology, TopologyError
from topos.build import LinkSpec, build
from topos.loaders import load

_GML = """graph [
  label "Zoo"
  node [ id 3 label "Rome" Longitude 12.5 Latitude 41.9 ]
  node [ id 8 label "Milan" ]
  node [ id 9 label "Milan" ]
  edge [ source 3 target 8 LinkSpeedRaw 10000000000 ]
  edge [ source 3 target 8 ]
  edge [ source 8 target 9 ]
]
"""
_SNDLIB_XML = """<?xml version="1.0" encoding="UTF-8"?>
<network xmlns="http://sndlib.zib.de/network" version="1.0">
 <networkStructure>
  <nodes coordinatesType="geographical">
   <node id="Aachen"><coordinates><x>6.04</x><y>50.76</y></coordinates></node>
   <node id="Köln"><coordinates><x>6.96</x><y>50.94</y></coordinates></node>
  </nodes>
  <links><link id="L1"><source>Aachen</source><target>Köln</target></link></links>
 </networkStructure>
</network>
"""
_SNDLIB_NATIVE = """?SNDlib native format; type: network; version: 1.0
# a comment
META (
  granularity = YEAR
)
NODES (
  Aachen ( 6.04 50.76 )
  Koeln ( 6.96 50.94 )
)
LINKS (
  L1 ( Aachen Koeln ) 0.00 0.00 0.00 156.00 ( 155.00 156.00 622.00 468.00 )
)
DEMANDS (
  D1 ( Aachen Koeln ) 1 2.00 UNLIMITED
)
"""
_CCH = """1 @Perth,+Australia + bb (2) &1 -> <2> <5> {-7} =a.example.net r0
2 @Sydney,+Australia (1) -> <1> =b.example.net! r1
5 @Sydney,+Australia\t(1) -> <1> =c.example.net r1
-7 =10.0.0.1 r1
"""


def _loaded(folder: Path, name: str, text: str, **options: bool) -> Topology:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load(path, **options)


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


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.gml", "graph [ node [ id 1 ", "not valid GML: "),
        ("a.gml", "graph [ edge [ source 0 target 1 ] ]", "not valid GML: "),
        ("a.xml", "<network", "not valid XML: "),
        ("a.xml", "<network/>", "the root element is 'network'; expected an SNDlib network"),
        (
            "a.xml",
            _SNDLIB_XML.replace("Köln</target>", "Bonn</target>"),
            "link 'L1': there is no node 'Bonn'",
        ),
        (
            "a.txt",
            _SNDLIB_NATIVE.replace("( 6.04 50.76 )", "6.04"),
            "line 7: 'Aachen 6.04'; expected 'NODE ( X Y )'",
        ),
        ("a.txt", _SNDLIB_NATIVE.replace("6.04", "west"), "node 'Aachen': x is 'west'; expected a number"),
        ("a.txt", "1|2|-1\n1 2\n", "line 2: '1 2'; expected 'AS|AS|RELATIONSHIP', -1 or 0"),
        ("a.cch", "1 Perth (1) -> <2>", "line 1: '1 Perth (1) -> <2>'; expected 'uid @place"),
        ("a.cch", "1 @P (1) -> <2> =a r0\n", "line 1: there is no node '2'"),
        ("a.intra", "Perth Sydney\n", "line 1: 'Perth Sydney'; expected 'ROUTER ROUTER WEIGHT'"),
        ("a.intra", "Perth Sydney far\n", "line 1: 'Perth Sydney far'; expected 'ROUTER ROUTER WEIGHT'"),
        ("a.intra", "A B 3\nB A 7\n", "line 2: B and A have two weights; links here have one cost"),
        ("a.xml", _SNDLIB_XML.replace(' id="Aachen"', ""), "a <node> without an id"),
        ("a.gml", "graph [ node 5 ]", "not valid GML: "),
    ],
)
def test_a_malformed_file_is_refused_with_the_place(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        _loaded(tmp_path, name, text)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")
    assert complaint in str(caught.value)
