"""The testbed in Python: what `import testbed` offers under the names of this module.

```python
import testbed

experiment = testbed.experiment("default", topology="waxman,25", seed=3)
result = testbed.simulate(experiment)
result.summary["false_positives"], result.verdict
result.table("deliveries")  # pandas
result.arrow("deliveries")  # Arrow
result.plot("false_positive_curve")  # matplotlib axes

other = testbed.simulate(testbed.experiment(settings={"routing.scheme": "flooding"}))
testbed.compare(result, other)  # the keys that differ, side by side, as pandas

swept = testbed.sweep({"seeds": 3, "grid": {"routing.scheme": ["pif", "flooding"]}})
figure = testbed.figure("match", size="small", output="figures")  # writes the page of `cbcb figure`, too
figure.holds, figure.statements, figure.tables, figure.plot()

network = testbed.running()  # the emulation that `cbcb run --hold` keeps up
with testbed.connect("r3") as client:  # an application on a node of it
    client.subscribe('dest = "ORD"')
    network.settle()  # the subscription has spread
    for delivery in client.deliveries(timeout=10): ...
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captures.rundir import RunLayout
from captures.rundir.summary import read_summary
from router.predicates import Predicate
from router.privacy import KeyRing
from router.runtime.async_client import AsyncClient
from router.runtime.client import Client, Delivery
from router.runtime.listener import Listener
from testbed.emulation.control.running import Running
from testbed.experiments.config import Experiment
from testbed.experiments.config.hop_limit import load_named
from testbed.experiments.config.load import paths_from
from testbed.experiments.config.schema import toml_value
from testbed.experiments.config.topology import parse_topology_argument
from testbed.results.conclude import account_run
from testbed.results.folders import DEFAULT_RUNS, others_only_read, reproduction_folder, sweep_folder
from testbed.support.errors import InputError
from testbed.terminal.progress import Progress
from topos import Topology

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from matplotlib.axes import Axes

    from testbed.evaluation.figures.reproduction import Panel, Statement, Table
    from testbed.evaluation.sweeps.runner import Swept

__all__ = [
    "AsyncClient",
    "Client",
    "Listener",
    "Reproduced",
    "Result",
    "Running",
    "compare",
    "connect",
    "connect_async",
    "experiment",
    "figure",
    "listen",
    "open_run",
    "run",
    "running",
    "simulate",
    "sweep",
]


def experiment(
    source: str | Path = "default",
    /,
    *,
    topology: str | Topology | Any = None,
    settings: Mapping[str, Any] | None = None,
    **values: Any,
) -> Experiment:
    """Returns an experiment, validated.

    Args:
        source: a file of any form that `cbcb run` takes, or the name of a shipped experiment.
        topology: an argument as of `--topology` ("waxman,100", a file), a `Topology`, or a networkx graph.
        settings: values by dotted key, such as {"routing.scheme": "flooding"}; paths are relative to the
            working folder.
        values: values of keys of the top level, such as `seed`.

    Raises:
        ExperimentError: a value is not valid; names the key.
        TopologyError: the graph is no topology.
    """
    texts = {key: toml_value(value) for key, value in {**(settings or {}), **values}.items()}
    given = paths_from(Path.cwd(), texts)
    chosen: Topology | None = None
    if isinstance(topology, str | Path):
        given |= parse_topology_argument(str(topology))
    elif isinstance(topology, Topology):
        chosen = topology
    elif topology is not None:
        from topos.graphs import from_networkx

        chosen = from_networkx(topology)
    return load_named(str(source), given, chosen)


@dataclass(frozen=True)
class Result:
    """A run that has been accounted for."""

    path: Path

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The keys of docs/reference/summary.md."""
        return read_summary(RunLayout(self.path))

    @property
    def verdict(self) -> str:
        """`holds` or `fails`."""
        return str(self.summary["verdict"])

    def arrow(self, name: str) -> pa.Table:
        """Returns a table of docs/reference/tables.md.

        Raises:
            InputError: the run has no such table.
            RunFolderError: the table is damaged.
        """
        from captures.tables import store

        table = store.read(self.path, name)
        if table is None:
            raise InputError(f"{self.path}: has no table {name} (docs/reference/tables.md)")
        return table

    def table(self, name: str) -> pd.DataFrame:
        """Returns a table as pandas; raises as `arrow`."""
        return self.arrow(name).to_pandas()

    def plot(self, name: str, column: str = "fraction", axes: Axes | None = None) -> Axes:
        """Draws a column of a curve against experiment time, and returns the axes; raises as `arrow`."""
        from testbed.results.report.figures import TIME_LABEL

        points = self.arrow(name).sort_by("t_s")
        axes = axes if axes is not None else _new_axes()
        axes.plot(points["t_s"].to_pylist(), points[column].to_pylist(), label=self.path.name)
        axes.set_xlabel(TIME_LABEL)
        axes.set_ylabel(f"{name}: {column}")
        return axes


