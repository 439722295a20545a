"""The pages of docs/figures: their index, and what they say of how they were made."""

from __future__ import annotations

import csv
import re
import tomllib
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from router.protocol.options import SCHEMES
from testbed.controller.trees import LAYERS
from testbed.evaluation.figures import AMENDED, UNCHANGED
from testbed.evaluation.figures.claims import claims, coverage
from testbed.evaluation.figures.emulated import EMULATIONS
from testbed.evaluation.figures.page import CLAIM_COLUMNS, DATA, head, merged, page_name, page_of, tail
from testbed.evaluation.figures.reproduction import FIGURES, SIZES, UNDECIDED
from testbed.evaluation.figures.runner import Origin, Reproduced, read_data
from testbed.evaluation.sweeps import ENGINES
from tests.support.figures import results_of
from tests.support.paths import DOCS, ROOT

_FOLDER = DOCS / "figures"
_PAGES = sorted(each for each in _FOLDER.glob("*.md") if each.name != "README.md")
_INDEX = (_FOLDER / "README.md").read_text()
#: Pages whose figures have changed since they were made. A page that is made leaves the list of the index.
_OUTDATED = {
    name
    for names in re.findall(r"^Older than the code: (.+)\.$", _INDEX, re.MULTILINE)
    for name in re.findall(r"`(\S+?)`", names)
}
_COLUMNS = f"| {' | '.join(CLAIM_COLUMNS)} |"
_COMMAND = re.compile(r"Made by `cbcb figure (\S+) --size (\S+) --seeds (\d+)(?: --engine (\S+))?`\.")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.xfail(strict=True)] if page.stem in _OUTDATED else [])
        for page in _PAGES
    ],
    ids=lambda page: page.stem,
)
def test_a_page_has_the_words_and_keys_of_the_code_and_no_run_that_failed(page: Path) -> None:
    lines = page.read_text().splitlines()
    origin = _made(page)
    figure = FIGURES[origin.name]()
    expected = head(figure, origin)
    assert lines[: len(expected)] == expected
    # A line of failures would be between the head and the claims.
    assert lines[len(expected) :][:2] == ["", _COLUMNS]
    assert "\n".join(tail(figure, origin, figure.cases(origin.size))) in "\n".join(lines)


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_a_page_and_its_picture_are_made_from_its_data(page: Path, tmp_path: Path) -> None:
    origin, done = read_data(_FOLDER / DATA / f"{page.stem}.json.gz")
    assert page_of(FIGURES[origin.name](), origin, done, tmp_path).stem == page.stem
    for path in sorted(tmp_path.rglob("*.*")):
        assert path.read_bytes() == (_FOLDER / path.relative_to(tmp_path)).read_bytes(), path.name


def test_each_page_has_data_and_all_data_are_of_pages_or_emulations() -> None:
    data = {each.name.removesuffix(".json.gz") for each in (_FOLDER / DATA).iterdir()}
    emulations = {page_name(name, size, "run") for name, size in EMULATIONS.items()}
    pages = {page.stem for page in _PAGES}
    assert pages <= data <= pages | emulations
    # The figure leaves this claim out where nothing is predicted.
    assert "| none after the last RA has come to a sender | 13 cases |" in (_FOLDER / "fn.md").read_text()


def test_a_page_says_whose_rules_ran_and_the_index_where_they_differ() -> None:
    assert {*AMENDED, *UNCHANGED} == {*SCHEMES, *LAYERS, "attention"}
    named = re.findall(r"^- (`.+?`): ", _INDEX, re.MULTILINE)
    assert sorted(", ".join(named).split(", ")) == sorted(f"`{each}`" for each in AMENDED)
    assert (
        _rules("fn")
        == "Rules: `spanning-tree` (as in the papers); `pif`, `spt` ([with differences](README.md#rules))."
    )
    assert "`drp`" in _rules("schemes")
    assert _rules("match") == "Rules: no router ran."
    assert "`pif`" not in _rules("attention")


def test_only_the_first_page_of_a_figure_has_the_words_of_the_paper_and_its_decisions() -> None:
    figure = FIGURES["fn"]()
    for size, engine, first in (
        ("paper", "simulate", True),
        ("paper", "run", False),
        ("large", "simulate", False),
    ):
        origin = Origin("fn", size, 1, engine)
        lines = tail(figure, origin, figure.cases(size))
        assert (lines[1:3] == ["Decisions and deviations:", ""]) is first
        assert any(line.startswith("> ") for line in head(figure, origin)) is first
        assert any("[index](README.md#the-pages)" in line for line in lines) is not first


