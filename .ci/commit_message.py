"""Checks a commit message: `python .ci/commit_message.py FILE`. The commit-msg hook of pre-commit runs it."""

from __future__ import annotations

import sys
from pathlib import Path

SUBJECT_MAX = 72
#: Subjects that git itself writes.
_OF_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ")


def faults(message: str) -> list[str]:
    """The faults of a commit message; comments and the diff that git adds are left out."""
    lines = []
    for line in message.splitlines():
        if line.startswith("# -----") and ">8" in line:
            break
        if not line.startswith("#"):
            lines.append(line.rstrip())
    subject, rest = (lines[0], lines[1:]) if lines else ("", [])
    if not subject:
        return ["no subject; expected what the change does, such as: Add a broadcast layer"]
    if subject.startswith(_OF_GIT):
        return []
    found = []
    if len(subject) > SUBJECT_MAX:
        found.append(f"the subject has {len(subject)} characters; expected at most {SUBJECT_MAX}")
    if subject.endswith("."):
        found.append("the subject ends with a full stop; expected none")
    if rest and rest[0]:
        found.append("the second line is not empty; expected an empty line below the subject")
    if not any(rest):
        found.append("no body; expected why the change is made, below an empty line")
    return found


def main(path: str) -> int:
    """Prints the faults of the message in a file. Returns 0 if it has none, else 1."""
    found = faults(Path(path).read_text(encoding="utf-8"))
    for fault in found:
        print(f"commit message: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
