"""docs/reference/tables.md: the tables of a run, made from the catalogue, and questions that they answer."""

from __future__ import annotations

from captures.frames.columns import COLUMNS
from captures.rundir.document import bullet, filled
from captures.tables import CLOCKS, SHARED, TABLES, Column

#: Questions about runs, and the SQL that answers them, on DuckDB.
EXAMPLES: tuple[tuple[str, str], ...] = (
    (
        "Utilisation of each link by minute: 95th percentile of its bins (bits per second without a "
        "bandwidth)",
        """\
SELECT link, from_node, to_node, floor(bin_s / 60) AS minute,
  percentile_cont(0.95) WITHIN GROUP (ORDER BY utilisation) AS p95,
  percentile_cont(0.95) WITHIN GROUP (ORDER BY bits_per_wall_s) AS bits_p95
FROM link_utilisation GROUP BY ALL ORDER BY link, from_node, minute""",
    ),
    (
        "Top talkers",
        """\
SELECT node, sum(bytes_sent) AS sent, sum(bytes_received) AS received FROM talkers
GROUP BY node ORDER BY sent DESC, node LIMIT 10""",
    ),
    (
        "Delay by hops",
        """\
SELECT hops, count(*) AS deliveries, median(delay_wall_s) * 1000 AS median_ms,
  max(delay_wall_s) * 1000 AS max_ms
FROM deliveries GROUP BY hops ORDER BY hops""",
    ),
    (
        "Processing delay of routers",
        """\
SELECT from_node AS node, count(*) AS messages, median(handling_wall_s) * 1000 AS median_ms,
  max(handling_wall_s) * 1000 AS max_ms
FROM hops WHERE handling_wall_s IS NOT NULL GROUP BY from_node ORDER BY median_ms DESC, node""",
    ),
    (
        "Cost of a change of predicate in RAs",
        """\
SELECT c.node, c.app, c.t_s, c.predicate, a.changes, a.routers, a.frames, a.bytes,
  (a.last_ns - c.requested_ns) / 1e9 AS until_known_wall_s
FROM predicate_changes c LEFT JOIN advertisements a USING (issuer, seq) ORDER BY c.t_ns, c.node, c.app""",
    ),
    (
        "Loops: messages that crossed a link twice in one direction",
        """\
SELECT source, seq, count(DISTINCT link) AS links, max(crossings) AS times FROM repeated_frames
GROUP BY source, seq ORDER BY times DESC, source, seq""",
    ),
    (
        "Repeated requests: the SRs of a router through the same interfaces, and the mean time between them",
        """\
SELECT issuer, destination, count(*) - 1 AS repeated,
  (max(time_s) - min(time_s)) / nullif(count(*) - 1, 0) AS mean_s
FROM frames WHERE type = 'SR' AND node = issuer AND direction = 'from_router'
GROUP BY issuer, destination HAVING count(*) > 1 ORDER BY repeated DESC, issuer, destination""",
    ),
    (
        "Stretch: hops of messages to routers over those of the shortest paths",
        """\
SELECT source, count(*) AS arrivals, avg(hops / shortest_hops) AS mean, max(hops / shortest_hops) AS largest
FROM arrivals GROUP BY source ORDER BY source""",
    ),
    (
        "Latency of links",
        """\
SELECT link, from_node, to_node, median(latency_wall_s) * 1000 AS median_ms,
  percentile_cont(0.99) WITHIN GROUP (ORDER BY latency_wall_s) * 1000 AS p99_ms, max(delay_ms) AS delay_ms
FROM hops JOIN links USING (link) GROUP BY link, from_node, to_node ORDER BY link, from_node""",
    ),
    (
        "False positives of routers",
        """\
SELECT node, count(*) AS messages, count(*) FILTER (WHERE false_positive) AS false_positives,
  count(*) FILTER (WHERE false_positive) / count(*) AS share
FROM processed WHERE from_network GROUP BY node ORDER BY share DESC, node""",
    ),
    (
        "Which messages were missed, and by whom?",
        """\
SELECT m.source, m.number, o.node, o.app, m.message FROM messages m JOIN oracle o USING (source, seq)
LEFT JOIN deliveries d ON d.source = o.source AND d.seq = o.seq AND d.node = o.node AND d.app = o.app
WHERE o.expected AND d.seq IS NULL""",
    ),
    (
        "What control traffic costs on each link",
        """\
SELECT u, v, sum(bytes) AS bytes FROM link_totals JOIN links USING (link)
WHERE type IN ('RA', 'SR', 'UR') GROUP BY u, v ORDER BY bytes DESC""",
    ),
    (
        "Messages on links by the value of an attribute",
        """\
SELECT attributes['price'].number AS price, count(*) AS crossings FROM frames
WHERE kind = 'link' AND type = 'MSG' GROUP BY attributes['price'].number ORDER BY price""",
    ),
)


