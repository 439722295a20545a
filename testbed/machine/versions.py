"""Versions of the software that takes part in a run, and the packages that the project declares."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distributions, requires, version
from pathlib import Path
from types import MappingProxyType

from packaging.requirements import Requirement

from captures.rundir.inputs import Source
from testbed import __version__
from testbed.machine.probes import java, java_version, output
from testbed.support.errors import InputError
from testbed.terminal import put

_COMMIT = re.compile("[0-9a-f]{40,64}")
#: The extra of pyproject.toml with what the testbed needs besides `router`.
_EXTRA = "testbed"
_ROOT = Path(__file__).resolve().parents[2]
_PYPROJECT = _ROOT / "pyproject.toml"
#: Parts of the project that no result of a run depends on; figures measure theirs.
_FIGURES = "testbed/evaluation/figures"
SHOWING = frozenset(
    {
        *("captures/runs", "testbed/api.py", "testbed/cli"),
        "testbed/evaluation/sweeps/plots.py",
        *("testbed/results/live", "testbed/results/report", "testbed/results/trace"),
    }
)


@cache
def required_packages() -> tuple[str, ...]:
    """The Python packages that pyproject.toml declares for the testbed: its own, and those of the extra.

    From a checkout they are read from pyproject.toml itself, else from what was installed. Code that came to
    a worker of a cluster has neither: nothing is declared there.
    """
    if _PYPROJECT.is_file():
        project = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))["project"]
        declared = [*project["dependencies"], *project["optional-dependencies"][_EXTRA]]
    else:
        try:
            declared = requires("cbcb-testbed") or []
        except PackageNotFoundError:
            declared = []
    requirements = map(Requirement, declared)
    return tuple(
        requirement.name
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate({"extra": _EXTRA})
    )


def package_versions() -> dict[str, str]:
    """Installed versions of `required_packages`, and of packages that register entries for experiments.

    A package that is not installed is left out.
    """
    registering = {
        each.name
        for each in distributions()
        if any(entry.group.startswith("cbcb.") for entry in each.entry_points)
    }
    found = {}
    for name in (*required_packages(), *sorted(registering)):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def tool_versions() -> dict[str, str]:
    """Versions of the system's tools that take part in a run."""
    found = {
        "open vswitch": output(["ovs-vswitchd", "--version"]).split("\n")[0].split()[-1:],
        "tshark": output(["tshark", "--version"]).split()[2:3],
        "java": [text for text, _ in filter(None, [java_version(output([java(), "-version"]))])],
    }
    return {name: words[0] if words else "unknown" for name, words in found.items()}


#: Endings of sources: modules, queries, and tables such as those of the wire format.
_SOURCES = {".py", ".sql", ".toml"}


@cache
def source_version(measure: str = "") -> Source:
    """The version of the project, the commit of the checkout that this code belongs to, and its digest.

    A checkout whose commit git does not give is named on standard error.

    Args:
        measure: as of `code_digest`.
    """
    found = Source(version=__version__, commit=None, dirty=None, code=code_digest(measure))
    if (_ROOT / ".git").exists():
        commit, dirty = commit_of(_ROOT)
        if _COMMIT.fullmatch(commit):
            found["commit"], found["dirty"] = commit, dirty
        else:
            put(f"cbcb: {_ROOT}: its commit is not known: {commit or 'no answer of git'}", file=sys.stderr)
    return found


def code_digest(measure: str = "") -> str | None:
    """A digest of the sources that a run imports; None where they are no files, as on workers of a cluster.

    The sources are the modules, queries and tables of the project without those that only show what a run
    has left. Installed packages are not in it: the manifest has their versions.

    Args:
        measure: a function `module:function` that measures runs: the source of its module and those of
            `testbed.evaluation.figures` are in the digest.
    """
    if not (_ROOT / "router").is_dir():
        return None
    left_out = SHOWING if measure else {*SHOWING, _FIGURES}
    module = measure.partition(":")[0]
    digest = hashlib.sha256(inspect.getsource(import_module(module)).encode() if module else b"")
    for package in ("captures", "router", "testbed", "topos"):
        for path in sorted((_ROOT / package).rglob("*.*")):
            name = path.relative_to(_ROOT)
            # A lock of Emacs, `.#name.py`, is a link that leads nowhere.
            kept = path.suffix in _SOURCES and not any(map(name.is_relative_to, left_out))
            if kept and path.is_file():
                digest.update(name.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def states_of(sources: Iterable[Source | None]) -> list[str]:
    """The different states of the code among sources, each as its commit; that of None is unknown."""
    known = {source and (source.get("code") or source["commit"]): source for source in sources}
    return sorted(
        "unknown"
        if source is None
        else (source["commit"] or "no commit")[:8]
        + (f" with changes (code {source.get('code')})" if source["dirty"] else "")
        for source in known.values()
    )


def require_one_code(sources: Iterable[Source | None], other_code: str) -> None:
    """Raises InputError if runs were made by different code, unless `other_code` is "keep"."""
    states = states_of(sources)
    if len(states) > 1 and other_code != "keep":
        raise InputError(
            f"different code made the runs ({', '.join(states)}); --other-code keep shows them together"
        )


def commit_of(root: Path) -> tuple[str, bool]:
    """The commit of a checkout, or git's complaint; and whether tracked files differ from the commit.

    Another user may own the checkout, whose code this process runs all the same.
    """
    git = ["git", "-c", f"safe.directory={root}", "-C", str(root)]
    commit = output([*git, "rev-parse", "HEAD"]).strip()
    return commit, bool(output([*git, "status", "--porcelain", "--untracked-files=no"]).strip())


@cache
def versions() -> Mapping[str, str]:
    """Versions of packages and tools, as manifest.json has them, asked for once in a process.

    A tool that does not answer stays "unknown".
    """
    return MappingProxyType({**package_versions(), **tool_versions()})
