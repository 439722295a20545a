"""The topologies in plain Mininet: built as `mn` builds them, and run by `mn` itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from router.wire.header import HOST_PORT
from tests.support.paths import ROOT
from tests.support.system_switches import start_open_vswitch
from topos import Topology
from topos.generators import ring, tree, waxman
from topos.loaders import load

_FILE = ROOT / "topos" / "mininet_topos.py"
_SYSTEM_PYTHON = "/usr/bin/python3"
_MN = Path("/usr/bin/mn")
_MININET = Path("/usr/lib/python3/dist-packages/mininet")
_DELAYED = Path(__file__).with_name("delayed.toml").read_text()
#: Prints what `mn` would build: it executes the file as `mn --custom` does, with the system's Python.
_DESCRIBE = """
import json, sys
from mininet.util import buildTopo
names = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), names, names)
topo = buildTopo(names["topos"], sys.argv[2])
links = [{k: getattr(v, "__name__", v) for k, v in i.items()} for *_, i in topo.links(withInfo=True)]
json.dump({
    "globals": [name for name in names if not name.startswith("_")],
    "hosts": topo.hosts(),
    "switches": {s: topo.nodeInfo(s)["dpid"] for s in topo.switches()},
    "links": links,
}, sys.stdout)
"""
#: Runs /usr/bin/mn. When something fails, mn removes all that looks like Mininet's on the whole machine:
#: this test must not do that to other networks.
_RUN_MN = """
import runpy, sys
import mininet.clean
mininet.clean.cleanup = lambda: None
sys.argv = ["mn", *sys.argv[1:]]
runpy.run_path("/usr/bin/mn", run_name="__main__")
"""

needs_mininet = pytest.mark.skipif(not _MININET.is_dir(), reason="the system's Python has no Mininet")


def _environment() -> dict[str, str]:
    """This one without what a virtual environment adds."""
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}


def _run(folder: Path, code: str, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Executes code by the system's Python."""
    return subprocess.run(
        [_SYSTEM_PYTHON, "-c", code, *arguments],
        input=typed,
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _describe(folder: Path, file: str, topo: str) -> dict[str, Any]:
    done = _run(folder, _DESCRIBE, file, topo)
    assert done.returncode == 0, done.stderr
    described: dict[str, Any] = json.loads(done.stdout)
    return described


def _expected_links(topology: Topology) -> set[tuple[str, int, str, int]]:
    hosts = {(f"s{node.id}", HOST_PORT, f"r{node.id}", 0) for node in topology.nodes}
    return hosts | {(f"s{k.u}", k.u_port, f"s{k.v}", k.v_port) for k in topology.links}


@needs_mininet
@pytest.mark.parametrize(
    ("topo", "topology"),
    [
        ("waxman,20", waxman(20)),
        ("waxman,10,3,cost=unit", waxman(10, 3, cost="unit")),
        ("ring,4", ring(4)),
        ("tree,2,3", tree(2, 3)),
    ],
)
def test_nodes_and_ports_are_those_of_the_model(tmp_path: Path, topo: str, topology: Topology) -> None:
    built = _describe(tmp_path, str(_FILE), topo)
    ids = [node.id for node in topology.nodes]
    assert built["hosts"] == [f"r{i}" for i in ids]
    assert built["switches"] == {f"s{i}": f"{i + 1:016x}" for i in ids}
    ends = {(k["node1"], k["port1"], k["node2"], k["port2"]) for k in built["links"]}
    assert ends == _expected_links(topology)
    assert not any("cls" in link for link in built["links"])


@needs_mininet
def test_declared_properties_make_a_tc_link(tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(_DELAYED, encoding="utf-8")
    built = _describe(tmp_path, str(_FILE), "toml,slow.toml")
    links = {(k.pop("node1"), k.pop("node2")): k for k in built["links"]}
    shaped = {"bw": 20.0, "delay": "1.5ms", "loss": 2.0, "cls": "TCLink"}
    assert links["s0", "s1"] == {"port1": 1, "port2": 1, **shaped}
    assert links["s1", "s2"] == {"port1": 2, "port2": 1}


@needs_mininet
def test_found_from_any_directory_by_a_relative_name(tmp_path: Path) -> None:
    relative = os.path.relpath(_FILE, tmp_path)
    assert len(_describe(tmp_path, relative, "grid,3,4")["hosts"]) == 12


@needs_mininet
def test_defines_no_name_that_mn_uses(tmp_path: Path) -> None:
    """`mn` copies every global of the file over its own."""
    defined = _describe(tmp_path, str(_FILE), "line,2")["globals"]
    text = _MN.read_text(encoding="utf-8")
    # `topos` is the one that it expects.
    defined.remove("topos")
    assert [name for name in defined if re.search(rf"\b{name}\b", text)] == []


def _devices() -> set[str]:
    """Bridges and interfaces with the names that Mininet gives."""
    listed = subprocess.check_output(["ip", "-o", "link"], text=True)
    bridges = subprocess.check_output(["ovs-vsctl", "--timeout=60", "list-br"], text=True)
    names = set(re.findall(r"^\d+: ([^:@]+)", listed, re.MULTILINE)) | set(bridges.split())
    return {name for name in names if re.fullmatch(r"[rs]\d+(-eth\d+)?", name)}


@needs_mininet
@pytest.mark.root
@pytest.mark.emulation
@pytest.mark.parametrize(("topo", "file"), [("ring,4", ""), ("tree,1,2", ""), ("toml,three.toml", _DELAYED)])
def test_mn_runs_it_and_leaves_nothing(tmp_path: Path, topo: str, file: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    start_open_vswitch()
    if _devices():
        pytest.skip("another Mininet network with the names s0, r0, ... is running")
    if file:
        # Bandwidth alone: delay and loss need sch_netem.
        text = file.replace("delay_ms = 1.5\nloss_percent = 2\n", "")
        (tmp_path / "three.toml").write_text(text, encoding="utf-8")
        topology = load(tmp_path / "three.toml")
    else:
        topology = {"ring,4": ring(4), "tree,1,2": tree(1, 2)}[topo]
    ends = sorted({(s, p) for s, p, _, _ in _expected_links(topology)})
    asked = "\n".join(f"sh ovs-vsctl get Interface {s}-eth{p} ofport" for s, p in ends)
    switches = "\n".join(f"sh ovs-vsctl get Bridge s{n.id} other-config:datapath-id" for n in topology.nodes)
    switch = ["--switch", "ovs,datapath=user", "--controller", "none"]
    options = ["--custom", str(_FILE), "--topo", topo, *switch]
    done = _run(tmp_path, _RUN_MN, *options, typed=f"{asked}\n{switches}\nexit\n")
    output = done.stdout + done.stderr
    left = _devices()
    assert not left, f"{left} left behind\n{output}"
    assert "Caught exception" not in output, output
    # The kernel warns of HTB's quantum at such a rate; Mininet calls all that tc says an error.
    assert not re.search("Error: (?!Warning: sch_htb: quantum)", output), output
    numbers = [int(number) for number in re.findall(r"^(?:mininet> )?(\d+)$", done.stdout, re.MULTILINE)]
    assert numbers == [port for _, port in ends], output
    dpids = re.findall(r'"([0-9a-f]{16})"', done.stdout)
    assert dpids == [f"{node.id + 1:016x}" for node in topology.nodes], output
