"""Inputs that are kept: a file for each target, with an input as hexadecimal digits on each line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_FOLDER = Path(__file__).parent / "corpus"


def kept(target: str) -> list[bytes]:
    """The inputs of a target in the repository."""
    path = _FOLDER / f"{target}.txt"
    return [bytes.fromhex(line) for line in path.read_text().split()] if path.exists() else []


def keep(target: str, inputs: Iterable[bytes]) -> None:
    """Makes inputs those of a target, the shortest first."""
    lines = sorted({each.hex() for each in inputs if each}, key=lambda line: (len(line), line))
    (_FOLDER / f"{target}.txt").write_text("".join(f"{line}\n" for line in lines))
