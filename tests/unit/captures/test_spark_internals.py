"""The private parts of PySpark are used in one module."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JNetworkError

from captures.spark.internals import context_runs
from tests.support.paths import ROOT

HOME = ROOT / "captures" / "spark" / "internals.py"
PRIVATE = {
    *("_accumulatorServer", "_activeSession", "_active_spark_context", "_gateway", "_instantiatedSession"),
    *("_jdf", "_jsc", "_jsparkSession", "_jvm", "_jwrite", "_python_includes"),
}


def test_private_parts_of_pyspark_are_used_in_one_module() -> None:
    users: dict[str, set[str]] = {}
    for package in ("captures", "testbed"):
        for path in (ROOT / package).rglob("*.py"):
            if "runs" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and node.attr in PRIVATE:
                    users.setdefault(str(path.relative_to(ROOT)), set()).add(node.attr)
    assert set(users) == {str(HOME.relative_to(ROOT))}


def test_a_context_that_was_stopped_or_whose_jvm_gives_no_answer_runs_no_job() -> None:
    class _Ending:
        def sc(self) -> None:
            raise Py4JNetworkError("the JVM ends at this moment")

    contexts: list[Any] = [SimpleNamespace(_jsc=jsc) for jsc in (None, _Ending())]
    assert [context_runs(each) for each in contexts] == [False, False]
