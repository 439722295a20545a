"""Checks a checkout before its release is tagged, and builds its wheel: `python .ci/release.py vX.Y.Z`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_TAG = re.compile(r"v(\d+\.\d+\.\d+)")


def faults(tag: str, root: Path) -> list[str]:
    """The reasons for which the state of a checkout is not the release of a tag."""
    named = _TAG.fullmatch(tag)
    if named is None:
        return [f"{tag}: expected a tag such as v1.2.0"]
    version = named[1]
    found = []
    for path, pattern in (
        ("testbed/__init__.py", r'^__version__ = "(.+)"$'),
        ("CITATION.cff", r"^version: (.+)$"),
    ):
        versions = re.findall(pattern, (root / path).read_text(encoding="utf-8"), re.MULTILINE)
        if versions != [version]:
            found.append(f"{path}: version {', '.join(versions) or 'missing'}; expected {version}")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", changelog, re.MULTILINE)
    if released[:1] != [version]:
        newest = released[0] if released else "missing"
        found.append(f"CHANGELOG.md: newest version {newest}; expected {version} (towncrier build)")
    left = sorted(path.name for path in (root / "changes").glob("*.*.md"))
    if left:
        found.append(f"changes: {len(left)} fragments, such as {left[0]}; expected none (towncrier build)")
    return found


def _faults_of_build(root: Path) -> list[str]:
    """Builds the wheel into dist/, without a network. Returns why it cannot be built; else nothing."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*command, "--wheel-dir", root / "dist", root], capture_output=True, text=True, check=False
    )
    return [f"the wheel cannot be built:\n{done.stderr}"] if done.returncode else []


def main(arguments: list[str]) -> int:
    """Prints the faults. Returns 0 if there are none, else 1."""
    if len(arguments) != 1:
        print("usage: python .ci/release.py vX.Y.Z", file=sys.stderr)
        return 1
    found = faults(arguments[0], _ROOT) or _faults_of_build(_ROOT)
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
