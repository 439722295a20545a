"""The documented questions on a run whose answers are known, as DuckDB answers them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from captures.accounting.account import account
from captures.rundir import RunLayout
from captures.tables.document import EXAMPLES
from router.wire.header import port_addresses
from tests.support.questions import ask
from tests.support.run_folder import SEQ, START_NS, asked_run

pytestmark = pytest.mark.spark

_SIGNED = SEQ - 2**64
_PORT_1 = int.from_bytes(port_addresses([1])[0], "big")
#: First words of a question -> some columns of its answer, without the order of rows.
_ANSWERS: dict[str, list[dict[str, Any]]] = {
    # Of the bytes in the captures of host links: 791, 1,143 and 543.
    "Top talkers": [
        {"node": 0, "sent": 488, "received": 303},
        {"node": 1, "sent": 472, "received": 671},
        {"node": 2, "sent": 189, "received": 354},
    ],
    "Delay by hops": [
        {"hops": 1, "deliveries": 1, "median_ms": 7.0, "max_ms": 7.0},
        {"hops": 2, "deliveries": 1, "median_ms": 7.0, "max_ms": 7.0},
    ],
    # From the request to the first frame, and from frame to frame in the router between.
    "Processing delay": [
        {"node": 0, "messages": 3, "median_ms": 2.0, "max_ms": 2.0},
        {"node": 1, "messages": 2, "median_ms": 1.0, "max_ms": 1.0},
    ],
    # The withdrawal has no RA.
    "Cost of a change": [
        {"node": 1, "app": "app-1", "changes": 1, "routers": 2, "frames": 2, "until_known_wall_s": 0.006},
        {"node": 2, "app": "app-2", "changes": 1, "routers": 2, "frames": 2, "until_known_wall_s": 0.007},
        {"node": 1, "app": "app-1", "changes": None, "routers": None, "frames": None},
    ],
    "Loops": [{"source": 0, "seq": _SIGNED + 3, "links": 1, "times": 2}],
    # 1 s, the frames of two hops, and ten experiment seconds a wall second.
    "Repeated requests": [{"issuer": 0, "destination": _PORT_1, "repeated": 1, "mean_s": 10.06}],
    "Stretch": [{"source": 0, "arrivals": 4, "mean": 1.0, "largest": 1.0}],
    "Latency of links": [
        {"link": 0, "from_node": 0, "to_node": 1, "median_ms": 2.0, "p99_ms": 2.0, "delay_ms": None},
        {"link": 0, "from_node": 1, "to_node": 0, "median_ms": 2.0},
        {"link": 1, "from_node": 1, "to_node": 2, "median_ms": 2.0},
    ],
    # Message 2 ended at node 1; message 3 came back to node 0, which forwarded it.
    "False positives": [
        {"node": 0, "messages": 1, "false_positives": 0, "share": 0.0},
        {"node": 1, "messages": 3, "false_positives": 1, "share": pytest.approx(1 / 3)},
        {"node": 2, "messages": 1, "false_positives": 0, "share": 0.0},
    ],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A run with an answer to each question, accounted for on Spark."""
    folder = asked_run().write(tmp_path_factory.mktemp("runs") / "run")
    account(folder, spark=spark)
    return folder


@pytest.mark.parametrize(("question", "sql"), EXAMPLES, ids=[question for question, _ in EXAMPLES])
def test_each_question_has_an_answer(run: Path, question: str, sql: str) -> None:
    assert ask(run, sql) or question.startswith("Which messages were missed")


@pytest.mark.parametrize("question", _ANSWERS)
def test_the_answers_are_those_of_the_run(run: Path, question: str) -> None:
    (sql,) = [sql for asked, sql in EXAMPLES if asked.startswith(question)]
    expected = _ANSWERS[question]
    found = ask(run, sql)
    assert len(found) == len(expected)
    for row in expected:
        alike = [
            each
            for each in found
            if all(
                each[name] == (pytest.approx(value) if isinstance(value, float) else value)
                for name, value in row.items()
            )
        ]
        assert len(alike) == 1, (row, found)


def test_the_stages_are_kept_with_their_times(run: Path) -> None:
    kept = json.loads(RunLayout(run).accounting.read_text())
    names = [stage["name"] for stage in kept["stages"]]
    assert len(names) == len(set(names))
    assert {"small files", "tshark", "frames", "hops", "link_utilisation", "outcome_totals"} < set(names)
    assert all(0 <= stage["seconds"] <= kept["seconds"] for stage in kept["stages"])


def test_the_run_has_its_clock(run: Path) -> None:
    (row,) = ask(run, "SELECT * FROM run")
    start_ns = START_NS + 1_000_000
    assert row["clock"] == [{"start_ns": start_ns, "experiment_s": 0.0, "rate": 10.0}]
    assert (row["start_ns"], row["time_scale"], row["datapath"]) == (start_ns, 10.0, "user")
    (apart,) = ask(
        run, "SELECT max(abs(time_s - (time_ns - start_ns) / 1e9 * time_scale)) AS s FROM frames, run"
    )
    assert apart["s"] < 1e-6
