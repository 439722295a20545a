"""Machines as their users keep them: each state by a stub, a setting, or a namespace of its own."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.emulation.network.namespaces import allow_descriptors
from testbed.machine import probes
from testbed.machine.checks import Check, check_machine
from testbed.machine.versions import tool_versions
from tests.support.paths import ROOT

_QUOTES = 'Picked up JAVA_TOOL_OPTIONS: -Downer="the lab"\n'


def _command(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def _java(folder: Path, version: str, before: str = "") -> Path:
    text = f'{before}openjdk version "{version}" 2026-03-17\nOpenJDK Runtime Environment\n'
    return _command(folder, "java", f"cat >&2 <<'END'\n{text}END")


def _row(name: str) -> Check:
    return {check.name: check for check in check_machine()}[name]


def _run_sh(text: str, path: Path, **variables: str) -> str:
    """Runs a text of the shell after the functions of run.sh, with commands of a folder first in PATH."""
    functions = (ROOT / "run.sh").read_text(encoding="utf-8").partition("\ncase ${1-} in")[0]
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", **variables}
    return subprocess.check_output(["bash", "-c", f"{functions}\n{text}"], env=environment, text=True)


@pytest.mark.parametrize(
    ("version", "number"), [("17.0.15", 17), ("26-ea", 26), ("25-internal", 25), ("1.8.0_412", 1)]
)
@pytest.mark.parametrize("before", ["", _QUOTES])
def test_each_text_of_a_java_is_read(
    version: str, number: int, before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _java(tmp_path, version, before)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    row = _row("java")
    assert (row.ok, row.detail) == (number >= 17, version)
    assert tool_versions()["java"] == version
    said = _run_sh("java_is_new_enough && echo new || echo old", tmp_path)
    assert said == ("new\n" if number >= 17 else "old\n")


def test_the_java_of_java_home_is_the_java_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _java(tmp_path / "new", "21.0.1")
    _java(tmp_path / "home" / "bin", "11.0.2")
    monkeypatch.setenv("PATH", str(tmp_path / "new"), prepend=os.pathsep)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    row = _row("java")
    assert (row.ok, row.detail) == (False, f"11.0.2; JAVA_HOME is {tmp_path / 'home'}")
    assert row.mend.endswith(", and unset JAVA_HOME")
    assert _run_sh("java_is_new_enough && echo new || echo old", tmp_path / "new") == "old\n"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert _row("java").mend == "set JAVA_HOME to the folder of a Java, or unset it"


@pytest.mark.parametrize(("status", "installed"), [("ii ", "yes"), ("hi ", "yes"), ("rc ", "no"), ("", "no")])
def test_a_package_on_hold_is_installed(status: str, installed: str, tmp_path: Path) -> None:
    _command(tmp_path, "dpkg-query", f"printf '%s' '{status}'")
    assert _run_sh("is_installed tshark && echo yes || echo no", tmp_path).strip() == installed


def test_the_folders_of_administration_are_in_path_after_su_without_a_dash(tmp_path: Path) -> None:
    path = _run_sh("echo $PATH", tmp_path, PATH="/usr/local/bin:/usr/bin:/bin")
    assert "/usr/sbin" in path.strip().split(":")
    program = "import os\nfrom testbed.cli.main import main\nmain(['doctor'])\nprint(os.environ['PATH'])"
    command, environment = [sys.executable, "-c", program], {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].split(":")[:2] == ["/usr/bin", "/bin"]
    assert "/usr/sbin" in done.stdout.splitlines()[-1].split(":")


def test_pip_installs_into_the_environment_whatever_the_user_has_set(tmp_path: Path) -> None:
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nuser = true\n")
    text = f'"${{into_environment[@]}}" {sys.executable} -m pip install --no-index no-such-package 2>&1 || :'
    said = _run_sh(text, tmp_path, PIP_CONFIG_FILE=str(settings), PIP_TARGET="/elsewhere")
    assert "No matching distribution found for no-such-package" in said
    assert "--user" not in said


def test_a_processor_without_an_instruction_of_a_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = _command(tmp_path, "python", "kill -ILL $$")
    monkeypatch.setattr("router.system.sys.executable", str(python))
    reason = probes.why_no_machine_code()
    assert reason == "duckdb, numba, pyarrow: the program ended by SIGILL"
    monkeypatch.setattr(probes, "why_no_machine_code", lambda: reason)
    row = _row("machine code of packages")
    assert not row.ok
    assert "AVX" in row.mend


@pytest.mark.root
@pytest.mark.parametrize("options", ["noexec", "ro"])
def test_a_folder_of_temporary_files_where_no_program_runs_is_named(options: str, tmp_path: Path) -> None:
    program = "from testbed.machine.probes import why_no_temporary_programs as why; print(why())"
    script = (
        f"mount -t tmpfs -o {options} tmpfs {tmp_path} && export TMPDIR={tmp_path}"
        f" && cd {ROOT} && exec {sys.executable} -c '{program}'"
    )
    said = subprocess.check_output(["unshare", "--mount", "sh", "-c", script], text=True).strip()
    # In place of a folder that cannot be written, Python takes the next, which Spark gets too.
    assert said == (
        f"{tmp_path}: programs do not run there: mounted noexec?" if options == "noexec" else "None"
    )


def test_a_limit_of_a_thousand_million_open_files_is_lowered_for_a_run() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    vast = min(before[1], 1 << 20) if before[1] != resource.RLIM_INFINITY else 1 << 20
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (vast, before[1]))
        allow_descriptors(20)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft <= 16_384
        assert hard == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
