"""The file of a sweep: which experiment, which parameters take which values, which seeds, which plots.

::

    experiment = "default"            # an experiment file (beside this one), or the name of a shipped one
    seeds = 5                         # 1 to 5; or a list
    engine = "simulate"               # or "run": emulated, one after the other

    [set]                             # values for all runs
    duration_s = 1800

    [grid]                            # every combination of these values, with every seed
    topology = ["a.brite", "waxman,50"]
    "protocol.sr_period_s" = [600, 900]

    [[plot]]                          # drawn when the sweep is complete
    y = "false_positives / messages_received_by_routers"
    x = "protocol.sr_period_s"
    by = "topology"
"""

from __future__ import annotations

import ast
import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from importlib.util import find_spec
from itertools import product
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from router.options import NoOptions, Option, option, options_of, setting
from router.registry import Registry
from testbed.evaluation.sweeps import ENGINES
from testbed.experiments.config import Experiment
from testbed.experiments.config.hop_limit import load_checked
from testbed.experiments.config.load import PATH_KEYS, find_experiment, paths_from
from testbed.experiments.config.schema import dotted, toml_value
from testbed.experiments.config.topology import parse_topology_argument
from testbed.experiments.events import Event
from testbed.experiments.workload.given import generators
from testbed.machine.versions import source_version
from testbed.support.errors import InputError
from topos import Topology, TopologyError, unknown
from topos.loaders import values_of

if TYPE_CHECKING:
    from captures.rundir.capture_list import Kept
    from captures.rundir.inputs import Source


def identity(*facts: Any) -> str:
    """Returns a digest of all that determines a run, by which its row is found when a sweep is continued.

    Experiments among the facts count by the values that differ from the defaults, so that neither a default
    that is written out nor an option that other code has added makes another run. Files that an experiment
    names count by their contents.
    """
    text = json.dumps(facts, sort_keys=True, default=_meaning)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _meaning(value: Any) -> Any:
    if not is_dataclass(value):
        return str(value)
    found = {"action": value.action} if isinstance(value, Event) else {}
    declared = {option.key: option for option in options_of(type(value))}
    for each in fields(value):
        part = getattr(value, each.name)
        # The names of a network, as that of its file, and remarks on it change no run.
        if isinstance(value, Topology) and each.name in ("name", "notes"):
            continue
        option = declared.get(each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if part == (default if option is None or option.required else option.default):
            continue
        known = generators() if each.name == "generator" else option and option.choices
        if option is not None and option.path:
            part = _contents(Path(part))
        elif option is not None and option.kind == "pair":
            part = sorted(part)
        elif isinstance(known, Registry) and part in known:
            if module := known.packaged.get(part):
                part = [part, *_sources(module)]
        elif isinstance(part, NoOptions):
            continue
        found[each.name] = part
    return found


def _contents(path: Path) -> list[str]:
    """Returns a digest of a file, or of each file of a folder with its name."""
    if not path.is_dir():
        return [hashlib.sha256(path.read_bytes()).hexdigest()]
    files = sorted(each for each in path.iterdir() if each.is_file())
    return [f"{each.name} {hashlib.sha256(each.read_bytes()).hexdigest()}" for each in files]


def _sources(module: str) -> list[str]:
    """Returns a digest of each source of the package that a module belongs to, or of the module itself."""
    spec = find_spec(module.partition(".")[0])
    places = [] if spec is None else spec.submodule_search_locations or [spec.origin or ""]
    paths = sorted(path for place in places for path in (Path(place), *Path(place).rglob("*.py")))
    return [f"{path.name} {_contents(path)[0]}" for path in paths if path.is_file()]


#: What an expression may have, and how much of it.
_NODES = (
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div),
    *(ast.UnaryOp, ast.USub, ast.Constant, ast.Name, ast.Attribute),
)
_NODES_MAX = 200
#: The keys of a sweep beside lists and tables.
OPTIONS = (
    Option("name", "string", file_name=True, doc="Name of the sweep; default: that of the file."),
    Option("experiment", "string", default="default", doc="A file, or the name of a shipped experiment."),
    Option("engine", "string", choices=ENGINES, default="simulate", doc="Simulated by Spark, or emulated."),
)
Value = str | int | float | bool


class SpecError(InputError, ValueError):
    """A file of a sweep that cannot be used; names file and key."""


#: A parameter and its value in the runs that the runs of a plot are paired with, by seed and all other
#: parameters; "ratio" or "difference", which is drawn.
Against = tuple[str, str, str]


