"""Queries on the tables of a run whose numbers are known, and traces of its messages."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captures.accounting.account import account_directly
from captures.rundir import RunLayout
from captures.rundir.summary import SUMMARY
from captures.tables import TABLES, store
from captures.tables.document import EXAMPLES
from testbed.cli.main import main
from testbed.results.trace import Branch, Receiver, Stop, Trace
from testbed.results.trace.show import lines
from testbed.terminal.answers import described
from tests.support.cases import cases_beside
from tests.support.run_folder import SEQ, good_run

Command = Callable[..., str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The good run, and a message with a receiver that it is not sent to."""
    played = good_run()
    played.tick(100)
    played.send(4, 50, [(0, [1])], expected=True)
    played.deliver(4, 1)
    folder = played.write(tmp_path_factory.mktemp("runs") / "run")
    account_directly(folder, partial(SUMMARY.write, RunLayout(folder)))
    return folder


def test_answers_as_table_csv_json_and_parquet(
    run: Path, tmp_path: Path, printed: Command, refused: Command
) -> None:
    sql = "select number, message, deliveries_expected from messages order by number"
    shown = printed("query", run, sql, "--rows", 2).splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown if line.count("│") == 4]
    assert cells[0] == ["number", "message", "deliveries_expected"]
    assert cells[2] == ["1", f'price = 50, text = "{"x" * 2000}"', "2"]
    assert cells[-1][0] == "2" and shown[-1] == "(4 rows, the first 2 shown (--rows 0: all))"
    late = "select (case when range < 150000 then '1' else 'x' end)::int from range(200000)"
    assert "Conversion Error" in refused("query", run, late, "--format", "csv")
    for most, cut in (
        ((100, 4), "(100 rows, the first 4 shown (--rows 0: all))"),
        ((10_000, 0), "(10,000 rows, the first 9,990 shown (--format csv: all))"),
    ):
        assert f"\n{cut}\n" in printed("query", run, f"select * from range({most[0]})", "--rows", most[1])
    rows = list(csv.reader(printed("query", run, sql, "--format", "csv").splitlines()))
    assert rows[0] == ["number", "message", "deliveries_expected"]
    assert rows[3] == ["3", 'price = 150, text = ""', "0"]
    first, *_ = printed("query", run, sql, "--format", "json").splitlines()
    text = f'price = 50, text = "{"x" * 2000}"'
    assert json.loads(first) == {"number": 1, "message": text, "deliveries_expected": 2}
    file = tmp_path / "answer.parquet"
    assert printed("query", run, sql, "--format", "parquet", "--output", file) == ""
    assert pq.read_table(file)["deliveries_expected"].to_pylist() == [2, 0, 0, 2]


