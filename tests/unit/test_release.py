"""The check of a checkout before its release is tagged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import testbed
from tests.support.cases import cases_beside
from tests.support.paths import ROOT

_CHANGELOG = "# Changelog\n\n<!-- towncrier release notes start -->\n\n## 1.2.0 (2026-01-02)\n\n- A change.\n"


_BUILD = '[build-system]\nrequires = ["setuptools"]\n[tool.setuptools]\npackages = ["testbed"]\n'


def _checkout(root: Path, version: str = "1.2.0") -> Path:
    """A checkout that is ready for the tag v1.2.0, if `version` is that."""
    for folder in (".ci", "testbed", "changes"):
        (root / folder).mkdir(parents=True)
    (root / ".ci" / "release.py").write_text((ROOT / ".ci" / "release.py").read_text())
    (root / "testbed" / "__init__.py").write_text(f'__version__ = "{version}"\n')
    (root / "CITATION.cff").write_text(f"cff-version: 1.2.0\nversion: {version}\n")
    (root / "CHANGELOG.md").write_text(_CHANGELOG)
    (root / "changes" / "README.md").write_text("# Fragments\n")
    (root / "pyproject.toml").write_text(f'[project]\nname = "x"\nversion = "{version}"\n{_BUILD}')
    return root


def _check(root: Path, tag: str) -> tuple[int, str]:
    command = [sys.executable, str(root / ".ci" / "release.py"), tag]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_checkout_with_one_version_and_no_fragment_may_be_tagged(tmp_path: Path) -> None:
    root = _checkout(tmp_path / "ready")
    assert _check(root, "v1.2.0") == (0, "")
    assert [path.name for path in (root / "dist").iterdir()] == ["x-1.2.0-py3-none-any.whl"]


def test_a_wheel_that_cannot_be_built_is_a_fault(tmp_path: Path) -> None:
    root = _checkout(tmp_path / "broken")
    (root / "pyproject.toml").write_text("[project]\n")
    status, said = _check(root, "v1.2.0")
    assert (status, said.partition("\n")[0]) == (1, "the wheel cannot be built:")


@pytest.mark.parametrize(("tag", "version", "fragment", "said"), cases_beside(__file__)["faults"])
def test_each_fault_is_named(tmp_path: Path, tag: str, version: str, fragment: bool, said: list[str]) -> None:
    root = _checkout(tmp_path / "not-ready", version)
    if fragment:
        (root / "changes" / "+a.fixed.md").write_text("A fault.\n")
    assert _check(root, tag) == (1, "\n".join(said) + "\n")


def test_the_files_that_the_check_reads_are_those_of_this_checkout() -> None:
    status, said = _check(ROOT, "v999.0.0")
    assert status == 1
    assert f"testbed/__init__.py: version {testbed.__version__}; expected 999.0.0" in said
    assert f"CITATION.cff: version {testbed.__version__}; expected 999.0.0" in said
    assert "CHANGELOG.md: newest version " in said
