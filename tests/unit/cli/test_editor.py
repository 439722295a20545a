"""A commented experiment from options or questions, and completion by the shells themselves."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cli.documents.experiment_file import keys_of
from testbed.cli.main import main
from testbed.experiments.config import SECTIONS
from testbed.experiments.config.load import load_experiment
from testbed.experiments.events.network import LinkDown
from tests.support.cases import cases_beside
from topos.generators import ring

_EVENT = 'at_s = 3, action = "link_down", link = [0, 1]'
_CASES = cases_beside(__file__)
_ASK, _COMPLETED = _CASES["ask"], _CASES["completed"]


def test_a_file_has_every_key_and_the_values_that_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115, PTH123
    options = ["--topology", "ring,5", "--scheme", "multicast", "--duration", "60", "--seed", "7"]
    new = ["new", "a.toml", *options, "--set", "routing.groups=4", "--event", _EVENT]
    assert main(new) == 0
    text = Path("a.toml").read_text()
    for section in ("", *SECTIONS):
        part = text if not section else text.partition(f"[{section}]")[2]
        for option in keys_of(section) if section != "events" else ():
            assert re.search(rf"^#?{option.key} =", part, re.MULTILINE), (section, option.key)
    assert "\n# Bandwidth in each direction. (number above 0; Mbit/s)\n#bandwidth_mbps =\n" in text
    experiment = load_experiment("a.toml")
    assert (experiment.seed, experiment.duration_s, experiment.topology) == (7, 60, ring(5))
    assert (experiment.routing.scheme, experiment.routing.of_kind.groups) == ("multicast", 4)
    assert experiment.events == (LinkDown(3.0, (0, 1)),)
    assert "a.toml: File exists; expected the name of a new file" in refused(*new)
    for wrong in ("seeds=3", "protocol.hop_limit=0", "seed=2026-01-01", "duration_s=nan", "topology.file=no"):
        assert main(["new", "b.toml", "--set", wrong]) == 2
    assert main(["new", "b.toml", "--event", "at_s = 3"]) == main(["new", "none/b.toml"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.toml"]
    assert main(["new", "c.toml", "--workload", "attention"]) == 0
    assert load_experiment("c.toml").attention is not None


def test_a_terminal_is_asked_until_an_answer_is_valid(tmp_path: Path) -> None:
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "testbed.cli.main", "new", str(tmp_path / "a.toml"), "--seed", "7"]
    process = subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, text=True)
    answers = ("rings,5", "ring,5", "psf", "-3", "", "none", _EVENT, "")
    os.write(ours, "".join(f"{each}\n" for each in answers).encode())
    printed, _ = process.communicate(timeout=60)
    assert printed.count("unknown generator or shipped topology 'rings'; did you mean 'ring'?") == 1
    assert printed.count("-3 is not valid; expected a number above 0") == 1
    experiment = load_experiment(tmp_path / "a.toml")
    assert (experiment.seed, experiment.duration_s, experiment.topology) == (7, 600, ring(5))
    assert (experiment.routing.scheme, experiment.workload) == ("psf", None)
    assert experiment.events == (LinkDown(3.0, (0, 1)),)


@pytest.mark.parametrize("shell", _ASK)
def test_a_shell_completes_commands_options_values_and_names(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = tmp_path / "cbcb"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m testbed.cli.main "$@"\n')
    command.chmod(0o755)
    (tmp_path / "runs" / "20260101-ring").mkdir(parents=True)
    (tmp_path / "runs" / "20260101-ring" / "manifest.json").touch()
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    asked = [shell, "-c", _ASK[shell], *([] if shell == "fish" else [shell]), *_COMPLETED]
    done = subprocess.run(asked, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [*_COMPLETED.values()], done.stderr
