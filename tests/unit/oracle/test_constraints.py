from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import captures.rundir.epochs
import testbed.results.oracle.decide
from testbed.experiments.workload import constraints
from testbed.experiments.workload.constraints import PredicateIndex, compile_constraint, selects


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
    assert selects([[constraint]], {"a": value}) is met


def test_a_predicate_is_a_disjunction_of_conjunctions() -> None:
    filters: list[Any] = [
        [["a", "integer", ">", 1], ["b", "string", "=", "x"]],
        [["c", "boolean", "=", True]],
    ]
    assert selects(filters, {"a": 2, "b": "x"})
    assert not selects(filters, {"a": 2, "b": "y"})
    assert not selects(filters, {"a": 2})
    assert selects(filters, {"a": 0, "c": True})


def test_the_empty_filter_selects_everything_and_the_empty_predicate_nothing() -> None:
    assert selects([[]], {})
    assert not selects([], {"a": 1})


def test_an_index_answers_for_each_predicate_alone() -> None:
    index = PredicateIndex([[[["a", "integer", "<", bound]]] for bound in range(5)] + [[], [[]]])
    assert index.matching({"a": 2}) == {3, 4, 6}
    assert index.matching({"b": 2}) == {6}


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
        selects([[]], {"a": None})


def _imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_oracle_judges_without_code_of_the_router() -> None:
    """It reads and writes its files through `captures.rundir`, and imports nothing else that knows a router.

    What judges stands by itself: the evaluation of predicates (`constraints`) and, of the run folder, the
    modules that follow the log of the controller.
    """
    folder = Path(testbed.results.oracle.decide.__file__).parent
    followed = [captures.rundir.epochs.__file__, captures.rundir.epochs.__file__]
    modules = [*sorted(folder.glob("*.py")), *map(Path, followed)]
    assert len(modules) >= 4
    judging = ("testbed.results.oracle", "testbed.experiments.workload.constraints", "testbed.support.errors")
    for module in modules:
        for name in _imported(module):
            allowed = not name.startswith("testbed.") or name.startswith(judging)
            foreign = name.split(".")[0] in {"router", "captures"} and not name.startswith("captures.rundir")
            assert allowed and not foreign, f"{module.name}: {name}"
    for module in (Path(constraints.__file__), *map(Path, followed)):
        own = {name for name in _imported(module) if name.split(".")[0] not in sys.stdlib_module_names}
        assert own <= {"captures.rundir.epochs"}, f"{module.name}: {own}"