@dataclass(frozen=True)
class Plot:
    """A plot: an expression of keys against a parameter, a line for each value of `by`.

    The fields, but for `label` and `x_ticks`, are options of `cbcb plot` and keys of [[plot]].
    """

    y: str = field(metadata=option("a key of the summary, or an expression such as `1 - KEY / KEY`"))
    x: str = field(metadata=option("a parameter, or any other column"))
    by: str | None = setting(None, "a line for each value of this parameter")
    kind: Literal["mean", "median"] = setting(
        "mean", "mean with its 95 % confidence interval, or median with the band from 10 to 90 %"
    )
    x_label: str | None = setting(None, "text of the horizontal axis; default: the parameter")
    y_label: str | None = setting(None, "text of the vertical axis; default: the expression")
    by_label: str | None = setting(None, "title of the legend; default: the parameter")
    x_scale: Literal["linear", "log"] = setting("linear", "scale of a horizontal axis of numbers")
    y_scale: Literal["linear", "log"] = setting("linear", "scale of the vertical axis")
    against: str | None = setting(
        None, "draw each run over the run of equal seed and parameters with this PARAMETER=VALUE"
    )
    paired: Literal["ratio", "difference"] = setting(
        "ratio", "what is drawn of a run and its pair of `against`"
    )
    label: Mapping[str, str] = field(default_factory=dict)
    x_ticks: Sequence[float] = ()

    @property
    def shown(self) -> str:
        """The drawn numbers, in words."""
        sign = "/" if self.paired == "ratio" else "-"
        return self.y if self.against is None else f"({self.y}) {sign} with {self.against}"

    @property
    def pairs(self) -> Against | None:
        """The runs that the runs of the plot are paired with; None: there are none.

        Raises:
            InputError: `against` has another form than PARAMETER=VALUE.
        """
        if self.against is None:
            return None
        parameter, separator, value = self.against.partition("=")
        if not separator:
            raise InputError(f"against: {self.against!r} is not valid; expected PARAMETER=VALUE")
        return parameter, value, self.paired


@dataclass(frozen=True)
class Job:
    """One run of a sweep.

    Attributes:
        number: position in the sweep, from 0.
        identity: digest of the meaning of the experiment, so that a sweep can be continued.
        parameters: the values of the grid.
        measure: place `module:function` of a function of (`Direct`, `Experiment`), whose result takes the
            place of the keys of the summary; empty: the keys.
        calculates: `measure` is a function of (`parameters`, `seed`), and there is no run.
        captures: the captures that a simulation keeps.
        expected: keys of the summary that may be above 0 in a run that is measured
            (`captures.accounting.verdict.verdict`).
        source: the code that makes the run.
    """

    number: int
    identity: str
    parameters: Mapping[str, Value]
    seed: int
    engine: str
    experiment: Experiment
    measure: str = ""
    calculates: bool = False
    captures: Kept = "all"
    expected: Sequence[str] = ()
    source: Source = field(default_factory=source_version)


@dataclass(frozen=True)
class Spec:
    """A sweep, validated; `grid` has the parameters in their order."""

    name: str
    path: Path
    experiment: Path
    engine: str = "simulate"
    seeds: Sequence[int] = (1,)
    settings: Mapping[str, Value] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    plots: Sequence[Plot] = ()

    def files(self) -> list[Path]:
        """Returns what the sweep reads: its file, the experiment, and the files that they name.

        Shipped experiments are left out.
        """
        named = [(self.path.parent, key, each) for key, values in self.grid.items() for each in values]
        named += [(self.path.parent, key, each) for key, each in self.settings.items()]
        found = [self.path]
        if self.experiment.parent != find_experiment("default").parent:
            found.append(self.experiment)
            if self.experiment.suffix == ".toml":
                keys = dotted(tomllib.loads(self.experiment.read_text(encoding="utf-8-sig")))
                named += [(self.experiment.parent, key, each) for key, each in keys.items()]
        for folder, key, each in named:
            meant = [*parse_topology_argument(str(each))] if key == "topology" else [key]
            if not PATH_KEYS.isdisjoint(meant):
                found.append(folder / str(each))
        # Of a folder, the files themselves are read.
        whole = [each for path in found for each in (sorted(path.iterdir()) if path.is_dir() else [path])]
        return [path for path in dict.fromkeys(whole) if path.is_file()]

    def jobs(self) -> list[Job]:
        """Returns every run: the first parameter changes last, the seed first.

        Raises:
            ExperimentError: a combination is not a valid experiment; names the keys.
        """
        found: list[Job] = []
        for values in product(*self.grid.values()):
            parameters = dict(zip(self.grid, values, strict=True))
            given = _overrides({**self.settings, **parameters}, self.path.parent)
            for seed in self.seeds:
                overrides = {**given, "seed": str(seed)}
                experiment = load_checked(self.experiment, overrides)
                name = identity(self.engine, experiment)
                found.append(Job(len(found), name, parameters, seed, self.engine, experiment))
        return found


