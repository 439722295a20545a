"""docs/tables.md: the tables of a run, made from the catalogue, and questions that they answer."""

from __future__ import annotations

from collections.abc import Iterator

from captures.tables.catalogue import TABLES, Table

#: Questions about runs, and the SQL that answers them.
EXAMPLES: tuple[tuple[str, str], ...] = (
    (
        "Which messages were missed, and by whom?",
        "SELECT m.source, m.number, o.node, o.app, m.message FROM messages m "
        "JOIN oracle o USING (source, seq) ANTI JOIN deliveries d "
        "ON (d.source, d.seq, d.node, d.app) = (o.source, o.seq, o.node, o.app) "
        "WHERE o.expected",
    ),
    (
        "Delay by hops",
        "SELECT hops, count(*) AS n, median(delay_s) * 1000 AS median_ms, max(delay_s) * 1000 AS max_ms "
        "FROM deliveries GROUP BY hops ORDER BY hops",
    ),
    (
        "What control traffic costs on each link",
        "SELECT u, v, sum(bytes) AS bytes FROM link_totals JOIN links USING (link) "
        "WHERE type IN ('RA', 'SR', 'UR') GROUP BY u, v ORDER BY bytes DESC",
    ),
    (
        "Messages on links by the value of an attribute",
        "SELECT coalesce(attributes['price'].double, attributes['price'].integer) AS price, "
        "count(*) AS crossings FROM frames WHERE kind = 'link' AND type = 'MSG' "
        "GROUP BY price ORDER BY price",
    ),
    (
        "How long routers took to forward a message",
        "SELECT i.node, median(o.time_ns - i.time_ns) / 1e6 AS median_ms FROM frames i JOIN frames o "
        "USING (node, type, issuer, seq, fragment_index) WHERE type = 'MSG' AND i.direction = 'to_router' "
        "AND o.direction = 'from_router' GROUP BY i.node ORDER BY median_ms DESC",
    ),
)


def document() -> str:
    """The text of docs/tables.md."""
    lines = [
        "# Tables of a run",
        "",
        "A table is a folder `parquet/<table>/` of Parquet files in the run folder. Types are Arrow's.",
        "Units:",
        "`experiment s` are seconds of the experiment, counted from the request of the first set_predicate",
        "(negative before it; `time_scale` in summary.json says how many make a wall second); `wall s` are",
        "seconds of the machine's clock; `1` marks a ratio.",
        "",
        "`cbcb query RUN --tables` lists the tables, `cbcb query RUN 'SELECT ...'` answers questions in SQL.",
        "",
        "Examples:",
    ]
    for question, sql in EXAMPLES:
        lines += ["", question, "", "```", f'cbcb query RUN "{sql}"', "```"]
    for table in TABLES.values():
        lines += ["", f"## {table.name}", "", f"One row for each {table.grain}.", "", *_columns(table)]
    return "\n".join(lines) + "\n"


def _columns(table: Table) -> Iterator[str]:
    yield from ("| column | type | unit | meaning |", "|---|---|---|---|")
    for column in table.columns:
        yield f"| `{column.name}` | {column.type} | {column.unit} | {column.meaning} |"
