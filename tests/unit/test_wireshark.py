"""Installing into Wireshark's folders: idempotent, reversible, and careful with the user's files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cli.main import main
from testbed.cli.wireshark import Folders, Sources, bring, files_of
from tests.support.wire_tshark import for_root, needs_tshark

SOURCES: Sources = {
    "plugins": {"cbcb.lua": b"-- new"},
    "profile": {"colorfilters": b"@a", "preferences": b"b"},
}


@pytest.fixture
def where(tmp_path: Path) -> Folders:
    return {"plugins": tmp_path / "plugins", "profile": tmp_path / "profiles" / "CBCB"}


def test_installs_once_and_overwrites_other_content_by_force_alone(where: Folders) -> None:
    files = files_of(SOURCES, where)
    assert set(bring(files, force=False).values()) == {"written"}
    assert set(bring(files, force=False).values()) == {"current"}
    own = where["plugins"] / "cbcb.lua"
    own.write_bytes(b"-- mine")
    assert bring(files, force=False)[own] == "kept"
    assert own.read_bytes() == b"-- mine"
    assert bring(files, force=True)[own] == "written"
    assert own.read_bytes() == b"-- new"


def test_uninstalls_what_is_as_it_was_installed_and_the_rest_by_force(where: Folders) -> None:
    files = files_of(SOURCES, where)
    bring(files, force=False)
    changed = where["profile"] / "preferences"
    changed.write_bytes(b"changed in Wireshark")
    (where["plugins"] / "other.lua").write_bytes(b"-- not ours")
    done = bring(files, force=False, remove=True)
    assert [target for target, what in done.items() if what == "kept"] == [changed]
    assert sorted(path.name for path in where["profile"].iterdir()) == ["preferences"]
    assert [path.name for path in where["plugins"].iterdir()] == ["other.lua"]
    assert bring(files, force=True, remove=True) == {changed: "removed"}
    assert not any(where["profile"].iterdir())


def test_files_of_an_installation_with_names_go_with_the_next_one_and_when_all_are_removed(
    where: Folders,
) -> None:
    profile = SOURCES["profile"]
    named = files_of({**SOURCES, "profile": {**profile, "topology.json": b"{}"}}, where)
    bring(named, force=False)
    assert b"topology.json" in (where["profile"] / "preferences").read_bytes()
    bring(files_of(SOURCES, where), force=True)
    assert {path.name for path in where["profile"].iterdir()} == set(profile)
    bring(named, force=True)
    bring(files_of(SOURCES, where), force=True, remove=True)
    assert not any(where["profile"].iterdir())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the user whose folders the commands take."""
    for name in ("XDG_CONFIG_HOME", "SUDO_UID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose files Wireshark passes over from 4.4 on")
@pytest.mark.parametrize("protocols", ["", "CBCB\tCBCB\tcbcb"])
def test_install_prints_success_only_where_wireshark_reads_the_files(
    home: Path, protocols: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stub = home / "bin/tshark"
    stub.parent.mkdir()
    stub.write_text(
        f"""#!/bin/sh
[ "$2" = folders ] || exec echo '{protocols}'
echo 'Personal configuration: {home}/configuration'
echo 'Personal Lua Plugins: {home}/plugins'
echo 'Global Lua Plugins: /for/everybody'
"""
    )
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stub.parent}:{os.environ['PATH']}")
    assert main(["wireshark", "install"]) == 0
    out, err = capsys.readouterr()
    assert ("Wireshark shows CBCB frames" in out) == bool(protocols)
    assert ("copy the two to /for/everybody" in err) != bool(protocols)


@needs_tshark
def test_from_the_command_line(
    home: Path,
    printed: Callable[..., str],
    refused: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert printed("wireshark", "install", "--print").count("missing") == 7
    assert not any(home.iterdir())
    assert main(["wireshark", "install"]) == 0
    # Where Wireshark reads no Lua files in root's folders, the command says so.
    assert ("reads no Lua files" in capsys.readouterr().err) == bool(for_root())
    (plugin,) = home.rglob("cbcb.lua")
    plugin.write_text("-- mine")
    assert str(plugin) in refused("wireshark", "install")
    assert plugin.read_text() == "-- mine"
    assert main(["wireshark", "uninstall", "--force"]) == 0
    assert not [path for path in home.rglob("*") if path.is_file() or path.name == "CBCB"]
