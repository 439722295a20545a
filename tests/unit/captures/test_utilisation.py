"""The documented question on the utilisation of links, against the captures."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from captures.accounting.account import account_directly
from captures.rundir import RunLayout
from captures.tables.document import EXAMPLES
from router.wire.header import node_address
from tests.support.questions import ask
from tests.support.run_folder import NODES, START_NS, TIME_SCALE, RunBuilder

_WIDTH_S = 0.1


def test_percentiles_of_utilisation_are_over_busy_and_idle_bins(tmp_path: Path) -> None:
    built = RunBuilder()
    for node in NODES:
        built.set_up(node)
    for number in range(1, 30):
        built.tick(10 + number)
        built.send(number, 50, [(0, [1])], text="x" * 30 * number)
    run = RunLayout(built.write(tmp_path / "run"))
    topology = json.loads(run.topology.read_text())
    topology["links"][0]["bandwidth_mbps"] = 2.0
    run.topology.write_text(json.dumps(topology))
    account_directly(run.path, lambda _: None)

    def bin_of(time_ns: int) -> int:
        return math.floor((time_ns - START_NS - 1_000_000) * TIME_SCALE / 1e9 / _WIDTH_S)

    carried: Counter[int] = Counter()
    for time_ns, data in built.pcaps["link-0-1"]:
        assert data[6:12] == node_address(0)
        carried[bin_of(time_ns)] += len(data)
    bits = [carried[number] * 8 * TIME_SCALE / _WIDTH_S for number in range(bin_of(built.now_ns) + 1)]
    assert 0 < sum(each == 0 for each in bits) < len(bits) - len(carried) + 1
    (sql,) = [sql for question, sql in EXAMPLES if question.startswith("Utilisation")]
    rows = ask(run.path, sql)
    found = {(row["link"], row["from_node"]): (row["p95"], row["bits_p95"]) for row in rows}
    p95 = np.percentile(bits, 95)
    assert p95 > 0
    assert found == {
        (0, 0): (pytest.approx(p95 / 2e6), pytest.approx(p95)),
        (0, 1): (0.0, 0.0),
        **{(1, node): (None, 0.0) for node in (1, 2)},
    }
