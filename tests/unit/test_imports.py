"""Packages depend on each other as ARCHITECTURE.md says, and heavy imports stay where they belong."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain

import networkx as nx
import pytest

from testbed.machine.versions import SHOWING
from tests.support.cases import cases_beside
from tests.support.paths import ROOT

PACKAGES = ("router", "topos", "captures", "testbed")
#: Package -> what it may import of the project. Captures take what describes frames, records and time, and
#: `router.records` is the format of what routers and applications leave in the run folder.
ALLOWED: dict[str, tuple[str, ...]] = {
    "router": ("router",),
    "topos": ("topos", "router.registry", "router.options"),
    "captures": (
        *("captures", "topos", "router.predicates", "router.wire", "router.native", "router.records"),
        *("router.registry", "router.clock", "router.system"),
    ),
    "testbed": PACKAGES,
}
#: Rooms of `testbed`: each may import those before it. The last two are its doors: commands, and the API.
ROOMS = (
    *("support", "terminal", "controller", "experiments", "machine", "results", "emulation", "sim"),
    *("evaluation", "cli", "api"),
)
#: Package -> the most packages and modules that it may hold: as many as a reader keeps in mind.
MOST_ROOMS = {"testbed": 12, "router.protocol": 12}
_CASES = cases_beside(__file__)
#: Heavy library -> the modules (or packages) that may import it.
HEAVY: dict[str, list[str]] = _CASES["heavy"]


def _files(package: str, having: str = "") -> Iterator[tuple[str, ast.Module]]:
    """Yields name and tree of each module whose source has a text."""
    for path in sorted((ROOT / package).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if having in source and "runs" not in path.parts:
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name.removesuffix(".__init__"), ast.parse(source)


@cache
def _imports_of(package: str) -> dict[str, list[str]]:
    return {name: list(_imports(tree)) for name, tree in _files(package)}


def _modules(packages: tuple[str, ...] = PACKAGES) -> Iterator[tuple[str, list[str]]]:
    """Yields each module and what it imports, at whatever time."""
    return chain.from_iterable(_imports_of(package).items() for package in packages)


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            # Of `from package import module`, the module as well.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _wrong(
    barred: Callable[[str, str], bool], among: str = "", packages: tuple[str, ...] = PACKAGES
) -> list[str]:
    """The imports that are barred, by importing and imported module, of modules whose names begin so."""
    return [
        f"{name} imports {imported}"
        for name, imports in _modules(packages)
        if name.startswith(among)
        for imported in imports
        if barred(name, imported)
    ]


def test_packages_import_only_what_they_may() -> None:
    def barred(name: str, imported: str) -> bool:
        package, _, inside = imported.partition(".")
        allowed = ALLOWED[name.split(".")[0]]
        if not inside:
            return package in PACKAGES and not any(each.split(".")[0] == package for each in allowed)
        return package in PACKAGES and not any(f"{imported}.".startswith(f"{each}.") for each in allowed)

    assert _wrong(barred) == []


def test_what_topologies_take_from_the_router_needs_the_standard_library_alone() -> None:
    """So that plain Mininet can load the topologies."""
    taken = [imports for name, imports in _modules() if name in ("router.registry", "router.options")]
    assert len(taken) == 2
    assert {each.split(".")[0] for each in chain(*taken)} <= sys.stdlib_module_names


def _rooms() -> dict[str, str]:
    """Module -> its room: the package that holds it, or the module itself where it stands beside packages."""
    names = {name for name, _ in _modules()}
    packages = {name.rpartition(".")[0] for name in names}
    return {
        name: name if name in packages or name.count(".") < 2 else name.rpartition(".")[0] for name in names
    }


def test_packages_are_acyclic() -> None:
    """No two packages import each other, directly or through others, at whatever time."""
    rooms = _rooms()
    graph = nx.DiGraph()
    for name, imports in _modules():
        for imported in imports:
            room = rooms.get(imported)
            if room is not None and room != rooms[name]:
                graph.add_edge(rooms[name], room, by=f"{name} imports {imported}")
    circles = [
        sorted(data["by"] for *_, data in graph.subgraph(circle).edges(data=True))
        for circle in nx.strongly_connected_components(graph)
        if len(circle) > 1
    ]
    assert circles == []


def test_files_are_acyclic() -> None:
    """No two files import each other, directly or through others, at whatever time, not even for types.

    Python loads the package of a module before the module, so a package imports none of its modules;
    `captures.open` imports when it is called.
    """
    modules = dict(_modules())
    graph = nx.DiGraph(
        (name, imported)
        for name, imports in modules.items()
        for imported in imports
        if imported in modules and name != imported
    )
    packages = {name: name.rpartition(".")[0] for name in modules}
    graph.add_edges_from(
        (name, package) for name, package in packages.items() if package not in {"", "captures"}
    )
    assert [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


def _rooms_of(package: str) -> dict[str, set[str]]:
    """Room of a package, a package or a module in it -> the other rooms of the package that it imports."""
    names = {name for name, _ in _modules()}
    depth = package.count(".") + 1
    found: dict[str, set[str]] = {}
    for name, imports in _modules((package.split(".")[0],)):
        if name.startswith(f"{package}."):
            room = name.split(".")[depth]
            imported = {each for each in imports if each in names and each.startswith(f"{package}.")}
            found.setdefault(room, set()).update({each.split(".")[depth] for each in imported} - {room})
    return found


@pytest.mark.parametrize("package", MOST_ROOMS)
def test_a_package_has_few_rooms(package: str) -> None:
    assert len(_rooms_of(package)) <= MOST_ROOMS[package]


def test_rooms_of_the_testbed_import_those_below_them() -> None:
    rooms = _rooms_of("testbed")
    assert rooms.keys() == set(ROOMS)
    above = {name: imported - set(ROOMS[: ROOMS.index(name)]) for name, imported in rooms.items()}
    assert {name: each for name, each in above.items() if each} == {}


def test_heavy_libraries_stay_in_their_rooms() -> None:
    def barred(name: str, imported: str) -> bool:
        homes = HEAVY.get(imported.split(".")[0])
        return homes is not None and not any(name == home or name.startswith(home + ".") for home in homes)

    assert _wrong(barred) == []


def test_the_oracle_judges_without_code_of_the_router() -> None:
    """Of the run folder it knows `captures.rundir`; predicates and the log of the controller stand alone."""
    oracle, alone = (
        "testbed.results.oracle",
        ("testbed.experiments.workload.constraints", "captures.rundir.epochs"),
    )
    own = (oracle, alone[0], "testbed.support.errors", "captures.rundir", "topos")

    def barred(name: str, imported: str) -> bool:
        if not name.startswith(f"{oracle}.attention"):
            return imported.split(".")[0] in PACKAGES and not imported.startswith(own)
        return imported.split(".")[0] == "router"

    assert _wrong(barred, oracle) == []
    assert {
        each.split(".")[0] for name in alone for each in dict(_modules())[name]
    } <= sys.stdlib_module_names


def test_modules_that_are_left_out_of_the_digest_of_the_code_change_no_result() -> None:
    """Whoever imports them shows something; a module that measures or decides must not."""
    left_out = tuple(name.removesuffix(".py").replace("/", ".") for name in SHOWING)
    users = {
        name
        for name, imports in _modules(("captures", "router", "topos", "testbed"))
        if not name.startswith((*left_out, "testbed.evaluation.figures"))
        and any(imported.startswith(left_out) for imported in imports)
    }
    assert users == {
        *(
            "testbed.results.conclude",
            "testbed.emulation.control.prompt",
            "testbed.emulation.run.emulation",
            "testbed.evaluation.sweeps.runner",
        ),
    }


def test_no_test_module_imports_another() -> None:
    """Code that several tests use is in tests/support."""

    def barred(_name: str, imported: str) -> bool:
        parts = imported.split(".")
        return parts[0] == "tests" and any(part == "conftest" or part.startswith("test_") for part in parts)

    assert _wrong(barred, packages=("tests",)) == []


def test_the_independent_reader_imports_nothing_of_the_project() -> None:
    own = "tests.support.independent"

    def barred(_name: str, imported: str) -> bool:
        return imported.split(".")[0] in {*PACKAGES, "tests"} and not imported.startswith(own)

    assert _wrong(barred, own, packages=("tests",)) == []


def test_no_test_module_changes_where_modules_are_found() -> None:
    wrong = [
        f"{name}, line {node.lineno}"
        for name, tree in _files("tests", "sys.path")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path"
    ]
    assert wrong == []


@pytest.mark.parametrize(("module", "unwanted"), _CASES["unwanted"].items())
def test_processes_load_no_more_than_they_need(module: str, unwanted: list[str]) -> None:
    command = [sys.executable, "-c", f"import {module}, sys; print(*sys.modules)"]
    printed = subprocess.check_output(command, cwd=ROOT, text=True)
    assert set(unwanted) & set(printed.split()) == set()
