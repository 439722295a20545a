"""No process of the testbed imports modules from the working folder."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from router.system import start_module
from testbed.cli.main import main
from tests.support.cases import cases_beside
from tests.support.hostile_folder import RAN, write_hostile_modules
from tests.support.paths import ROOT

#: The modules that run as child processes of a command.
CHILDREN = (
    "captures.capturing.recorder",
    "router.runtime.parent",
    "testbed.controller",
    "testbed.results.live.view",
    "testbed.cli.prepared",
)
#: Modules that name the interpreter and do not start it.
NAME_IT = {"captures.spark.session", "testbed.machine.checks", "testbed.terminal"}


@pytest.mark.attack("modules in the working folder")
@pytest.mark.parametrize("module", CHILDREN)
def test_a_child_imports_nothing_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    write_hostile_modules(tmp_path)
    monkeypatch.chdir(tmp_path)
    # Without its arguments, it ends once its modules are loaded.
    with start_module(module, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
        _, errors = child.communicate(timeout=120)
    assert not (tmp_path / RAN).exists(), errors
    assert child.returncode not in (0, 97)


@pytest.mark.parametrize(("name", "content", "code", "expected"), cases_beside(__file__)["settings"])
def test_no_library_takes_settings_of_the_working_folder(
    tmp_path: Path, name: str, content: str, code: str, expected: str
) -> None:
    (tmp_path / name).write_text(content)
    printed = subprocess.check_output([sys.executable, "-P", "-c", code], cwd=tmp_path, text=True)
    assert printed.strip() == expected


def test_children_get_no_path_of_modules_that_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":/x:")
    assert main(["export", "none", "--runs", "/dev/null"]) == 2
    assert os.environ["PYTHONPATH"] == "/x"


def test_one_function_starts_the_interpreter() -> None:
    found = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in ("router", "topos", "captures", "testbed")
        for path in (ROOT / package).rglob("*.py")
        if "runs" not in path.parts and "sys.executable" in (source := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"
    }
    assert found - NAME_IT == {"router.system"}


def test_the_command_imports_nothing_of_the_working_folder(tmp_path: Path) -> None:
    write_hostile_modules(tmp_path)
    script = (ROOT / "run.sh").read_text(encoding="utf-8")
    function = script[script.index("command_text() {") : script.index("command_is_current()")]
    command = tmp_path / "cbcb"
    with command.open("w") as file:
        subprocess.run(
            ["bash", "-c", f"{function}\ncommand_text"], env={"venv": sys.prefix}, stdout=file, check=True
        )
    command.chmod(0o755)
    done = subprocess.run([command, "--version"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / RAN).exists()


def test_the_set_up_imports_nothing_of_the_working_folder() -> None:
    """Each start of an interpreter in run.sh has `-I` or `-P`, through the two arrays at its head."""
    script = (ROOT / "run.sh").read_text(encoding="utf-8")
    assert "python=(/usr/bin/python3 -I)\n" in script
    assert 'venv_python=("$venv/bin/python" -P)\n' in script
    used = re.findall(r"\$\{?(?:venv_)?python\b.*?\}|bin/python[^\n]*|bin/pip\b", script)
    assert set(used) == {
        "${python[0]}",
        "${python[@]}",
        "${venv_python[@]}",
        'bin/python" -P)',
        'bin/python\\" -P \\"\\$0\\" \\"\\$@\\"',
        "bin/python3 -I)",
    }
