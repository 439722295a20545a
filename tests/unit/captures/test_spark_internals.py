"""The private parts of PySpark are used in one module."""

from __future__ import annotations

import ast

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