@pytest.mark.parametrize(("sql", "said"), cases_beside(__file__)["no_tables"])
def test_a_question_reads_the_tables_alone(
    run: Path, tmp_path: Path, refused: Command, sql: str, said: str
) -> None:
    assert said in refused("query", run, sql.format(run=run, folder=tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert not (run / "parquet" / "written.csv").exists()


def test_values_that_a_form_lacks(run: Path, printed: Command) -> None:
    sql = "select 'x\\xFF'::blob as b, {'at': timestamp '2020-01-01', 'b': '\\xFF'::blob} as s"
    nested = {"at": "2020-01-01T00:00:00", "b": "/w=="}
    assert json.loads(printed("query", run, sql, "--format", "json")) == {"b": "eP8=", "s": nested}
    _, row = csv.reader(printed("query", run, sql, "--format", "csv").splitlines())
    assert row == ["x\\xFF", "{'at': '2020-01-01 00:00:00', 'b': '\\\\xFF'}"]
    assert "x\\xFF" in printed("query", run, sql)
    twice = "select 1 as a, 2 as a"
    assert printed("query", run, twice, "--format", "csv").splitlines() == ["a,a_1", "1,2"]
    assert json.loads(printed("query", run, twice, "--format", "json")) == {"a": 1, "a_1": 2}
    assert "EXPLAIN" in printed("query", run, "explain select 1").upper()


def test_every_table_is_there_with_its_documented_columns(run: Path, printed: Command) -> None:
    described = printed("query", run, "--tables").splitlines()
    tables = [line.partition(":")[0] for line in described if not line.startswith(" ")]
    assert tables == list(TABLES)
    columns = [line.split()[0] for line in described if line.startswith(" ")]
    assert columns == [name for table in TABLES.values() for name in table.schema.names]


def test_a_missed_message_is_found_with_its_receiver(run: Path, printed: Command) -> None:
    (sql,) = [sql for question, sql in EXAMPLES if question.startswith("Which messages were missed")]
    said = printed("query", run, sql, "--format", "json").splitlines()
    assert [json.loads(line)["node"] for line in said] == [2]


@pytest.mark.parametrize(("arguments", "said"), cases_beside(__file__)["not_asked"])
def test_what_cannot_be_asked(run: Path, refused: Command, arguments: list[str], said: str) -> None:
    assert said in refused("query", run, *arguments)


def test_a_run_without_tables_says_how_to_make_them(tmp_path: Path, refused: Command) -> None:
    folder = good_run().write(tmp_path / "run")
    RunLayout(folder).timings.touch()
    for command in (["query", folder, "select 1"], ["trace", folder]):
        assert f"has no tables; `cbcb account {folder}` makes all anew" in refused(*command)


def _one_row(name: str, value: int) -> pa.Table:
    """A table of one row that can stand for a table of the catalogue."""
    by = TABLES[name].folders_by
    return pa.table({"x": [value]} | ({} if by is None else {by: ["none"]}))


def test_an_interrupted_accounting_is_said(tmp_path: Path, refused: Command) -> None:
    folder = good_run().write(tmp_path / "a run")
    RunLayout(folder).timings.touch()
    mends = f"the accounting was interrupted; `cbcb account '{folder}'` makes all anew"
    with store.new_tables(folder) as tables:
        for name in TABLES:
            store.write_arrow(_one_row(name, 1), tables, name)
        with pytest.raises(OSError, match="disk"), store.publish(folder):
            raise OSError("disk full")
    (folder / "summary.json").write_text("{}")
    for command in (["query", folder, "select 1"], ["trace", folder], ["report", folder]):
        assert refused(*command) == f"cbcb: {folder}: {mends}\n"
    with store.new_tables(folder) as tables:
        for name in [*TABLES][1:]:
            store.write_arrow(_one_row(name, 1), tables, name)
        with store.publish(folder):
            pass
    mends = f"the accounting was interrupted, or an older version's; `cbcb account '{folder}'` makes all anew"
    said = f"cbcb: {folder}: no table {next(iter(TABLES))}: {mends}\n"
    assert refused("query", folder, "select 1") == said


def test_json_is_json_whatever_is_nested(run: Path, printed: Command) -> None:
    sql = "select ['nan'::double, 1] l, {'x': 'inf'::double} s, map {1.5: ['-inf'::double]} m, ['a'::blob] b"
    expected = {"l": [None, 1.0], "s": {"x": None}, "m": {"1.5": [None]}, "b": ["YQ=="]}
    (line,) = printed("query", run, sql, "--format", "json").splitlines()

    def refuse(text: str) -> None:
        raise AssertionError(text)

    assert json.loads(line, parse_constant=refuse) == expected


@pytest.mark.parametrize("name", ["sql", "folder", "database", "names"])
def test_variables_of_python_are_no_tables(run: Path, refused: Command, name: str) -> None:
    assert f"Table with name {name} does not exist" in refused("query", run, f"select * from {name}")


def test_a_message_that_reached_everybody(run: Path, printed: Command) -> None:
    said = printed("trace", run, "0:1").splitlines()
    assert said[2] == "2 delivered, 2 expected; at 3 routers; pruned at 0 interfaces"
    assert said[4] == "r0"
    assert said[5].startswith("└─ r1  by interface 1, hop 1, +1.00 ms")
    assert said[6].startswith("   ├─ ✓ delivered to app-1 +")
    assert said[7].startswith("   └─ r2  by interface 2, hop 2, +1.00 ms")
    assert said[8].startswith("      └─ ✓ delivered to app-2 +")


def test_a_message_that_no_application_requested(run: Path, printed: Command) -> None:
    assert printed("trace", run, "0:2").splitlines()[4:6] == ["r0", "├─ ✗ nobody wants it"]
    said = printed("trace", run, f"0:{SEQ + 3}").splitlines()
    assert said[5:8] == [
        "└─ r1  by interface 1, hop 1, +1.00 ms",
        "   ├─ ✗ false positive: neither forwarded nor delivered",
        "   └─ ✂ r2  p2 does not select it: ✗price < 100",
    ]
    assert said[-1].startswith("p1, p2, ... are those of the end of the run")


def test_a_message_that_was_lost_on_its_way(run: Path, printed: Command) -> None:
    said = printed("trace", run, "0:4").splitlines()
    assert said[2] == "1 delivered, 2 expected, 1 MISSED; at 2 routers; pruned at 1 interfaces"
    assert "p2 of the end of the run selects it, that of the moment did not: price < 100" in said[-4]
    assert said[-3] == "r2 (not reached): ✗ MISSED by app-2"
    trace = json.loads(printed("trace", run, "0:4", "--json"))
    assert [stop["node"] for stop in trace["stops"]] == [0, 1]
    assert trace["stops"][1]["branches"][0]["pruned"] == {
        "predicate": "price < 100",
        "known": "end",
        "matches": True,
        "beyond": [2],
    }


def test_messages_are_listed_and_found(
    run: Path, printed: Command, refused: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    def numbers(*arguments: str) -> list[str]:
        return [line.split()[0] for line in printed("trace", run, *arguments).splitlines()[1:-1]]

    assert numbers() == ["0:1", "0:2", "0:3", "0:4"]
    assert numbers("--where", "price >= 150") == ["0:2", "0:3"]
    assert main(["trace", str(run), "--where", "price >= 150.0"]) == 0
    assert "no message has price as double; 4 messages with price as integer" in capsys.readouterr().err
    assert numbers("--missed") == ["0:4"]
    assert "0:9: no such message; node 0 sent 4, 0:1 to 0:4" in refused("trace", run, "0:9")
    assert "node 1 sent no message" in refused("trace", run, "1:1")


def test_times_are_never_in_exponents_and_one_before_the_sending_has_its_sign() -> None:
    source = Stop(0, None, 0, 0.0, branches=[Branch(1, 1, True, 1.2, 1, False, None)])
    # The clock was set back between a request to send and a delivery.
    early, late = (Receiver(name, delay_s, 1, True, True) for name, delay_s in (("a", -0.0005), ("b", 1.234)))
    reached = Stop(1, 0, 1, 1.2344, receivers=[early, late])
    trace = Trace(0, 1, 1, "a = 1", 0.5, 500_000_000, 1, True, [source, reached], {})
    assert list(lines(trace))[-4:] == [
        "r0",
        "└─ r1  by interface 1, hop 1, +1234.40 ms",
        "   ├─ ✓ delivered to a -0.50 ms",
        "   └─ ✓ delivered to b +1234.00 ms",
    ]


def test_a_list_of_structs_is_no_struct() -> None:
    fields = "struct(start_ns bigint, experiment_s double, rate double)"
    kinds = (f"{fields}[]", fields, "integer[]")
    types = dict(zip((column.name for column in TABLES["run"].columns), kinds, strict=False))
    assert [line.split()[1] for line in described({"run": types}) if line.startswith(" ")] == [
        *("struct[]", "struct", "integer[]")
    ]