@others_only_read()
def simulate(
    experiment: Experiment,
    *,
    runs: str | Path = DEFAULT_RUNS,
    accounting: str = "spark",
    master: str = "local[2]",
) -> Result:
    """Simulates an experiment and accounts for it.

    Args:
        runs: the folder in which the run folder is made.
        accounting: the engine, "spark" or "duckdb" (in this process, without tshark).
        master: Spark's master URL.

    Raises:
        TestbedError, SessionError: as `cbcb simulate`.
    """
    from testbed.sim.simulation import simulate as simulated

    if accounting not in ("spark", "duckdb"):
        raise InputError(f'accounting is {accounting!r}; expected "spark" or "duckdb"')
    path = simulated(experiment, Path(runs), Progress())
    account_run(path, master, Progress(), accounting)
    return Result(path)


@others_only_read()
def run(experiment: Experiment, *, runs: str | Path = DEFAULT_RUNS, master: str = "local[2]") -> Result:
    """Emulates an experiment (as root) and accounts for it.

    Raises:
        TestbedError, SessionError: as `cbcb run`.
    """
    from testbed.emulation.run.emulation import emulate
    from testbed.machine.checks import require_machine
    from testbed.machine.probes import datapath

    require_machine(experiment)
    path = emulate(experiment, Path(runs), datapath(), Progress())
    account_run(path, master, Progress())
    return Result(path)


def open_run(path: str | Path) -> Result:
    """Returns the result of an earlier run.

    Raises:
        InputError: the folder has no summary.
    """
    if not RunLayout(Path(path)).summary.is_file():
        raise InputError(f"{path}: is not the folder of a run that has been accounted for")
    return Result(Path(path))


def compare(*runs: Result | str | Path, differing: bool = True, other_code: str = "refuse") -> pd.DataFrame:
    """Returns the keys of several runs side by side, as `cbcb compare`: a row a key, a column a run.

    Their curves over each other: `Result.plot` with the axes of the first.

    Args:
        runs: results, or run folders.
        differing: only keys that differ.
        other_code: "keep": runs of different code may be compared.

    Raises:
        InputError: different code made the runs, or a folder is not that of a run that has been accounted
            for.
    """
    import pandas as pd

    from testbed.results.report import comparison

    paths = [(each if isinstance(each, Result) else open_run(each)).path for each in runs]
    found = comparison.compare(paths, other_code=other_code)
    rows = [row for row in found if row.differs or not differing]
    return pd.DataFrame(
        [row.values for row in rows],
        index=pd.Index([row.key for row in rows], name="key"),
        columns=comparison.names_of(paths),
        dtype=object,
    )


def running(run: str | None = None) -> Running:
    """Returns a running emulation.

    Args:
        run: its tag; None: the emulation of this checkout.

    Raises:
        InputError: no such emulation is running, or several are.
    """
    return Running.find(run)


def connect(
    node: int | str, app: str | None = None, *, run: str | None = None, key: KeyRing | None = None
) -> Client:
    """Connects an application to the router of a node of a running emulation.

    The router records what the application does: it is accounted for with the run.

    Args:
        node: number, host (r3) or name of the node.
        app: name of the application, unique at its router (None: the router names it).
        run: see `running`.
        key: the keys of a run with privacy, such as `running().keys()`.

    Raises:
        InputError: the run or the node does not exist.
        ClientError: the router does not answer, or has an application of that name.
    """
    network = running(run)
    return network.client(network.node(str(node)), app, key)


def connect_async(
    node: int | str, app: str | None = None, *, run: str | None = None, key: KeyRing | None = None
) -> AsyncClient:
    """As `connect`, for an asyncio program: the application connects when its `async with` begins."""
    network = running(run)
    return network.async_client(network.node(str(node)), app, key)


