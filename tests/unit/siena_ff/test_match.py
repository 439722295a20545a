"""`cbcb match`: the answers of the Siena Fast Forwarding driver, and errors for unknown input."""

from __future__ import annotations

import io
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

from router.matching.engines import ENGINES
from router.predicates import Filter, Message, Predicate
from testbed.cli.main import main
from testbed.experiments.siena_ff import literal
from testbed.experiments.siena_ff.reader import Reader, Statement, read_chunks
from testbed.experiments.siena_ff.session import Session
from testbed.support.errors import InputError
from tests.support.cases import cases_beside
from tests.support.paths import ROOT

_CASES = cases_beside(__file__)

#: The table of the SIGCOMM 2003 paper's example, in every way to write it.
TABLE = r"""
# 1 "example"
// the example of the paper; with "quotes
ifconfig 1 dest = "ATL", price < 500
         | stock = "DYS" && quantity > 0x3E8 & price < 0764;
ifconfig 2 airline="UA",orig="DEN",dest="ATL" || dest = "J\106K", price < 200
        \/ orig = "D\x45N" /\ orig any string  /* a ; comment */
         | airline = "UA" /\ upgrade = true ; ifconfig 3 stock=*"MS",stock*="FT",stock**"S",price<+200;
"""


def answers(text: str, engine: str = "counting") -> list[str]:
    out = io.StringIO()
    Session(engine, out).run([text], "test")
    return out.getvalue().splitlines()


def read(*chunks: str) -> tuple[list[Statement], dict[int, Predicate]]:
    statements = list(Reader(chunks, "test").statements())
    filters: dict[int, tuple[Filter, ...]] = {}
    for each in statements:
        if each.keyword == "ifconfig":
            filters[each.interface] = filters.get(each.interface, ()) + each.filters
    return statements, {interface: Predicate(own) for interface, own in filters.items()}


def fault(text: str) -> str:
    with pytest.raises(InputError) as caught:
        answers(text)
    return str(caught.value)


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_the_example_of_the_forwarding_paper(engine: str) -> None:
    messages = """
        select airline = "UA" fare = "T" price = 248 orig = "DEN" dest = "ATL" upgrade = false;
        select airline = "UA", upgrade = true,;
        select stock = "MSFT" price = 199;
        select stock = "MSFT" price = 199.0;
        select stock = "DYS" price = 100 quantity = 1001;
        select;
    """
    expected = ["-> 1 2", "-> 2", "-> 3", "->", "-> 1", "->"]
    assert answers(TABLE + "consolidate;" + messages, engine) == expected


@pytest.mark.parametrize(("text", "value"), _CASES["literals"])
def test_literals_are_those_of_c(text: str, value: object) -> None:
    found = literal(text)
    assert found == value
    assert type(found) is type(value)
    (statement,), _ = read(f"select x = {text};")
    assert statement.message == Message({"x": value})


@pytest.mark.parametrize("text", ["08", "0x", "1e999", "1_0", "", "1.2.3", "x", "9" * 500])
def test_what_is_no_literal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|finite|number"):
        literal(text)
    assert "line 1, column " in fault(f"select x = {text};")


def test_names_may_be_words_of_the_language_and_quoted() -> None:
    _, table = read(
        'ifconfig 1 select = 1, and = 2, or/else.x-y = 3, true any bool, "a b" any int, "any" = 1;'
    )
    assert [constraint.name for constraint in table[1].filters[0]] == [
        "select",
        "and",
        "or/else.x-y",
        "true",
        "a b",
        "any",
    ]


def test_any_any_is_the_existence_of_an_attribute_of_any_type() -> None:
    values = ("1", "1.5", '"text"', "true")
    selects = " ".join(f"select a = {value}, b = {other};" for value in values for other in values)
    table = "ifconfig 1 a any any; ifconfig 2 a any any, b any any, c = 1;"
    table += "ifconfig 3 a any any, a < 2 | d any any;"
    found = answers(f"{table} {selects} select b = 1; select a = 1, b = true, c = 1; select d = 1;")
    assert found[:16] == ["-> 1 3" if value == "1" else "-> 1" for value in values for _ in values]
    assert found[16:] == ["->", "-> 1 2 3", "-> 3"]


def test_select_consolidates_and_predicates_add_up_until_then() -> None:
    text = "select a = 1; ifconfig 7 a = 1; ifconfig 2 a > 5; ifconfig 7 a = 2; select a = 1; select a = 2;"
    assert answers(text) == ["->", "-> 7", "-> 7"]
    replaced = text + "ifconfig 7 b = 1; ifconfig 7 c = 1; select a = 1 c = 1; select a = 2; select a = 6;"
    assert answers(replaced)[3:] == ["-> 7", "->", "-> 2"]


