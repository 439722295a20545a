"""The interface of a reproduction, and the registry of all.

A reproduction names its experiments (cases), the function that measures a run, and the statements of the
paper with what is predicted and measured. `testbed.evaluation.figures.runner` runs the cases with several
seeds, `testbed.evaluation.figures.page` writes the page. Other evaluations register theirs in the same way.
"""

from __future__ import annotations

import math
import statistics
import sys
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from router.registry import Registry
from testbed.evaluation import quantiles
from testbed.evaluation.figures import Number, Points

if TYPE_CHECKING:
    from captures.rundir.capture_list import Kept

#: The key of a run's seed among its measurements.
SEED = "seed"
#: In what was measured, where a claim on an interval neither holds nor fails.
UNDECIDED = "undecided: a limit is between the quantiles"


@dataclass(frozen=True)
class Case:
    """An experiment of a reproduction, run with every seed.

    Attributes:
        overrides: of the shipped experiment `default`.
        facts: what distinguishes the case, for `judge`.
    """

    label: str
    overrides: Mapping[str, str] = field(default_factory=dict, hash=False)
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(
        cls,
        label: str | Sequence[str],
        facts: Mapping[str, Any],
        more: Mapping[str, str] = MappingProxyType({}),
        /,
        **overrides: Any,
    ) -> Case:
        """Returns the case of a network, which has the overrides of `common`, and `more`.

        Args:
            label: or the parts of it; those that are empty are left out.
        """
        text = label if isinstance(label, str) else ", ".join(filter(None, label))
        return cls(text, {**common(**overrides), **more}, facts)


@dataclass(frozen=True)
class Statement:
    """A statement of a paper beside what was predicted and measured.

    Attributes:
        text: the subject (a case, or what several share), a colon, and what is claimed of it.
        holds: None: shown without a judgement, such as where the paper contradicts itself.
    """

    text: str
    predicted: str
    measured: str
    holds: bool | None = None

    @property
    def subject(self) -> str:
        return self.text.rpartition(": ")[0]

    @property
    def claim(self) -> str:
        return self.text.rpartition(": ")[2]

    @classmethod
    def by_interval(
        cls,
        text: str,
        predicted: str,
        values: Collection[float],
        low: float = -math.inf,
        high: float = math.inf,
        *,
        unit: str = "points",
        judged: bool = True,
    ) -> Statement:
        """Returns the statement that values of the seeds are above `low` and at most `high`.

        It holds if the outer `quantiles` are within the limits, fails if both are beyond the same limit
        or there is no value, and is undecided in between. Values are in `unit`; before one that begins with
        "points" or "%", they are shares. A claim that is not `judged` is shown.
        """
        least, _, greatest = quantiles(values) if values else [math.nan] * 3
        between = greatest > low and least <= high
        holds = True if low < least and greatest <= high else None if between else False
        note = f", {UNDECIDED}" if judged and holds is None else ""
        scale = 100 if unit.startswith(("points", "%")) else 1
        measured = f"{Results.band_of(values, scale)} {unit}".rstrip() + note
        return cls(text, predicted, measured, holds if judged else None)

    @classmethod
    def by_tolerance(
        cls, text: str, predicted: float, values: Collection[float], tolerance: float
    ) -> Statement:
        """Returns the statement `by_interval` that values are a number, but for a share of it."""
        limits = predicted * (1 - tolerance), predicted * (1 + tolerance)
        text = f"{text} (to {100 * tolerance:g} %)"
        return cls.by_interval(text, f"{predicted:.3g}", values, *limits, unit="")


@dataclass(frozen=True)
class Panel:
    """Axes of the figure: curves (t, value) of several runs under each label.

    Attributes:
        floor: label -> values that a calculation predicts; drawn as a dashed line.
        paper: label -> value of the paper; drawn as a dotted line across the axes.
        paper_x: as `paper`, of the x axis.
        formulas: label -> points of the curve that a formula predicts; dashed, in the colour of the curves
            of the label.
        beside: label -> curves of the same case on the other engine; dashed, in the colour of the curves of
            the label.
        points: the curves are values at points of a parameter, joined by straight lines over a logarithmic
            axis; else each value holds until the next one.
    """

    title: str
    y: str
    curves: Mapping[str, Sequence[Points]]
    x: str = "experiment time (s)"
    floor: Mapping[str, float] = field(default_factory=dict)
    paper: Mapping[str, float] = field(default_factory=dict)
    paper_x: Mapping[str, float] = field(default_factory=dict)
    formulas: Mapping[str, Points] = field(default_factory=dict)
    beside: Mapping[str, Sequence[Points]] = field(default_factory=dict)
    percent: bool = True
    points: bool = False

    @classmethod
    def of_points(
        cls, title: str, y: str, curves: Mapping[str, Sequence[Points]], x: str, **more: Any
    ) -> Panel:
        """Returns a panel of numbers at points of a parameter."""
        return cls(title, y, curves, x=x, percent=False, points=True, **more)


