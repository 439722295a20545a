"""Installing into Wireshark's folders: idempotent, reversible, and careful with the user's files."""

from __future__ import annotations

import os
import pty
from pathlib import Path

import pytest

from testbed.cli.main import main
from testbed.cli.wireshark import Folders, Installation, Sources
from tests.support.wire_tshark import for_root, needs_tshark

SOURCES = Sources({"cbcb.lua": b"-- new"}, {"colorfilters": b"@a", "preferences": b"b"})


@pytest.fixture
def where(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "plugins", tmp_path / "profiles" / "CBCB")


def never(target: Path) -> bool:
    raise AssertionError(f"asked about {target}")


def no(_target: Path) -> bool:
    return False


def yes(_target: Path) -> bool:
    return True


def test_installs_once_and_brings_up_to_date(where: Folders) -> None:
    assert set(Installation(SOURCES, where).install(never).values()) == {"written"}
    assert set(Installation(SOURCES, where).install(never).values()) == {"current"}
    newer = Sources({"cbcb.lua": b"-- newer"}, SOURCES.profile)
    done = Installation(newer, where).install(never)
    assert [target.name for target, what in done.items() if what == "written"] == ["cbcb.lua"]
    assert (where.plugins / "cbcb.lua").read_bytes() == b"-- newer"


def test_asks_before_it_overwrites_what_is_the_user_s(where: Folders) -> None:
    where.plugins.mkdir(parents=True)
    own = where.plugins / "cbcb.lua"
    own.write_bytes(b"-- mine")
    asked: list[Path] = []

    def refuse(target: Path) -> bool:
        asked.append(target)
        return False

    assert Installation(SOURCES, where).install(refuse)[own] == "kept"
    assert asked == [own]
    assert own.read_bytes() == b"-- mine"
    assert Installation(SOURCES, where).install(yes)[own] == "written"
    assert own.read_bytes() == b"-- new"


def test_uninstalls_only_what_is_as_it_was_installed(where: Folders) -> None:
    Installation(SOURCES, where).install(never)
    changed = where.profile / "preferences"
    changed.write_bytes(b"changed in Wireshark")
    (where.plugins / "other.lua").write_bytes(b"-- not ours")
    done = Installation(SOURCES, where).uninstall(no)
    assert [target for target, what in done.items() if what == "kept"] == [changed]
    assert sorted(path.name for path in where.profile.iterdir()) == ["preferences"]
    assert [path.name for path in where.plugins.iterdir()] == ["other.lua"]
    Installation(SOURCES, where).uninstall(yes)
    assert not where.profile.exists()


def test_files_of_an_earlier_version_go_unless_they_were_changed(where: Folders) -> None:
    earlier = Sources({"old.lua": b"-- old", **SOURCES.plugins}, {"dfilters": b"d", **SOURCES.profile})
    Installation(earlier, where).install(never)
    (where.profile / "dfilters").write_bytes(b"changed in Wireshark")
    done = Installation(SOURCES, where).install(no)
    assert {target.name: what for target, what in done.items() if what != "current"} == {
        "old.lua": "removed",
        "dfilters": "kept",
    }
    assert not (where.plugins / "old.lua").exists()
    assert (where.profile / "dfilters").read_bytes() == b"changed in Wireshark"
    assert set(Installation(SOURCES, where).install(never).values()) == {"current"}


def test_what_the_user_put_there_stays_the_user_s_even_if_it_is_the_same(where: Folders) -> None:
    where.plugins.mkdir(parents=True)
    own = where.plugins / "cbcb.lua"
    own.write_bytes(SOURCES.plugins["cbcb.lua"])
    assert Installation(SOURCES, where).uninstall(no) == {own: "kept"}
    for expected in ("written", "current"):
        done = Installation(SOURCES, where).install(never)
        assert done.pop(own) == "same"
        assert set(done.values()) == {expected}
    assert Installation(SOURCES, where).state(own) == "same"
    done = Installation(SOURCES, where).uninstall(no)
    assert [target for target, what in done.items() if what == "kept"] == [own]
    assert own.exists() and not where.profile.exists()
    assert Installation(SOURCES, where).uninstall(yes) == {own: "removed"}
    assert not own.exists()


def test_what_was_written_before_an_interruption_is_ours(where: Folders) -> None:
    where.profile.mkdir(parents=True)
    (where.profile / "preferences").write_bytes(b"changed in Wireshark")

    def interrupted(_target: Path) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Installation(SOURCES, where).install(interrupted)
    installation = Installation(SOURCES, where)
    assert {target.name: installation.state(target) for target in installation.files} == {
        "cbcb.lua": "current",
        "colorfilters": "current",
        "preferences": "foreign",
    }


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
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command overwrites a changed file neither without a terminal nor if the input ends."""
    assert main(["wireshark", "install", "--print"]) == 0
    assert capsys.readouterr().out.count("missing") == 7
    assert not any(home.iterdir())
    assert main(["wireshark", "install"]) == 0
    # Where Wireshark reads no Lua files in root's folders, the command says so.
    assert ("reads no Lua files" in capsys.readouterr().err) == bool(for_root())
    (plugin,) = home.rglob("cbcb.lua")
    plugin.write_text("-- mine")
    assert main(["wireshark", "install"]) == 2
    assert str(plugin) in capsys.readouterr().err
    terminal, end = pty.openpty()
    os.write(terminal, b"\x04")  # Ctrl-D
    with os.fdopen(end, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["wireshark", "install"]) == 2
    os.close(terminal)
    question, *rest = capsys.readouterr().out.splitlines()
    assert question.endswith("overwrite it? [y/N] ") and len(rest) == 7
    assert plugin.read_text() == "-- mine"
    assert main(["wireshark", "uninstall", "--force"]) == 0
    assert not [path for path in home.rglob("*") if path.is_file()]