def test_interfaces_of_a_table_come_in_any_order() -> None:
    parts = [
        "ifconfig 1 a = 1;",
        "ifconfig 2 a = 1, b = 2;",
        "ifconfig 1 a = 2 | a = 3;",
        "ifconfig 3 a > 1;",
    ]
    for order in permutations(parts):
        out = io.StringIO()
        session = Session("counting", out)
        session.run([*order, "select a = 1, b = 2; select a = 2;"], "test")
        assert out.getvalue() == "-> 1 2\n-> 1 3\n"
        sizes = [line.split()[1] for line in session.statistics().splitlines()[1:4]]
        assert sizes == ["6", "5", "3"]


def test_clear_forgets_the_table_and_what_was_not_consolidated() -> None:
    assert answers("ifconfig 1 a = 1; consolidate; ifconfig 2 a = 1; clear; select a = 1;") == ["->"]
    assert answers("ifconfig 1 a = 1; clear recycle; ifconfig 3 *; select a = 1; select;") == ["-> 3", "-> 3"]


def test_output_and_statistics_are_those_of_the_driver() -> None:
    table = "ifconfig 1 a = 1, b = 2 | a = 3; ifconfig 2 a = 1; set preprocessing_limit = 3; timer start;"
    messages = "select a = 1 b = 2; output count; select a = 1 b = 2; output off; select a = 9; output on;"
    said = answers(table + messages + r'timer stop; statistics; statistics "%i\t%%%f %c\n";')
    assert said[:2] == ["-> 1 2", "2"]
    assert said[2].startswith("i=2 f=3 c=4 n=3 a=5 w=0 W=0 m=2 M=4 s=")
    assert said[3] == "2\t%3 4"


@pytest.mark.parametrize(("text", "said"), _CASES["faults"])
def test_a_fault_names_file_line_column_and_what_was_expected(text: str, said: str) -> None:
    message = fault(text)
    assert message.startswith("test: line ")
    assert said in message
    assert "\n" not in message


def test_the_command_reads_files_and_pipes_and_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table.sff"
    path.write_text(TABLE + 'select stock = "MSFT" price = 1;')
    assert main(["match", str(path), "--stats"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "-> 3\n"
    reported = dict(line.split(maxsplit=1) for line in printed.err.splitlines())
    assert reported["engine"] == "compiled"
    assert reported["constraints"] == "18"
    assert reported["filters"] == "7"
    assert reported["interfaces"] == "3"
    assert "us, matching alone" in printed.err
    assert main(["match", str(tmp_path / "none.sff")]) == 2
    assert main(["match", str(path), "--engine", "warp"]) == 2
    path.write_bytes(b"select a = 1;\n\xff")
    assert main(["match", str(path)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"cbcb: {path.parent / 'none.sff'}: No such file or directory"
    assert "unknown matching engine 'warp'" in said[1]
    assert said[2] == f"cbcb: {path}: byte 14: not UTF-8"


def test_a_pipe_is_answered_as_it_comes() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "testbed.cli.main", "match", "-"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"ifconfig 4 a = 1; select a = 1;")
        process.stdin.flush()
        assert process.stdout.readline() == b"-> 4\n"
        process.stdin.write(b" select a = 2;")
        process.stdin.close()
        assert process.stdout.read() == b"->\n"
        assert process.wait() == 0


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "many.sff"
    path.write_text("select a = 1;\n" * 10_000)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "testbed.cli.main", "match", str(path), "--engine", "naive"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert (done.returncode, done.stderr) == (3, "cbcb: output: No space left on device\n")


@pytest.mark.parametrize("first", [b"\xef", b"\xef\xbb", b"\xef\xbb\xbf", b"\xef\xbb\xbfselect", b""])
def test_a_byte_order_mark_at_the_beginning_is_left_out(first: bytes) -> None:
    text = "\ufeffselect a = 1; \ufeff".encode()
    stream = io.BytesIO(text)
    pieces = iter([text[: len(first)], text[len(first) :], b""] if first else [text, b""])
    stream.read1 = lambda _size=-1: next(pieces)  # type: ignore[method-assign]
    assert "".join(read_chunks(stream, "x")) == "select a = 1; \ufeff"
    with pytest.raises(InputError, match="x: byte 4: not UTF-8"):
        list(read_chunks(io.BytesIO(b"\xef\xbb\xbfa\xff"), "x"))