def document() -> str:
    """The text of docs/reference/tables.md."""
    lines = [
        "# Tables of a run",
        "",
        "A table is a folder `parquet/<table>/` of Parquet files in the run folder. Types are Arrow's.",
        "Units:",
        "`experiment s` are seconds of the experiment, counted from the request of the first set_predicate",
        "(negative before it; table `run` says how many make a wall second, and the time of second 0);",
        "`wall s` are seconds of the machine's clock.",
        "",
        "The end of a column's name says its clock:",
        "",
        "| end | unit |",
        "|---|---|",
        *(f"| `{end}` | {unit.replace('/', 'a quantity /')} |" for end, unit in CLOCKS.items()),
        "",
        "`source` and `seq` identify a message in every table, `issuer` and `seq` a frame of any type.",
        "",
        "`type` of an encoded frame (docs/explanation/privacy.md) is that of the frame in whose place it is:",
        "XMSG is `MSG`, XRA is `RA`, XUR is `UR`; column `encoded` of `frames` tells them apart. So it is in",
        "summary.json, in the report and in the format `cbcb`, too. Routers count the type of the header",
        "(counters/routers.json), and the dissector shows it.",
        "",
        "A name has one type and one unit in all tables. Several tables have these columns, and name them as",
        "*above*; where a name means more in a table, the table describes it. A unit in parentheses is given",
        "where neither the end of the name nor the meaning says it.",
        "",
        *(_row(column) for column in SHARED.values()),
        "",
        "`cbcb query RUN --tables` lists the tables, `cbcb query RUN 'SELECT ...'` answers questions in SQL.",
        "",
        "Examples, which `tests/spark/test_questions.py` runs with known answers:",
    ]
    for question, sql in EXAMPLES:
        lines += ["", question, "", "```sql", sql, "```"]
    for table in TABLES.values():
        lines += ["", f"## {table.name}", "", filled(f"One row per {table.grain}."), ""]
        above = [f"`{column.name}`" for column in table.columns if column == SHARED.get(column.name)]
        own = [_row(column) for column in table.columns if column != SHARED.get(column.name)]
        listed = f"Above: {', '.join(above)}."
        if table.name == "frames":
            listed = "Columns of view `frames` of the format `cbcb` ([pcap-source.md](pcap-source.md)), and:"
            own = [_row(column) for column in table.columns if column.name not in COLUMNS]
        lines += [filled(listed), ""] * bool(above)
        lines += [*own, ""] * bool(own)
        lines.pop()
    return "\n".join(lines) + "\n"


def _row(column: Column) -> str:
    ends = (end for end in CLOCKS if column.name.endswith(end))
    known = next(ends, None) or column.unit in column.meaning or column.unit in column.name
    unit = "" if known else f" ({'ratio' if column.unit == '1' else column.unit})"
    return bullet(f"`{column.name}`, {column.type}: {column.meaning}{unit}")
