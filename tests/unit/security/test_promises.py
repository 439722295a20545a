"""The table of attacks in docs/explanation/security.md has those that tests play, and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.paths import ROOT
from tests.support.promises import promises

#: Played against live routers, or with several senders.
NOT_HELD = {("frames from before a restart", "outsider"), ("invented addresses", "insider")}


def _played() -> Iterator[str]:
    """The arguments of the marker `attack` of all tests."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "mark.attack(" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.attack":
                for each in node.args:
                    names = ast.literal_eval(each.value if isinstance(each, ast.Starred) else each)
                    yield from names if isinstance(names, tuple) else (names,)


def _held() -> Iterator[tuple[str, str]]:
    """The rows of which tests hold cells; by name in a call of `hold`, or all of `test_attacks.ATTACKS`."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "hold(" in text else ():
            match node:
                case ast.Call(ast.Name("hold"), [ast.Constant(name), ast.Constant(by), *_]):
                    yield str(name), str(by)
                case ast.Assign([ast.Name("ATTACKS")], ast.Dict(names)):
                    yield from ((ast.literal_eval(name), "insider") for name in names if name)


def test_a_row_with_an_effect_or_a_reason_is_held_against_what_a_test_sees() -> None:
    at_issue = {
        row
        for row, cells in promises().items()
        if any("taken" in cell or "`" in cell for cell in cells.values())
    }
    assert at_issue - set(_held()) == NOT_HELD


def test_each_row_has_a_test_and_each_attack_of_a_test_a_row() -> None:
    assert {name for name, _ in promises()} == set(_played())
