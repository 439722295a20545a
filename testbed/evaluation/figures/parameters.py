"""The command and the parameters that the page of a reproduction names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from testbed.evaluation.figures.reproduction import EMULATED, PAPER, Case, Reproduction, Results


def command_of(name: str, size: str, seeds: int, engine: str = "simulate") -> str:
    """Returns the command that makes a page with seeds 1 to `seeds`."""
    command = f"cbcb figure {name} --size {size} --seeds {seeds}"
    return command if engine == "simulate" else f"{command} --engine {engine}"


def page_name(name: str, size: str, engine: str = "simulate") -> str:
    """Returns the name of a page's files, without suffix.

    A page of the paper's size that is simulated has the name of its figure. To any other name the size is
    added and, of runs that are emulated, `emulated`.
    """
    words = [name]
    if (size, engine) != (PAPER, "simulate"):
        words.append(size)
    if engine == "run" and size != EMULATED:
        words.append(EMULATED)
    return "-".join(words)


def parameters_of(
    figure: Reproduction, cases: Iterable[Case], seeds: int, engine: str = "simulate"
) -> list[str]:
    """Returns a line for the runs, one for the keys that all cases set, and one for each case."""
    # A figure without a function that measures calculates all by itself.
    how = "emulated" if engine == "run" else "simulated" if figure.measure else "calculated"
    first = f"{how}, seeds 1 to {seeds}; everything that is drawn depends on the seed"
    return [first, *_settings({case: figure.overrides(case, engine) for case in cases})]


def shortfall(results: Results, seeds: int) -> list[str]:
    """Returns a line for each case of which runs failed: it has fewer than a run for each seed."""
    counts = {case.label: len(results.runs(case)) for case in results}
    return [f"{label}: {count} of {seeds} runs" for label, count in counts.items() if count < seeds]


def _settings(cases: Mapping[Case, Mapping[str, str]]) -> list[str]:
    """Returns the keys that the cases set: what all share, then what is a case's own.

    Of a case without an experiment, the keys are what its figure measures.
    """
    settings = {case.label: dict(keys or case.facts) for case, keys in cases.items()}
    first = next(iter(settings.values()), {})
    shared = {
        key: value
        for key, value in first.items()
        if len(settings) > 1 and all(key in each and each[key] == value for each in settings.values())
    }
    lines = [f"all: {_listed(shared)}"] if shared else []
    for label, each in settings.items():
        own = {key: value for key, value in each.items() if key not in shared}
        lines.append(f"{label}: {_listed(own)}" if own else label)
    return lines


def _listed(settings: Mapping[str, object]) -> str:
    return ", ".join(f"`{key} = {value}`" for key, value in settings.items())
