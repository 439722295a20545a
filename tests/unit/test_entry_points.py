"""Schemes, layers and generators of packages, which join by entry points."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from captures.rundir.summary import read_summary
from router.registry import Registry, UnknownNameError

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


@pytest.mark.parametrize("place", ["no_such_module:Layer", "json:no_such_name"])
def test_an_entry_that_cannot_be_imported_names_its_package(package: Callable[..., None], place: str) -> None:
    package(theirs=place)
    with pytest.raises(ValueError, match=r"layer 'theirs' of package theirs: .*no_such") as caught:
        _layers()["theirs"]
    assert not isinstance(caught.value, UnknownNameError)


def test_a_package_does_not_replace_an_entry(package: Callable[..., None]) -> None:
    package(spt="json:loads")
    layers = _layers()
    assert layers["spt"] == 1
    with pytest.raises(
        ValueError, match=r"package theirs, entry point of cbcb\.layers: layer 'spt' is registered"
    ):
        list(layers)


def test_the_scheme_of_the_documents_runs_with_its_option(tmp_path: Path) -> None:
    page = (_ROOT / "docs/how-to/extending.md").read_text()
    section = page[page.index("### In a package of its own") :]
    code, project, routing = (
        re.search(rf"```{kind}\n(.*?)```", section[section.index(mark) :], re.DOTALL)[1]  # type: ignore[index]
        for kind, mark in (
            ("python", "```python"),
            ("toml", "```toml\n[project]"),
            ("toml", "```toml\n[routing]"),
        )
    )
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
