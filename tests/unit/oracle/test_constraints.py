from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import testbed.results.oracle.decide
from captures.rundir import epochs
from testbed.experiments.workload import constraints
from testbed.experiments.workload.constraints import PredicateIndex, compile_constraint


@pytest.mark.parametrize(
    ("constraint", "value", "met"),
    [
        (["a", "integer", "=", 3], 3, True),
        (["a", "integer", "=", 3], 3.0, False),
        (["a", "integer", "=", 1], True, False),
        (["a", "double", "=", 1.0], 1, False),
        (["a", "boolean", "=", True], 1, False),
        (["a", "integer", "<", 3], 3, False),
        (["a", "integer", "<=", 3], 3, True),
        (["a", "double", ">", -0.5], 0.0, True),
        (["a", "double", ">=", 0.5], 0.25, False),
        (["a", "boolean", "<", True], False, True),
        (["a", "boolean", ">", True], True, False),
        (["a", "string", "!=", "x"], "y", True),
        (["a", "string", "!=", "x"], 7, False),
        (["a", "string", "<", "b"], "a\U0001f600", True),
        # By UTF-8 bytes U+FF5E sorts before U+1F600; by UTF-16 units it would be the other way round.
        (["a", "string", "<", "\U0001f600"], "～", True),
        (["a", "string", "=*", "de"], "denver", True),
        (["a", "string", "*=", "er"], "denver", True),
        (["a", "string", "**", "nve"], "denver", True),
        (["a", "string", "**", ""], "", True),
        (["a", "string", "=*", "denver!"], "denver", False),
        (["a", "string", "any", None], "", True),
        (["a", "string", "any", None], 0, False),
        (["b", "integer", "any", None], 0, False),
    ],
)
def test_one_constraint(constraint: list[Any], value: Any, met: bool) -> None:
    assert (PredicateIndex([[[constraint]]]).matching({"a": value}) == {0}) is met


@pytest.mark.parametrize(
    ("constraint", "problem"),
    [
        (["a", "integer", "="], "expected .name, type, operator, value."),
        (["a", "int", "=", 3], "expected a type of string"),
        (["a", "integer", "=*", 3], "no operator '=\\*' for type integer"),
        (["a", "integer", "=", True], "expected a value of type integer"),
    ],
)
def test_malformed_constraints_are_named(constraint: list[Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compile_constraint(constraint)


def test_a_value_outside_the_four_types_is_an_error() -> None:
    with pytest.raises(ValueError, match="attribute 'a'"):
        PredicateIndex([[[]]]).matching({"a": None})


def _imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_oracle_judges_without_code_of_the_router() -> None:
    """Of the run folder it knows `captures.rundir`; predicates and the log of the controller stand alone."""
    oracle = Path(testbed.results.oracle.decide.__file__).parent.glob("*.py")
    imported = {name for module in oracle for name in _imported(module)}
    own = ("testbed.results.oracle", "testbed.experiments.workload.constraints", "testbed.support.errors")
    foreign = {name for name in imported if name.startswith(("testbed", "router", "captures", "topos"))}
    assert {name for name in foreign if not name.startswith((*own, "captures.rundir", "topos"))} == set()
    alone = {name for file in (constraints.__file__, epochs.__file__) for name in _imported(Path(file))}
    assert {name for name in alone if name.split(".")[0] not in sys.stdlib_module_names} == set()