def load_spec(path: Path) -> Spec:
    """Reads the file of a sweep.

    Raises:
        SpecError: it cannot be read or is not valid; names the key and what was expected.
        InputError: the experiment does not exist.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SpecError(f"{path}: is not valid TOML: {error}") from error
    return spec_of(document, path)


def spec_of(document: Mapping[str, Any], path: Path) -> Spec:
    """Returns the sweep of a parsed file; `path` names it in errors, and relative files lie beside it.

    Raises: as `load_spec`.
    """

    def fail(key: str, what: str) -> SpecError:
        return SpecError(f"{path}: {key}: {what}")

    chosen: dict[str, Any] = {option.key: option.default for option in OPTIONS} | {"name": path.stem}
    try:
        chosen |= values_of(str(path), document, OPTIONS, ("seeds", "set", "grid", "plot"))
    except TopologyError as error:
        raise SpecError(str(error)) from error
    experiment = chosen["experiment"]
    beside = path.parent / experiment
    for key in ("set", "grid"):
        if not isinstance(document.get(key, {}), Mapping):
            raise fail(f"[{key}]", "expected a table of keys")
    settings, grid = dotted(document.get("set", {})), dotted(document.get("grid", {}))
    for key, values in grid.items():
        if not isinstance(values, list) or not values or not all(_is_value(each) for each in values):
            raise fail(f"[grid] {key}", "expected a list of values")
        if len(set(map(repr, values))) < len(values):
            raise fail(f"[grid] {key}", "has a value twice")
        if key in settings or key == "seed":
            raise fail(f"[grid] {key}", "is set by [set] too" if key in settings else "expected `seeds`")
    for key, value in settings.items():
        if not _is_value(value) or key == "seed":
            raise fail(f"[set] {key}", "expected a single value, and `seeds` for the seed")
    return Spec(
        name=chosen["name"],
        path=path,
        experiment=beside if beside.is_file() else find_experiment(experiment),
        engine=chosen["engine"],
        seeds=_seeds(document.get("seeds", 1), fail),
        settings=settings,
        grid=grid,
        plots=[_plot(entry, grid, fail) for entry in document.get("plot", [])],
    )


def _is_value(value: object) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def _seeds(seeds: object, fail: Any) -> list[int]:
    if isinstance(seeds, int) and not isinstance(seeds, bool) and seeds >= 1:
        return list(range(1, seeds + 1))
    if isinstance(seeds, list) and seeds and all(type(seed) is int and seed >= 0 for seed in seeds):
        if len(set(seeds)) == len(seeds):
            return seeds
        raise fail("seeds", "has a seed twice")
    raise fail("seeds", f"{seeds!r} is not valid; expected a number of seeds, or a list of them")


def _plot(entry: object, grid: Mapping[str, Sequence[object]], fail: Any) -> Plot:
    keys = [each.name for each in fields(Plot)]
    if not isinstance(entry, dict) or not {"x", "y"} <= entry.keys() <= set(keys):
        raise fail("[[plot]]", f"expected the keys x and y, and of {', '.join(keys[2:])}")
    for each in (each for each in options_of(Plot) if each.key in entry):
        try:
            each.convert(entry[each.key])
        except ValueError as error:
            raise fail(f"[[plot]] {each.key}", str(error)) from error
    labels, ticks = entry.get("label", {}), entry.get("x_ticks", [])
    if not isinstance(labels, dict) or not all(isinstance(each, str) for each in labels.values()):
        raise fail("[[plot]] label", "expected a table of texts")
    numbers: list[Any] = ticks if isinstance(ticks, list) else [None]
    if not all(type(each) in (int, float) and isfinite(each) for each in numbers):
        raise fail("[[plot]] x_ticks", "expected a list of numbers")
    plot = Plot(**entry)
    try:
        parsed(plot.y)
        pairs = plot.pairs
    except InputError as error:
        raise fail("[[plot]]", str(error)) from error
    for key, name in (("x", plot.x), ("by", plot.by), ("against", pairs[0] if pairs else None)):
        if name is not None and name not in grid:
            raise fail(f"[[plot]] {key}", unknown("parameter", name, grid))
    if pairs is not None and pairs[1] not in (known := [*map(str, grid[pairs[0]])]):
        raise fail("[[plot]] against", unknown("value", pairs[1], known))
    return plot


def parsed(expression: str) -> ast.expr:
    """Returns an expression of keys, numbers, + - * / and brackets.

    Raises:
        InputError: it has another form, or is nested deeply.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
        nodes = [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{expression:.80}: is no expression of keys: {error}") from error
    numbers: list[Any] = [node.value for node in nodes if isinstance(node, ast.Constant)]
    if (
        len(nodes) > _NODES_MAX
        or not all(isinstance(node, _NODES) for node in nodes)
        or not all(type(number) in (int, float) and abs(number) < 1e100 for number in numbers)
    ):
        raise InputError(f"{expression:.80}: expected keys, numbers, + - * / and brackets, such as 1 - a / b")
    return tree


def _overrides(values: Mapping[str, Value], folder: Path) -> dict[str, str]:
    """Returns the overrides of an experiment; `topology` is an argument as of `--topology`."""
    found: dict[str, str] = {}
    for key, value in values.items():
        if key == "topology":
            found |= parse_topology_argument(str(value), folder)
        else:
            found[key] = toml_value(value)
    return paths_from(folder, found)
