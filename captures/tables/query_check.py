"""The check of a query for Spark: it reads views of its session, and touches nothing else.

Spark parses the text as a query, so that no statement passes (INSERT, CREATE, SET, ADD JAR, ...). Spark's
analyzer resolves its names; the session refuses names of files (`spark.sql.runSQLOnFiles`). The check then
walks the analyzed plan: every operator must be of the relational algebra, and no expression may run code or
read options that name files, whatever the name or the expression by which the text refers to the function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from captures.spark.internals import analyzed_query

#: Operators of an analyzed plan that a query may have.
_OPERATORS = frozenset(
    {
        *("Aggregate", "AsOfJoin", "CTERelationDef", "CTERelationRef", "Deduplicate", "Distinct", "Except"),
        *("Expand", "Filter", "Generate", "GlobalLimit", "Intersect", "Join", "LateralJoin", "LocalLimit"),
        *("LocalRelation", "Offset", "OneRowRelation", "PipeOperator", "Pivot", "Project", "Range", "Tail"),
        *("Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint", "Sample", "Sort"),
        *("SubqueryAlias", "Union", "UnionLoop", "UnionLoopRef", "Unpivot", "View", "Window", "WithCTE"),
    }
)
#: Classes of expressions that run code, or take options with the names of files.
_EXPRESSIONS = re.compile(r"Reflect|Xml|XPath|Avro|Protobuf|UDF|UDT|UserDefined|Python")
_PACKAGE = "org.apache.spark.sql.catalyst."
#: The operator below which the plan is that of a view, which this process has made.
_VIEW = "View"


class QueryRefusedError(ValueError):
    """A query may touch more than the views of its session; the message says by what."""


def checked(spark: SparkSession, sql: str) -> DataFrame:
    """Returns the DataFrame of a query that reads the views of a session.

    Args:
        spark: a session whose setting `spark.sql.runSQLOnFiles` is false.

    Raises:
        QueryRefusedError: the query may touch more.
        PySparkException: the text is not a query, or a name in it does not exist.
    """
    frame, plan = analyzed_query(spark, sql)
    _check(plan)
    return frame


def _check(analyzed: Any) -> None:
    """Raises QueryRefusedError for a plan that may touch more than views."""
    waiting = [analyzed]
    while waiting:
        plan = waiting.pop()
        name = _name(plan)
        if name not in _OPERATORS:
            raise QueryRefusedError(f"{name}: not an operator of a query; expected SELECT ... FROM TABLE")
        if name == _VIEW:
            continue
        waiting += [*_items(plan.children()), *_items(plan.innerChildren()), *_items(plan.subqueries())]
        expressions = list(_items(plan.expressions()))
        while expressions:
            expression = expressions.pop()
            name = _name(expression)
            if _EXPRESSIONS.search(name):
                raise QueryRefusedError(f"{expression.prettyName()}: a query may not call this function")
            expressions += _items(expression.children())


def _name(node: Any) -> str:
    """The name of the class of a node; with its package if that is not one of Spark's algebra."""
    full: str = node.getClass().getName()
    return full.rpartition(".")[2].removesuffix("$") if full.startswith(_PACKAGE) else full


def _items(sequence: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala."""
    for position in range(sequence.length()):
        yield sequence.apply(position)
