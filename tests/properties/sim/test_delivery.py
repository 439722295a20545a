"""On any network, with any delays and changes, a simulation delivers as the oracle expects."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from captures.pcap.reader import PcapReader
from captures.rundir import RunLayout
from router.wire.header import HOST_PORT
from testbed.experiments.config import Experiment
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import read_history
from tests.support.applications import application_events
from tests.support.fuzz import cases
from tests.support.random_experiments import _WINDOW_S, experiments
from tests.support.simulated import simulated
from topos import Topology


@settings(max_examples=cases(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(experiments())
def test_deliveries_are_those_of_the_oracle_and_every_frame_is_counted(experiment: Experiment) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = simulated(experiment, Path(folder))
        _check_deliveries(run)
        _check_counters(run, experiment.topology)


def _check_deliveries(run: RunLayout) -> None:
    judged = {(j["source"], j["seq"], j["node"]): j for j in judge(read_history(run), _WINDOW_S)}
    lines = application_events(run.path)
    made = Counter(
        (line["source"], line["seq"], line["node"]) for line in lines if line["event"] == "deliver"
    )
    assert set(made.values()) <= {1}
    assert {key for key, j in judged.items() if j["expected"] and j["decided"]} <= made.keys()
    assert made.keys() <= judged.keys()


def _check_counters(run: RunLayout, topology: Topology) -> None:
    captured = {
        path.stem: Counter(record.data[6:12] for record in PcapReader(path).records())
        for path in run.captures_folder.iterdir()
    }
    switches = json.loads(run.switches_counters.read_text())
    routers = json.loads(run.routers_counters.read_text())
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
