"""The testbed in Python: experiments as objects, results, and the notebook of examples/."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import networkx as nx
import numpy as np
import pytest

import testbed
from captures.rundir import RunLayout
from testbed import api
from testbed.cli.main import main
from testbed.experiments.config.schema import ExperimentError
from testbed.machine import probes
from testbed.support.errors import InputError
from tests.support.paths import ROOT
from topos.generators import ring, waxman
from topos.graphs import from_networkx


def test_an_experiment_takes_settings_and_topologies_of_every_form() -> None:
    drawn = api.experiment(topology="waxman,9", seed=4, settings={"routing.scheme": "flooding"})
    assert (drawn.topology, drawn.seed, drawn.routing.scheme) == (waxman(9, seed=4), 4, "flooding")
    assert api.experiment(topology=ring(5)).topology == ring(5)
    graph = nx.karate_club_graph()
    assert api.experiment(topology=graph).topology == from_networkx(graph)


def test_settings_that_are_not_valid_name_the_key() -> None:
    with pytest.raises(ExperimentError, match=r"\[workload\] senders_percent .*-1 is not valid"):
        api.experiment(settings={"workload.senders_percent": -1})


_RING: dict[str, Any] = {"topology": "ring,5", "seed": 2, "duration_s": 300.0}
RING = api.experiment(**_RING)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> api.Result:
    """A simulation under a umask that lets everyone write."""
    runs = tmp_path_factory.mktemp("runs")
    before = os.umask(0)
    try:
        result = api.simulate(RING, runs=runs, accounting="duckdb")
    finally:
        assert os.umask(before) == 0
    return result


def test_a_simulation_returns_its_keys(ran: api.Result, tmp_path: Path) -> None:
    assert ran.verdict == "holds"
    assert ran.summary["routers"] == 5
    assert ran.summary["messages_sent"] == ran.summary["messages_planned"] > 0
    assert api.open_run(ran.path).summary == ran.summary
    assert ran.arrow("messages").num_rows == ran.summary["messages_sent"]
    with pytest.raises(InputError, match="has no table letters"):
        ran.arrow("letters")
    with pytest.raises(InputError, match='expected "spark" or "duckdb"'):
        api.simulate(RING, runs=tmp_path, accounting="sqlite")


def test_no_other_user_may_write_to_what_a_simulation_leaves_whatever_the_umask(ran: api.Result) -> None:
    assert [path for path in ran.path.parent.rglob("*") if path.stat().st_mode & 0o022] == []


def test_runs_are_compared_key_by_key(ran: api.Result, tmp_path: Path) -> None:
    """Folders may be texts."""
    flooding = api.experiment(settings={"routing.scheme": "flooding"}, **_RING)
    results = [ran, api.simulate(flooding, runs=str(tmp_path), accounting="duckdb")]
    table = api.compare(ran, str(results[1].path))
    # Runs of the same second have the same name: their columns are paths.
    assert [Path(name).name for name in table.columns] == [result.path.name for result in results]
    expected = [result.summary["message_crossings"]["cbcb"] for result in results]
    assert table.loc["message_crossings.cbcb"].tolist() == expected
    assert expected[0] < expected[1]
    # Both have the network, and all keys.
    assert "routers" not in table.index
    assert api.compare(*results, differing=False).loc["routers"].tolist() == [5, 5]
    with pytest.raises(InputError, match="is not the folder of a run"):
        api.compare(ran, tmp_path)


@pytest.mark.spark
def test_tables_are_pandas_and_arrow(tmp_path: Path) -> None:
    result = api.simulate(RING, runs=tmp_path)
    assert len(result.table("messages")) == result.arrow("messages").num_rows
    assert result.arrow("messages").num_rows == result.summary["messages_sent"]
    (line,) = result.plot("false_positive_curve").get_lines()
    assert np.size(line.get_xdata()) == result.arrow("false_positive_curve").num_rows


def test_a_figure_draws_on_axes(tmp_path: Path) -> None:
    figure = api.figure("match", size="small", seeds=1, folder=tmp_path)
    axes = figure.plot()
    assert axes.get_title() == figure.panels[0].title
    assert len(figure.statements) == 8
    assert figure.holds == all(each.holds for each in figure.statements)
    with pytest.raises(InputError, match="engine is 'emulate'; expected one of simulate, run"):
        api.figure("match", engine="emulate")


def test_a_figure_writes_the_page_of_the_command(tmp_path: Path) -> None:
    figure = api.figure("match", size="small", seeds=1, folder=tmp_path / "a", output=str(tmp_path / "a"))
    command = ["figure", "match", "--size", "small", "--seeds", "1", "--runs", str(tmp_path)]
    assert main([*command, "-o", str(tmp_path / "b")]) == (0 if figure.holds else 1)
    assert figure.page == tmp_path / "a" / "match-small.md"
    for name in ("match-small.md", "match-small.svg", "match-small.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_calculated_figure_is_refused_before_the_machine_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.machine.probes.succeeds", lambda _: pytest.fail("the machine was asked"))
    probes.datapath.cache_clear()
    with pytest.raises(InputError, match="this figure is calculated, and has no network to emulate"):
        api.figure("alpha", size="small", engine="run", folder=tmp_path)


def test_the_example_uses_names_that_exist() -> None:
    used = set(re.findall(r"testbed\.([a-z_]+)\(", api.__doc__ or ""))
    assert used
    assert used <= set(api.__all__)
    for variable, found in (("figure", api.Reproduced), ("result", api.Result), ("network", api.Running)):
        attributes = set(re.findall(rf"\b{variable}\.([a-z_]+)", api.__doc__ or ""))
        assert attributes
        assert attributes <= {*dir(found), *getattr(found, "__dataclass_fields__", ())}


@pytest.mark.spark
def test_a_sweep_is_a_mapping_or_a_file(tmp_path: Path) -> None:
    swept = api.sweep(
        {
            "experiment": "ring5",
            "seeds": 2,
            "set": {"name": "#1?%41"},
            "grid": {"routing.scheme": ["pif", "flooding"]},
        },
        folder=str(tmp_path),
        keep=True,
    )
    assert len([each for each in (tmp_path / "runs").iterdir() if RunLayout(each).manifest.is_file()]) == 4
    assert swept.complaints == []
    crossings = swept.runs["message_crossings.cbcb"].to_pylist()
    # Flooding is the second half.
    assert sum(crossings[:2]) < sum(crossings[2:])
    reports = re.findall(r'href="(runs/[^"]+)"', (tmp_path / "sweep.html").read_text())
    assert len(set(reports)) == 4
    for report in reports:
        assert f'<a href="../../sweep.html">{tmp_path.name}</a>' in (tmp_path / unquote(report)).read_text()


def test_the_package_offers_the_api() -> None:
    assert all(getattr(testbed, name) is getattr(api, name) for name in api.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'simulat'"):
        getattr(testbed, "simulat")  # noqa: B009 - mypy knows that it is missing


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda path: path.name)
def test_the_cells_of_a_notebook_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict[str, Any] = {}
    # Runs of the notebook go where the test says.
    monkeypatch.setitem(api.simulate.__kwdefaults__ or {}, "runs", tmp_path)
    monkeypatch.setattr(api, "DEFAULT_RUNS", tmp_path)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    # Whether the other statements hold depends on the seeds (docs/figures/match.md).
    assert names["match"].failures == []
    assert [each.holds for each in names["match"].statements[1:3]] == [True, True]
    assert "verdict: holds" in capsys.readouterr().out
