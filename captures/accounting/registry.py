"""The functions of the accounting, and which table or key of summary.json each makes.

The accounting is a graph of functions. A function's parameters name what it takes: each is the name of
another registered function, whose value it gets, or of a value in `captures.accounting.sources.Run.provided`.
`captures.accounting.queries` calls each function once and passes its value to all that take it.

    @table("deliveries", kept=ALWAYS)      a DataFrame, written as the table of the catalogue
    def delivered(outcomes, arrivals, clock): ...

    @step(kept=ALWAYS)                     a value that other functions take
    def outcomes(oracle, deliveries, sent): ...

    @summary()                             keys of summary.json: a dict, or a DataFrame of one row
    def outcome_totals(outcomes, converged_ns): ...

    @log_table("nodes")                    an Arrow table, made from the run's small files before Spark starts
    def node_table(inputs): ...

To add a table: a row in `captures.tables.catalogue`, and a function with `@table` or `@log_table` in a module
of `MODULES`. To add a key of summary.json: a row in `captures.rundir.summary_keys.SUMMARY_KEYS`, and a
function with `@summary`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from router.registry import Registry

if TYPE_CHECKING:
    import pyarrow as pa

    from captures.accounting.inputs import Inputs

#: The modules of this package that register functions.
MODULES = (
    *("sources", "traffic", "deliveries", "routers", "curves", "paths", "baselines", "schemes"),
    *(
        "private",
        "recovery",
        "run_tables",
        "service_tables",
        "trees",
        "shortest_paths",
        "contradictions",
        "common_tables",
    ),
)

Function = TypeVar("Function", bound=Callable[..., Any])


class Kept(Enum):
    """In which runs Spark keeps a DataFrame in memory until the last query that uses it has ended.

    A DataFrame that one query alone uses is best not kept.
    """

    NEVER = "never"
    SMALL = "in small runs"
    ALWAYS = "always"


NEVER, SMALL, ALWAYS = Kept


@dataclass(frozen=True, slots=True)
class Maker:
    """A registered function.

    Attributes:
        needs: the names of its parameters.
        table: name of the table that it makes; None: it makes none.
        summary: whether its value is keys of summary.json, ...
        key: ... and if so, the key under which the value stands as an object; None: the keys are its own.
    """

    name: str
    function: Callable[..., Any]
    needs: tuple[str, ...]
    table: str | None = None
    summary: bool = False
    key: str | None = None
    kept: Kept = NEVER


#: The functions that Spark's queries are made of, by their names.
MAKERS = Registry[Maker]("function of the accounting")
#: The functions that make tables from the small files of a run, by the names of the tables.
LOG_TABLES: Registry[Callable[[Inputs], pa.Table]] = Registry("table of a run's small files")


def step(*, kept: Kept = NEVER) -> Callable[[Function], Function]:
    """Registers a function whose value others take."""
    return _registering(kept=kept)


def table(name: str, *, kept: Kept = NEVER) -> Callable[[Function], Function]:
    """Registers the function that makes a table of the catalogue as a DataFrame."""
    return _registering(table=name, kept=kept)


def summary(key: str | None = None) -> Callable[[Function], Function]:
    """Registers a function that makes keys of summary.json, or with `key` an object under that key."""
    return _registering(summary=True, key=key)


def log_table(name: str) -> Callable[[Function], Function]:
    """Registers the function that makes a table of the catalogue from the small files of a run."""

    def registered(function: Function) -> Function:
        LOG_TABLES.register(name, function)
        return function

    return registered


def _registering(**attributes: Any) -> Callable[[Function], Function]:
    def registered(function: Function) -> Function:
        name, needs = function.__name__, tuple(inspect.signature(function).parameters)
        MAKERS.register(name, Maker(name, function, needs, **attributes))
        return function

    return registered


def load() -> None:
    """Imports the modules that register functions."""
    for module in MODULES:
        import_module(f"captures.accounting.{module}")
