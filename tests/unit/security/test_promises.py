"""The table of attacks in docs/security.md has those that tests play, and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.paths import ROOT
from tests.support.promises import promises


def _played() -> Iterator[str]:
    """The arguments of the marker `attack` of all tests."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "mark.attack(" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.attack":
                yield from map(ast.literal_eval, node.args)


def test_each_row_has_a_test_and_each_attack_of_a_test_a_row() -> None:
    assert {name for name, _ in promises()} == set(_played())
