"""Schemes, layers and generators of packages, which join by entry points."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.summary import read_summary
from router.predicates import Message
from router.protocol.options import SCHEMES, RouterOptions
from router.registry import PackageError, Registry
from testbed.support.errors import exit_status
from tests.support.protocol_network import Network, graph_of

_ROOT = Path(__file__).parents[2]


def _installed(folder: Path, name: str, points: dict[str, dict[str, str]]) -> None:
    """Makes the metadata of an installed package in a folder, as pip does beside its modules."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in each.items()) for group, each in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.syspath_prepend(tmp_path)

    def install(**entries: str) -> None:
        _installed(tmp_path, "theirs", {"cbcb.layers": entries})

    return install


def _layers() -> Registry[object]:
    layers = Registry[object]("layer", "cbcb.layers")
    layers.register("spt", 1, "Ours.")
    return layers


def test_an_entry_of_a_package_is_known_and_listed(package: Callable[..., None]) -> None:
    package(theirs="json:loads")
    layers = _layers()
    assert "theirs" in layers
    assert layers["theirs"] is __import__("json").loads
    assert list(layers) == ["spt", "theirs"]
    assert layers.docs == {"spt": "Ours.", "theirs": "Of the package theirs."}


@pytest.mark.parametrize("place", ["no_such_module:Layer", "json:no_such_name", "no_syntax:Layer"])
def test_an_entry_that_cannot_be_imported_names_its_package(
    package: Callable[..., None], tmp_path: Path, place: str
) -> None:
    (tmp_path / "no_syntax.py").write_text("no_such syntax")
    package(theirs=place)
    with pytest.raises(
        PackageError, match=r"layer 'theirs' of package theirs cannot be imported: \w+Error: "
    ) as at:
        _layers()["theirs"]
    assert exit_status(at.value) == 2


def test_a_package_does_not_replace_an_entry(
    package: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    package(spt="json:loads", theirs="json:loads")
    layers = _layers()
    assert list(layers) == ["spt", "theirs"]
    assert layers["spt"] == 1
    said = "cbcb: entry point spt of package theirs is left out: layer 'spt' is registered already\n"
    assert capsys.readouterr().err == said


def _example() -> tuple[str, str, str]:
    page = (_ROOT / "docs/how-to/extending.md").read_text()
    section = page[page.index("### In a package of its own") :]
    code, project, routing = (
        re.search(rf"{re.escape(mark)}(.*?)```", section, re.DOTALL)[1]  # type: ignore[index]
        for mark in ("```python\n", "```toml\n[project]", "```toml\n[routing]")
    )
    return code, f"[project]{project}", f"[routing]{routing}"


@pytest.mark.parametrize("hops", [0, 1, 2, 5])
def test_the_scheme_of_the_documents_floods_as_many_hops_as_it_says(hops: int) -> None:
    """From an end of a line of 6 nodes, in which nobody asks for the message."""
    names: dict[str, Any] = {}
    exec(_example()[0], names)
    SCHEMES.register("near", names["FloodedNear"])
    try:
        options = RouterOptions(scheme="near", scheme_options=names["Options"](hops))
        network = Network(graph_of([(node, node + 1, 1) for node in range(5)]), options, 1)
        network.new_epoch()
        network.settle()
        network.send(0, Message({"x": 1}))
        network.settle()
    finally:
        SCHEMES.unregister("near")
    assert sum(router.counters.messages_received for router in network.routers.values()) == hops


def test_the_scheme_of_the_documents_runs_with_its_option(tmp_path: Path) -> None:
    code, project, routing = _example()
    (tmp_path / "flooded_near.py").write_text(code)
    _installed(tmp_path, "flooded-near", tomllib.loads(project)["project"]["entry-points"])

    sets = [
        f"routing.{key}={value}"
        for key, value in {**tomllib.loads(routing)["routing"], "flooded_hops": 9}.items()
    ]
    command = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from testbed.cli.main import main; main()"
    more = [part for each in (*sets, "duration_s=120") for part in ("--set", each)]
    where = ["--topology", "line,6", "--runs", str(tmp_path / "runs"), "--engine", "duckdb"]
    subprocess.run(
        [sys.executable, "-c", command, "simulate", "default", *where, *more], check=True, capture_output=True
    )
    (run,) = (tmp_path / "runs").iterdir()
    crossed = read_summary(RunLayout(run))["message_crossings"]
    # Every hop is flooded, so that messages cross all links of their trees.
    assert crossed["cbcb"] == crossed["broadcast"] > crossed["minimal"]