def _rules(name: str) -> str:
    figure = FIGURES[name]()
    lines = tail(figure, Origin(name, "small", 1, "simulate"), figure.cases("small"))
    begin = next(number for number, line in enumerate(lines) if line.startswith("Rules: "))
    return " ".join(lines[begin : lines.index("", begin)])


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_a_page_of_whatever_age_names_its_command_and_has_claims_a_figure_and_all_rows(page: Path) -> None:
    lines = page.read_text().splitlines()
    origin = _made(page)
    assert page.stem == page_name(origin.name, origin.size, origin.engine)
    assert (origin.size in FIGURES[origin.name]().sizes, origin.seeds > 0) == (True, True)
    assert not [line for line in lines if line.startswith("Runs that failed")]
    begin = lines.index(_COLUMNS)
    rows = [re.split(r"(?<!\\)\|", line[1:-1]) for line in lines[begin : lines.index("", begin)]]
    assert [len(row) for row in rows] == [len(CLAIM_COLUMNS)] * len(rows)
    verdicts = {verdict.strip(" *") for *_, verdict in rows[2:]}
    with page.with_suffix(".csv").open(encoding="utf-8") as file:
        kept = list(csv.DictReader(file))
    assert verdicts == {row["holds"] for row in kept if row["part"] == "statements"}
    assert verdicts
    assert verdicts <= {"yes", "no", "shown"}
    cases = [row["case"] for row in kept if row["part"] == "cases"]
    if page.stem not in _OUTDATED:
        assert cases == [case.label for case in FIGURES[origin.name]().cases(origin.size)]
    # Of some figures, cases are simulated and calculated: the count says neither.
    assert f"[{page.stem}.csv]({page.stem}.csv): {len(cases)} cases, " in page.read_text()
    assert any(line.endswith(f"]({page.stem}.svg)") for line in lines)
    assert page.with_suffix(".svg").is_file()
    assert len(lines) <= 300
    assert [line for line in lines if len(line) > 160 and not line.startswith("|")] == []


def _made(page: Path) -> Origin:
    """Returns how a page was made, from its command."""
    (found,) = _COMMAND.findall(page.read_text())
    return Origin(found[0], found[1], int(found[2]), found[3] or "simulate")


def test_the_index_has_every_figure_with_the_link_to_its_page_and_to_those_beside_it() -> None:
    """A figure's first cell links the page of the paper's size, or else that of size small."""
    made = {page.stem for page in _PAGES}
    assert made >= _OUTDATED
    named, linked = set(), set()
    for row in re.findall(r"^\| (?!page |---).+$", _INDEX, re.MULTILINE):
        cell, of_row = row.split(" | ")[0], set(re.findall(r"\]\(([\w-]+)\.md\)", row))
        (name,) = re.findall(r"^\| \[?([\w-]+)", cell)
        first = [each for each in (page_name(name, size) for size in ("paper", "small")) if each in made][:1]
        assert re.findall(r"\]\(([\w-]+)\.md\)", cell) == first
        assert of_row <= {page_name(name, size, engine) for size in SIZES for engine in ENGINES}
        named.add(name)
        linked |= of_row
    assert named == set(FIGURES)
    assert made <= linked


def test_no_page_replaces_another() -> None:
    names = Counter(page_name(name, *page) for name in FIGURES for page in product(SIZES, ENGINES))
    assert len(names) == names.total() == 8 * len(FIGURES)


@pytest.mark.parametrize(
    ("name", "size", "engine", "page"),
    [("fn", "large", "run", "fn-large-emulated"), ("schemes", "paper", "run", "schemes-paper-emulated")],
)
def test_files_of_a_page_have_its_name(name: str, size: str, engine: str, page: str, tmp_path: Path) -> None:
    figure = FIGURES[name]()
    done = Reproduced(results_of(figure, size=size), [])
    path = page_of(figure, Origin(name, size, 1, engine), done, tmp_path)
    assert path == tmp_path / f"{page}.md"
    assert f"]({page}.svg)" in path.read_text()
    files = [f"{page}.csv", f"{page}.json.gz", f"{page}.md", f"{page}.svg"]
    assert sorted(each.name for each in tmp_path.rglob("*.*")) == files


