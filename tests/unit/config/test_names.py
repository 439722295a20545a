"""Names of nodes: in every form of a topology, and everywhere that a node is shown."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from captures.rundir import RunLayout
from captures.rundir.clock import read_clock
from captures.tables.query import connect
from testbed.api import simulate
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import ExperimentError, load_experiment
from testbed.results.live.state import SLOT_NS, LiveState
from testbed.results.live.view import live_table
from testbed.results.live.watch import Watcher
from testbed.results.report.render import write_report
from testbed.results.trace import listed
from testbed.results.trace.build import trace
from testbed.results.trace.show import lines
from testbed.support.names import node_id
from tests.support.cases import cases_beside
from tests.support.polling import poll

_NAMES = '[topology.names]\n0 = "Bern"\n2 = "Zürich"\n'


def _load(folder: Path, topology: str) -> Experiment:
    path = folder / "e.toml"
    path.write_text(f"duration_s = 20\n[topology]\n{topology}", encoding="utf-8")
    return load_experiment(path)


@pytest.mark.parametrize("form", ['generator = "ring"\nnodes = 3', 'file = "named.toml"'])
def test_names_take_the_place_of_those_of_the_topology(tmp_path: Path, form: str) -> None:
    nodes, links = '[[node]]\nid = 0\nname = "Old"\n', "[[link]]\nu = 0\nv = 1\n[[link]]\nu = 1\nv = 2\n"
    (tmp_path / "named.toml").write_text(f"{nodes}[[node]]\nid = 1\n[[node]]\nid = 2\n{links}")
    topology = _load(tmp_path, f"{form}\n{_NAMES}").topology
    assert [node.name for node in topology.nodes] == ["Bern", None, "Zürich"]
    assert [topology.label(node) for node in range(3)] == ["0 Bern", "1", "2 Zürich"]
    assert node_id("Zürich", topology) == 2


@pytest.mark.parametrize(("names", "problem"), cases_beside(__file__)["wrong_names"])
def test_a_wrong_name_is_a_problem_of_its_key(tmp_path: Path, names: str, problem: str) -> None:
    with pytest.raises(ExperimentError) as raised:
        _load(tmp_path, f'generator = "ring"\nnodes = 3\n[topology.names]\n{names}\n')
    assert str(raised.value).endswith(f"[topology] names: {problem}")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated run on a ring of three, of which two nodes have names, accounted for."""
    folder = tmp_path_factory.mktemp("named")
    path = folder / "e.toml"
    events = (
        '[[events]]\nat_s = 1\naction = "set_predicate"\nnode = "Zürich"\npredicate = "a < 5"\n'
        '[[events]]\nat_s = 5\naction = "send_message"\nnode = "Bern"\nmessage = "a = 1"\n'
        '[[events]]\nat_s = 10\naction = "link_down"\nlink = ["Bern", "Zürich"]\n'
    )
    path.write_text(
        f'duration_s = 20\n[topology]\ngenerator = "ring"\nnodes = 3\n{_NAMES}{events}', encoding="utf-8"
    )
    return simulate(load_experiment(path), runs=folder / "runs", accounting="duckdb").path


def test_a_trace_names_the_nodes(run: Path) -> None:
    with connect(run) as database:
        (message,) = listed(database)
        shown = list(lines(trace(run, database, message)))
    assert shown[1].startswith("sent at 5.000 s (experiment time) by r0 Bern, sequence number ")
    assert "r0 Bern" in shown
    assert any(line.startswith("└─ r2 Zürich  by interface ") for line in shown)


def test_the_table_of_nodes_has_the_names(run: Path) -> None:
    with connect(run) as database:
        assert database.execute("select node, name from nodes order by node").fetchall() == [
            (0, "Bern"),
            (1, None),
            (2, "Zürich"),
        ]


def test_the_live_view_names_nodes_links_and_events(run: Path) -> None:
    state = LiveState(run)
    with Watcher(state):
        poll(lambda: state.snapshot()["events"] or None, 30, "events are read")
        poll(lambda: any("down" in event["text"] for event in state.snapshot()["events"]) or None, 30, "down")
    assert [node["label"] for node in state.topology["nodes"]] == ["0 Bern", "1", "2 Zürich"]
    assert "link 2 Zürich-0 Bern down" in [event["text"] for event in state.snapshot()["events"]]
    index = next(link["index"] for link in state.topology["links"] if {link["u"], link["v"]} == {0, 2})
    slot = read_clock(RunLayout(run)).start_ns // SLOT_NS + 1
    state.take_counts([(index, "MSG", slot, 30, 3000)])
    snapshot = state.snapshot()
    snapshot["links"] = [{**link, "recent": 1.0} for link in snapshot["links"]]
    out = StringIO()
    Console(file=out, width=100).print(live_table(snapshot, state.topology, "http://127.0.0.1/"))
    assert "2 Zürich-0 Bern" in out.getvalue()


def test_the_report_names_nodes_in_tables_and_captions(run: Path) -> None:
    page = write_report(run).read_text(encoding="utf-8")
    assert "The busiest link, 2 Zürich–0 Bern, carried" in page or "1–2 Zürich" in page or "0 Bern–1" in page
    assert '<td class="n" data-value="0.0">0 Bern</td>' in page
    assert '<td class="n" data-value="1.0">1</td>' in page
