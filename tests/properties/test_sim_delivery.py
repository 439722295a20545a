"""On any network, with any delays and changes, a simulation delivers what the oracle says."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from fuzz import cases
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from captures.pcap import PcapReader
from router.wire.addresses import HOST_PORT
from testbed.config.load import load_experiment
from testbed.config.model import Experiment
from testbed.oracle.decide import judge
from testbed.oracle.history import read_history
from testbed.run.progress import Progress
from testbed.sim.simulation import simulate
from topos.model import Topology

#: Virtual seconds (the time scale is 1) around a change in which the oracle leaves a message open.
_WINDOW_S = 1.0
_EXPERIMENT = """
seed = {seed}
duration_s = 30
time_scale = 1
[topology]
generator = "waxman"
nodes = {nodes}
links_per_node = {links}
[workload]
senders_percent = 40
receivers_percent = 80
messages_per_minute = 60
changing_receivers_percent = 60
predicate_change_interval_s = 8
first_message_s = 3
"""


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    """Up to eight routers; links without loss, some of them slow."""
    text = _EXPERIMENT.format(
        seed=draw(st.integers(0, 10_000)), nodes=draw(st.integers(4, 8)), links=draw(st.integers(1, 2))
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.toml"
        path.write_text(text)
        experiment = load_experiment(path)
    delays = st.one_of(st.none(), st.floats(0.1, 50))
    bandwidths = st.one_of(st.none(), st.floats(1, 100))
    links = tuple(
        replace(link, delay_ms=draw(delays), bandwidth_mbps=draw(bandwidths))
        for link in experiment.topology.links
    )
    topology = experiment.topology
    return replace(experiment, topology=Topology(topology.name, topology.nodes, links))


@settings(max_examples=cases(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(experiments())
def test_deliveries_are_those_of_the_oracle_and_every_frame_is_counted(experiment: Experiment) -> None:
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "output").open("w") as output:
        run_dir = simulate(experiment, Path(folder), Progress(Console(file=output)))
        _check_deliveries(run_dir)
        _check_counters(run_dir, experiment.topology)


def _check_deliveries(run_dir: Path) -> None:
    judged = {(j.source, j.seq, j.application.node): j for j in judge(read_history(run_dir), _WINDOW_S)}
    lines = map(json.loads, (run_dir / "logs" / "applications.jsonl").read_text().splitlines())
    made = Counter(
        (line["source"], line["seq"], line["node"]) for line in lines if line["event"] == "deliver"
    )
    assert set(made.values()) <= {1}
    assert {key for key, j in judged.items() if j.expected and j.decided} <= made.keys()
    assert made.keys() <= judged.keys()


def _check_counters(run_dir: Path, topology: Topology) -> None:
    captured = {
        path.stem: Counter(record.data[6:12] for record in PcapReader(path).records())
        for path in (run_dir / "pcap").iterdir()
    }
    switches = json.loads((run_dir / "counters" / "ovs.json").read_text())
    routers = json.loads((run_dir / "counters" / "routers.json").read_text())
    for link in topology.links:
        at_u, at_v = switches[str(link.u)][str(link.u_port)], switches[str(link.v)][str(link.v_port)]
        assert at_u["tx_packets"] == at_v["rx_packets"]
        assert at_v["tx_packets"] == at_u["rx_packets"]
        crossed = captured[f"link-{link.u}-{link.v}"]
        assert crossed.total() == at_u["tx_packets"] + at_v["tx_packets"]
    for node in topology.nodes:
        port, router = switches[str(node.id)][str(HOST_PORT)], routers[str(node.id)]
        assert port["rx_packets"] == sum(router["frames_sent"].values())
        assert port["tx_packets"] == sum(router["frames_received"].values())
        assert captured[f"host-{node.id}"].total() == port["rx_packets"] + port["tx_packets"]
        assert router["bytes_sent"] == port["rx_bytes"]