# The tables of claims and of coverage, generated from the rows beside the pages of docs/figures.


_ROWS = DOCS / "reference/coverage.toml"
_SOURCES = tomllib.loads(_ROWS.read_text(encoding="utf-8"))
_COVERED = {subject: row for rows in _SOURCES.values() for subject, row in rows.items()}


@pytest.mark.parametrize("subject", _COVERED)
def test_what_a_row_of_the_coverage_names_exists_or_a_sentence_says_why_not(subject: str) -> None:
    place, test, page, why = (*_COVERED[subject], "", "")[:4]
    assert all((ROOT / each).exists() for each in (place, test) if each)
    assert not page or (DOCS / "figures" / f"{page.partition('#')[0]}.md").is_file()
    assert (place and test) or (why.endswith(".") and len(why.split()) > 3)


def test_a_row_whose_claim_no_page_has_is_an_error(tmp_path: Path) -> None:
    rows = tmp_path / "rows.toml"
    rows.write_text('[Paper]\nlatency = ["a.py", "b.py", "fn#no such claim"]\n')
    with pytest.raises(ValueError, match=r"latency: .*fn\.csv has no claim that begins with 'no such claim'"):
        coverage(rows, DOCS / "figures")
    rows.write_text('[Paper]\nlatency = ["a.py", "b.py", "fn#the last false negative#no such case"]\n')
    with pytest.raises(ValueError, match="on a case with 'no such case'"):
        coverage(rows, DOCS / "figures")
    rows.write_text('[Paper]\nlatency = ["a.py", "", "fn#the last false negative", "Why."]\n')
    text = coverage(rows, DOCS / "figures")
    assert "| latency | `a.py` | none | [fn](../figures/fn.md) " in text


@pytest.mark.parametrize(("cases", "counted"), [("", "1/2"), ("#spt", "0/1")])
def test_a_row_counts_the_cases_that_it_names(cases: str, counted: str, tmp_path: Path) -> None:
    (tmp_path / "rows.toml").write_text(f'[Paper]\nlatency = ["a.py", "b.py", "fn#none{cases}"]\n')
    found = "statements,2 nodes,none lost,yes,\nstatements,spt,none lost,no,\n"
    (tmp_path / "fn.csv").write_text(f"part,case,claim,holds,measured\n{found}")
    assert f"[fn](../figures/fn.md) {counted} |" in coverage(tmp_path / "rows.toml", tmp_path)


def test_each_judged_claim_has_a_row_with_what_holds_of_it(tmp_path: Path) -> None:
    pages = (("fn", "paper", "few of 2", "yes"), ("fn-x", "x", "few of 3", "no"))
    for name, size, few, late in pages:
        (tmp_path / f"{name}.md").write_text(f"Made by `cbcb figure fn --size {size} --seeds 2`.\n")
        found = (f"{few},at most 2,yes", f"{few},at most 3,{late}", "many,|M|,shown", "all,0,yes")
        rows = "".join(f"statements,{each},\n" for each in found) + f"statements,all,0,shown,{UNDECIDED}\n"
        (tmp_path / f"{name}.csv").write_text(f"part,claim,predicted,holds,measured\n{rows}")
    lines = claims(tmp_path).splitlines()
    assert lines[lines.index("| claim | expected | holds |") + 2 :] == [
        "| [fn](../figures/fn.md): `cbcb figure fn --size paper --seeds 2` |  | 3/3, 1 undecided |",
        "| few of 2 | at most 2 to 3 | 2/2 |",
        "| all | 0 | 1/1, 1 undecided |",
        "| [fn-x](../figures/fn-x.md): `cbcb figure fn --size x --seeds 2` |  | 2/3, 1 undecided |",
        "| few of 3 | at most 2 to 3 | 1/2 |",
        "| all | 0 | 1/1, 1 undecided |",
    ]


def test_claims_that_have_different_tolerances_are_apart() -> None:
    assert merged(["1 within 5 %", "2 within 5 %"]) == "1 to 2 within 5 %"
    assert merged(["1 within 5 %", "1 within 10.5 %"]) == "1 within 5 %; 1 within 10.5 %"