@dataclass(frozen=True)
class Table:
    """A table of the page; each row has a text for each column.

    Attributes:
        on_page: else the table is in the CSV beside the page alone.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    on_page: bool = True


class Results:
    """The measurements of the runs that succeeded: case -> one mapping for each seed, its value of `SEED`."""

    def __init__(self, of_case: Mapping[Case, Sequence[Mapping[str, Any]]]) -> None:
        self._of_case = of_case

    def __iter__(self) -> Any:
        return iter(self._of_case)

    def where(self, **facts: object) -> list[Case]:
        """Returns the cases with these facts."""
        return [case for case in self if facts.items() <= case.facts.items()]

    def beside(self, case: Case, **other: object) -> Case:
        """Returns the case with the facts of another but for these."""
        (found,) = self.where(**{**case.facts, **other})
        return found

    def runs(self, case: Case) -> Sequence[Mapping[str, Any]]:
        """Returns what was measured in the runs of a case, by seed."""
        return self._of_case.get(case, ())

    def values(self, case: Case, key: str) -> list[float]:
        """Returns a number of every run of a case that has it."""
        return [float(run[key]) for run in self.runs(case) if run.get(key) is not None]

    def median(self, case: Case, key: str) -> float:
        """Returns the median of a number over the seeds; NaN without a run."""
        values = self.values(case, key)
        return statistics.median(values) if values else float("nan")

    @staticmethod
    def band_of(values: Collection[float], scale: float = 1.0, digits: int = 3) -> str:
        """Returns the median of values with the other `quantiles`, as text; of one value, the value."""
        if len(values) < 2:
            return f"{scale * next(iter(values)):.{digits}g}" if values else "no run"
        low, middle, high = scale * quantiles(values)
        return f"{middle:.{digits}g} [{low:.{digits}g}, {high:.{digits}g}]"

    def band(self, case: Case, key: str, scale: float = 1.0, digits: int = 3) -> str:
        """Returns `band_of` the values of a case."""
        return self.band_of(self.values(case, key), scale, digits)

    def pairs(
        self, case: Case, key: str, other: Case, other_key: str | None = None
    ) -> list[tuple[float, float]]:
        """Returns a number of each run of `case`, with one of the run of `other` that has the same seed.

        Args:
            other_key: the key of the latter; None: `key`.
        """
        own, others = self.by_seed(case, key), self.by_seed(other, other_key or key)
        return [(value, others[seed]) for seed, value in own.items() if seed in others]

    def ratios(self, case: Case, key: str, other: Case, other_key: str | None = None) -> list[float]:
        """Returns the first number of each of the `pairs` over the second; over 0 infinity, or NaN."""
        pairs = self.pairs(case, key, other, other_key)
        return [a / b if b else math.copysign(math.inf, a) if a else math.nan for a, b in pairs]

    def differences(self, case: Case, key: str, other: Case) -> dict[int, float]:
        """Returns seed -> a number of the run of `case` less that of the run of `other`."""
        own, others = self.by_seed(case, key), self.by_seed(other, key)
        return {seed: value - others[seed] for seed, value in own.items() if seed in others}

    def by_seed(self, case: Case, key: str) -> dict[int, float]:
        """Returns seed -> a number of the run, of every run of a case that has it."""
        return {run[SEED]: float(run[key]) for run in self.runs(case) if run.get(key) is not None}

    def curves(self, case: Case, key: str = "curve") -> list[Points]:
        return [[(float(t), float(v)) for t, v in run[key]] for run in self.runs(case) if key in run]

    def curves_over(self, cases: Iterable[Case], x: str, key: str | Number) -> list[Points]:
        """Returns a curve for each seed, ascending: a number of its run of each case, over the fact `x`.

        A curve has no point where the run failed, or has no such number.

        Args:
            cases: in the order of the points.
        """
        of_seed: dict[int, list[tuple[float, float]]] = {}
        for case in cases:
            for run in self.runs(case):
                value = run.get(key) if isinstance(key, str) else key(run)
                if value is not None:
                    of_seed.setdefault(run[SEED], []).append((float(case.facts[x]), float(value)))
        return [of_seed[seed] for seed in sorted(of_seed)]

    def lines(
        self, cases: Iterable[Case], label: Callable[[Case], str], x: str, key: str | Number
    ) -> dict[str, list[Points]]:
        """Returns label -> `curves_over` of the cases with this label."""
        groups: dict[str, list[Case]] = {}
        for case in cases:
            groups.setdefault(label(case), []).append(case)
        return {each: self.curves_over(own, x, key) for each, own in groups.items()}


#: The figures of texts.toml, by name.
_TEXTS = tomllib.loads(files(__package__).joinpath("texts.toml").read_text(encoding="utf-8"))
#: The delay of simulated links.
_DELAY = "links.delay_ms"

PAPER, EMULATED = "paper", "emulated"
#: Sizes of reproductions: `small` takes minutes on two processors, `paper` has the paper's networks, `large`
#: networks beyond those, `emulated` a part that can be emulated in an hour.
SIZES = ("small", PAPER, "large", EMULATED)


class Reproduction(ABC):
    """An experiment of a paper.

    The attributes up to `deviations` are those of a page of texts.toml, or of the class.

    Attributes:
        title: of the page.
        paper: what the paper says, in its words or close to them, with the section.
        explanation: paragraphs for the reader of the page: what the result means.
        deviations: where the text of the paper is silent, contradicts itself, or is not followed, and why.
        measure: place `module:function` of a function of (`Direct`, `Experiment`) that returns the
            measurements of a run, as JSON holds them.
        calculates: there is no network, or none that could be emulated: `run` answers for every case, or
            `measure` is a function of (facts of the case, seed), whose calls are tasks of Spark as
            simulations are, and which may simulate a network by itself.
        measure_emulated: of a figure that calculates, a function as `measure` of others, for emulations.
        emulated_scale: `time_scale` of an emulation.
        emulated_scales: number of nodes -> another one.
        sizes: those of `SIZES` that it has.
        captures: the captures that a simulation keeps; `measure` needs no others.
        expected: keys of the summary that may be above 0 in its runs (`captures.accounting.verdict.verdict`).
            A run whose verdict does not hold for another reason is an error, and is not measured. With
            `captures.accounting.verdict.MESSAGE_FAILURES`, `judge` says of a run with such a failure that it
            fails.
    """

    def __init_subclass__(cls, page: str = "") -> None:
        """Takes the texts of a page of texts.toml, in which names in braces are those of the module."""
        constants = vars(sys.modules[cls.__module__])
        for key, texts in (_TEXTS[page] if page else {}).items():
            filled = [each.format_map(constants) for each in texts]
            setattr(cls, key, filled[0] if key == "title" else filled)

    title: ClassVar[str]
    paper: ClassVar[Sequence[str]]
    explanation: ClassVar[Sequence[str]] = ()
    deviations: ClassVar[Sequence[str]] = ()
    measure: ClassVar[str] = ""
    calculates: ClassVar[bool] = False
    measure_emulated: ClassVar[str] = ""
    emulated_scale: ClassVar[float | str] = 60.0
    emulated_scales: ClassVar[Mapping[int, float]] = {}
    sizes: ClassVar[Sequence[str]] = ("small", PAPER)
    captures: ClassVar[Kept] = "all"
    expected: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def cases(self, size: str) -> list[Case]:
        """Returns the experiments of a size."""

    def overrides(self, case: Case, engine: str) -> dict[str, str]:
        """Returns the keys that a case sets, as an engine runs it.

        Emulated links have a delay of their own, and time passes at the emulation's rate.
        """
        if engine == "simulate" or self.calculates:
            return dict(case.overrides)
        kept = {key: value for key, value in case.overrides.items() if key != _DELAY}
        scale = self.emulated_scales.get(case.facts.get("nodes", 0), self.emulated_scale)
        return kept | {"time_scale": str(scale)}

    @abstractmethod
    def judge(self, results: Results) -> Iterable[Statement]:
        """Returns the statements, with what was measured."""

    @abstractmethod
    def panels(self, results: Results) -> list[Panel]:
        """Returns what the figure shows."""

    def read(self) -> Collection[Path]:
        """Returns the data of pages from which `run` takes measurements."""
        return ()

    def tables(self, results: Results) -> list[Table]:
        """Returns tables for the page, in which nothing is judged."""
        del results
        return []

    def run(self, case: Case, seed: int) -> Mapping[str, Any] | None:
        """Returns the measurements of a case that needs no network; None: the case is run."""
        del case, seed
        return None


#: The classes of texts.toml.
FIGURES: Registry[type[Reproduction]] = Registry("figure")
for _name, _page in _TEXTS.items():
    FIGURES.register_lazily(_name, f"testbed.evaluation.figures.{_page.pop('place')}", _page.pop("about"))


def common(**overrides: Any) -> dict[str, str]:
    """Returns the overrides that all reproductions share, with more (`__` stands for the dot).

    Virtual time is not scaled, and a link has a delay of 1 ms: BRITE gives 0.3 to 3 ms.
    """
    base = {"time_scale": "1", _DELAY: "1", "workload.first_message_s": "0"}
    return base | {key.replace("__", "."): str(value) for key, value in overrides.items()}
