"""Rules for contributors: the form of commit messages, fragments of the changelog, one version."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import testbed
from tests.support.paths import ROOT


def _check(tmp_path: Path, message: str) -> tuple[int, str]:
    path = tmp_path / "COMMIT_EDITMSG"
    path.write_text(message)
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "commit_message.py"), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "message",
    [
        f"{'S' * 72}\n\nBecause.\n",
        "Add a layer\n\nBecause.\n# Please enter the commit message\n# ---- >8 ----\ndiff --git a b\n",
        "Merge branch 'main'\n",
        'Revert "Add a layer that does too much for its users and for its subject"\n',
    ],
)
def test_commit_messages_with_short_subject_and_body_pass(tmp_path: Path, message: str) -> None:
    assert _check(tmp_path, message) == (0, "")


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("", "no subject; expected what the change does, such as: Add a broadcast layer"),
        (f"{'S' * 73}\n\nBecause.\n", "the subject has 73 characters; expected at most 72"),
        ("Add a layer.\n\nBecause.\n", "the subject ends with a full stop; expected none"),
        ("Add a layer\nBecause.\n", "the second line is not empty; expected an empty line below the subject"),
        ("Add a layer\n\n# comment\n", "no body; expected why the change is made, below an empty line"),
    ],
)
def test_a_fault_of_a_commit_message_is_named(tmp_path: Path, message: str, fault: str) -> None:
    assert _check(tmp_path, message) == (1, f"commit message: {fault}\n")


def test_fragments_become_a_version_of_the_changelog(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in ("changes", "testbed"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "testbed" / "__init__.py", tmp_path / "testbed")
    (tmp_path / "changes" / "99.added.md").write_text("A layer.\n")
    (tmp_path / "changes" / "+word.fixed.md").write_text("A fault.\n")
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--date", "2026-01-02"]
    draft = subprocess.check_output(command, cwd=tmp_path, text=True)
    text = draft[draft.index("## ") :]
    version = re.escape(testbed.__version__)
    assert re.match(rf"## {version} \(2026-01-02\)\n", text)
    sections = dict(re.findall(r"### (\w+)\n\n((?:- .*\n)+)", text))
    assert sections == {"Added": "- A layer. (#99)\n", "Fixed": "- A fault.\n"}


def test_the_citation_has_the_version() -> None:
    cited = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited == [testbed.__version__]


def test_hooks_name_no_host() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (.+)", text) == ["local"]
    assert "://" not in text