def listen(
    node: int | str,
    predicate: Predicate | str,
    receive: Callable[[Delivery], object],
    app: str | None = None,
    *,
    run: str | None = None,
    key: KeyRing | None = None,
) -> Listener:
    """Calls a function for each message that an application on a node gets, while the program goes on.

    The function is called in a thread of its own. The other arguments are those of `connect`.

    Args:
        predicate: what the application subscribes to.
        receive: is called for one delivery after the other.

    Raises:
        InputError: the run or the node does not exist.
        ClientError: as of `connect`, or the router refused the predicate.
        ValueError: the text is not a predicate.
    """
    return Listener(connect(node, app, run=run, key=key), predicate, receive)


@others_only_read()
def sweep(
    spec: str | Path | Mapping[str, Any],
    *,
    folder: str | Path | None = None,
    master: str = "local[2]",
    keep: bool = False,
    retry: bool = False,
    other_code: str = "refuse",
) -> Swept:
    """Runs a sweep, or continues it; with `engine = "run"`, emulates its runs (as root).

    Args:
        spec: the file of a sweep, or its content (`testbed.evaluation.sweeps.spec`).
        folder: of the sweep; None: `sweeps/NAME` among the runs.
        master: Spark's master URL.
        keep: keep the run folders of simulations in the folder of the sweep.
        retry: run what has failed a second time.
        other_code: of runs that other code has made: "refuse", "keep" their numbers, or "repeat" them.

    Raises:
        TestbedError, SessionError: as `cbcb sweep`.
    """
    from testbed.evaluation.sweeps.runner import sweep as swept
    from testbed.evaluation.sweeps.spec import load_spec, spec_of

    found = spec_of(spec, Path("(a mapping)")) if isinstance(spec, Mapping) else load_spec(Path(spec))
    place = Path(folder) if folder is not None else sweep_folder(DEFAULT_RUNS, found.name)
    return swept(*(found, place, Progress()), master=master, keep=keep, retry=retry, other_code=other_code)


@dataclass(frozen=True)
class Reproduced:
    """A figure of a paper, reproduced.

    Attributes:
        failures: runs that failed.
        tables: of the page, in which nothing is judged.
        page: its path; None: no `output` was given.
    """

    statements: Sequence[Statement]
    panels: Sequence[Panel]
    failures: Sequence[str]
    tables: Sequence[Table]
    page: Path | None = None

    @property
    def holds(self) -> bool:
        """Whether every run succeeded and every statement that is judged holds."""
        return not self.failures and all(each.holds is not False for each in self.statements)

    def plot(self, panel: int = 0, axes: Axes | None = None) -> Axes:
        """Draws a panel and returns the axes."""
        from testbed.evaluation.figures.picture import draw

        axes = axes if axes is not None else _new_axes()
        draw(self.panels[panel], axes)
        return axes


@others_only_read()
def figure(
    name: str,
    *,
    size: str = "paper",
    seeds: int = 5,
    folder: str | Path | None = None,
    master: str = "local[2]",
    engine: str = "simulate",
    output: str | Path | None = None,
    other_code: str = "refuse",
) -> Reproduced:
    """Reproduces a figure of a paper, as `cbcb figure`.

    Args:
        size: one that the figure has (`cbcb figure --help`); "emulated" requires the engine "run".
        seeds: 1 to so many.
        folder: keeps the measurements of runs that have ended; None: `figures/NAME` among the runs.
        master: Spark's master URL.
        engine: "simulate", or "run": emulated, as root.
        output: folder in which the page is written; None: no page.
        other_code: as of `sweep`.

    Raises:
        UnknownNameError: there is no such figure.
        TestbedError, SessionError: as `cbcb figure`.
    """
    from testbed.evaluation.figures.reproduction import FIGURES
    from testbed.evaluation.figures.runner import Origin, reproduce
    from testbed.evaluation.sweeps import ENGINES

    if engine not in ENGINES:
        raise InputError(f"engine is {engine!r}; expected one of {', '.join(ENGINES)}")
    chosen = FIGURES[name]()
    place = Path(folder) if folder is not None else reproduction_folder(DEFAULT_RUNS, name)
    origin = Origin(name, size, seeds, engine)
    done = reproduce(chosen, origin, place, Progress(), master=master, other_code=other_code)
    page = None
    if output is not None:
        from testbed.evaluation.figures.page import page_of

        page = page_of(chosen, origin, done, Path(output))
    return Reproduced(
        list(chosen.judge(done.results)),
        chosen.panels(done.results),
        done.failures,
        chosen.tables(done.results),
        page,
    )


def _new_axes() -> Axes:
    from testbed.results.report.style import new_figure

    return new_figure(6.2, 3.6)[1]
