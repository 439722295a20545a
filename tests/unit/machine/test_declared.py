"""The needs of a run are declared once: Python packages in pyproject.toml, commands in commands.txt."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from testbed.machine import versions
from testbed.machine.checks import check_machine, required_commands
from testbed.machine.versions import (
    code_digest,
    commit_of,
    package_versions,
    required_packages,
    source_version,
)
from tests.support.paths import ROOT

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def test_required_packages_are_those_of_pyproject() -> None:
    assert {"ryu", "pyspark", "numba", "psutil"} <= set(required_packages())
    assert "pytest" not in required_packages()
    assert package_versions()["psutil"] == version("psutil")
    assert set(package_versions()) == set(required_packages())


def test_without_a_checkout_required_packages_are_those_of_the_installed_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "cbcb_testbed-0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(
        "Metadata-Version: 2.1\nName: cbcb-testbed\nVersion: 0\n"
        "Requires-Dist: psutil>=7\nRequires-Dist: rich; extra == 'testbed'\n"
        "Requires-Dist: pytest; extra == 'dev'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(versions, "_PYPROJECT", tmp_path / "pyproject.toml")
    assert required_packages.__wrapped__() == ("psutil", "rich")


def test_code_that_came_to_a_worker_declares_no_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def requires(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(versions, "_PYPROJECT", tmp_path / "pyproject.toml")
    monkeypatch.setattr(versions, "requires", requires)
    assert required_packages.__wrapped__() == ()


def _locked(file: str) -> dict[str, list[str]]:
    """Name of each package of a lock file -> its version, and the options behind it."""
    text = (ROOT / file).read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.match(r"[a-z0-9-]+==", line)] == []
    return {name: rest.split() for name, _, rest in (line.partition("==") for line in lines)}


def test_every_package_that_a_run_or_a_test_needs_is_locked() -> None:
    locked = _locked("requirements.lock")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tests = map(Requirement, declared["project"]["optional-dependencies"]["dev"])
    required = [*required_packages(), *(each.name for each in tests)]
    assert [name for name in required if name.lower() not in locked] == []


@pytest.mark.parametrize("file", ["requirements.lock", "build-constraints.txt"])
def test_every_locked_package_has_the_hashes_of_its_files(file: str) -> None:
    locked = _locked(file)
    assert locked
    assert [name for name, rest in locked.items() if not rest[-1].startswith("--hash=sha256:")] == []


def test_the_locked_versions_fit_the_declared_ones() -> None:
    locked = {name: rest[0] for name, rest in _locked("requirements.lock").items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = map(Requirement, (*project["dependencies"], *extras["testbed"], *extras["dev"]))
    assert [str(each) for each in declared if locked[each.name] not in each.specifier] == []
    builders = _locked("build-constraints.txt")
    assert {"setuptools", "wheel"} <= set(builders)


def test_the_wheel_of_ryu_is_the_file_that_the_lock_names() -> None:
    (wheel,) = (ROOT / "wheels").glob("*.whl")
    name, version, *_ = wheel.name.split("-")
    locked = _locked("requirements.lock")[name]
    assert locked == [version, f"--hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"]


def test_a_package_or_command_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.machine.checks.required_packages", lambda: ("psutil", "nosuchpackage"))
    monkeypatch.setenv("PATH", "/nowhere")
    found = {check.name: check for check in check_machine()}
    assert found["python packages"].detail.startswith("nosuchpackage not installed in ")
    commands = found["system commands"]
    assert not commands.ok
    needed = required_commands()
    java = needed.pop("java")
    assert commands.detail == f"{', '.join(needed)} not found"
    packages = commands.mend.removeprefix("apt-get install -y ").split()
    assert set(packages) == set(needed.values())
    assert found["java"].mend == f"apt-get install -y {java}"


def test_run_sh_installs_the_packages_of_the_commands(tmp_path: Path) -> None:
    """`install_packages` on a machine that has no package and no Java."""
    text = (ROOT / "run.sh").read_text(encoding="utf-8")
    begin, end = text.index("packages=(kmod"), text.index("\ninstall_test_packages()")
    for name, script in (("dpkg-query", "exit 1"), ("apt-get", f'echo "$@" >>{tmp_path}/said')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    body = text[begin:end].replace("java_is_new_enough ||", "false ||")
    setting = "say() { :; }; fail() { exit 3; }; commands=" + shlex.quote(
        str(ROOT / "testbed" / "machine" / "commands.txt")
    )
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{setting}\n{body}\nfind_missing_packages\ninstall_packages"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=True,
    )
    installed = (tmp_path / "said").read_text().splitlines()[-1].split()
    assert set(required_commands().values()) | {"kmod", "procps", "python3-venv"} <= set(installed)
    assert len(installed) == len(set(installed))


def test_a_java_that_does_not_start_is_not_taken_for_a_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "java").write_text(
        "#!/bin/sh\necho 'Error of the VM' >&2\necho 'Could not allocate' >&2\nexit 1\n"
    )
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    java = {check.name: check for check in check_machine()}["java"]
    assert not java.ok
    assert java.detail == "`java -version` fails: Error of the VM; Could not allocate"
    assert java.mend == "make `java -version` work; for lack of memory, free some or raise `ulimit -v`"


@needs_git
def test_the_commit_of_a_checkout_of_another_user_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "a"]):
        subprocess.run([*git, *command], check=True)
    # With the variable, git takes every checkout for another user's.
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert subprocess.run([*git, "rev-parse", "HEAD"], check=False, capture_output=True).returncode == 128
    assert commit_of(tmp_path) == (head.strip(), False)


@needs_git
def test_a_checkout_without_a_known_commit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(versions, "_ROOT", tmp_path)
    assert source_version.__wrapped__()["commit"] is None
    assert capsys.readouterr().err.startswith(f"cbcb: {tmp_path}: its commit is not known: fatal: ")


def test_the_digest_of_the_code_follows_what_runs_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "_ROOT", tmp_path)
    assert code_digest() is None
    results = "testbed/results/report"
    for name in ("router", "topos", "captures/runs/1", "testbed/evaluation/figures", "testbed/cli", results):
        (tmp_path / name).mkdir(parents=True)

    def changes(name: str, **measured: str) -> bool:
        before = code_digest(**measured)
        (tmp_path / name).write_text(name)
        return code_digest(**measured) != before

    assert changes("router/core.py")
    assert changes("testbed/results/conclude.py")
    for name in (
        "captures/runs/1/a.py",
        "testbed/cli/a.py",
        "testbed/api.py",
        "testbed/a.md",
        f"{results}/a.py",
    ):
        assert not changes(name)
    assert not changes("testbed/evaluation/figures/a.py")
    assert changes("testbed/evaluation/figures/b.py", measure="tests.support.killing:measured")
    # A link that leads nowhere, as Emacs locks a file that is edited, is no code.
    before = code_digest()
    for place in (tmp_path / "router", tmp_path / "testbed" / "evaluation"):
        (place / ".#module.py").symlink_to("user@host.1:2")
    assert code_digest() == before
