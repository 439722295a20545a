"""Inputs that are kept: a file for each target, with an input as hexadecimal digits on each line."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "corpus"


def kept(target: str) -> list[bytes]:
    """The inputs of a target in the repository."""
    return [bytes.fromhex(line) for line in (_FOLDER / f"{target}.txt").read_text().split()]
