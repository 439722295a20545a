"""The controller's configuration file, and its command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.controller.settings import read_settings
from testbed.support.errors import InputError
from topos.generators import ring
from topos.loaders import to_json


def write(folder: Path, **changes: object) -> Path:
    """A valid configuration, changed; None removes a key."""
    (folder / "topology.json").write_text(to_json(ring(3)))
    config: dict[str, object] = {"topology": str(folder / "topology.json"), "log": str(folder / "log")}
    config["socket"] = str(folder / "socket")
    config |= changes
    path = folder / "config.json"
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return path


def test_defaults(tmp_path: Path) -> None:
    settings = read_settings(write(tmp_path))
    assert settings.network == ring(3)
    assert settings.log == tmp_path / "log"
    assert (settings.layer, settings.socket) == ("spt", tmp_path / "socket")
    assert settings.parent_pid is None


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"topology": None}, "missing required field `topology`"),
        ({"log": None}, "missing required field `log`"),
        ({"socket": None}, "missing required field `socket`"),
        ({"layer": "mesh"}, 'layer: "mesh" is not valid; expected "spt" or '),
        ({"parent_pid": True}, "Expected `int | null`, got `bool` - at `$.parent_pid`"),
        ({"topology": 3}, "3; expected a path - at `$.topology`"),
        ({"port": 1}, "port: no such field; expected topology, socket, log, framework, layer, "),
        ({"topology": "/nowhere.json"}, "/nowhere.json: cannot be read"),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path: Path, changes: dict[str, object], complaint: str) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(InputError) as caught:
        read_settings(path)
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value) or "/nowhere.json" in complaint


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_what_is_not_a_json_object_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"config\.json"):
        read_settings(path)


def test_the_command_line_says_what_is_wrong_in_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, layer="mesh")
    command = [sys.executable, "-m", "testbed.controller"]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert 'expected "spt" or' in done.stderr
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 2


def test_it_ends_when_its_parent_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "testbed.controller", str(write(tmp_path, parent_pid=1))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.strip() == "parent process 1 has ended"
