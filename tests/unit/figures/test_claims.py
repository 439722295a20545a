"""The tables of claims and of coverage, generated from the rows beside the pages of docs/figures."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from testbed.evaluation.figures.claims import claims, coverage
from testbed.evaluation.figures.page import merged
from tests.support.paths import DOCS, ROOT

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
    rows.write_text('[Paper]\nlatency = ["a.py", "b.py", "fn#none after that#no such case"]\n')
    with pytest.raises(ValueError, match="on a case with 'no such case'"):
        coverage(rows, DOCS / "figures")
    rows.write_text('[Paper]\nlatency = ["a.py", "", "fn#none after that", "Why."]\n')
    text = coverage(rows, DOCS / "figures")
    assert "| latency | `a.py` | none | [fn](../figures/fn.md) " in text


@pytest.mark.parametrize(("cases", "counted"), [("", "1/2"), ("#spt", "0/1")])
def test_a_row_counts_the_cases_that_it_names(cases: str, counted: str, tmp_path: Path) -> None:
    (tmp_path / "rows.toml").write_text(f'[Paper]\nlatency = ["a.py", "b.py", "fn#none{cases}"]\n')
    found = "statements,2 nodes,none lost,yes\nstatements,spt,none lost,no\n"
    (tmp_path / "fn.csv").write_text(f"part,case,claim,holds\n{found}")
    assert f"[fn](../figures/fn.md) {counted} |" in coverage(tmp_path / "rows.toml", tmp_path)


def test_each_judged_claim_has_a_row_with_what_holds_of_it(tmp_path: Path) -> None:
    pages = (("fn", "paper", "few of 2", "yes"), ("fn-large", "large", "few of 3", "no"))
    for name, size, few, late in pages:
        (tmp_path / f"{name}.md").write_text(f"Made by `cbcb figure fn --size {size} --seeds 2`.\n")
        found = (f"{few},at most 2,yes", f"{few},at most 3,{late}", "many,|M|,shown", "all,0,yes")
        rows = "".join(f"statements,{each}\n" for each in found)
        (tmp_path / f"{name}.csv").write_text(f"part,claim,predicted,holds\n{rows}")
    lines = claims(tmp_path).splitlines()
    assert lines[lines.index("| claim | expected | holds |") + 2 :] == [
        "| [fn](../figures/fn.md): `cbcb figure fn --size paper --seeds 2` |  | 3/3 |",
        "| few of 2 | at most 2 to 3 | 2/2 |",
        "| all | 0 | 1/1 |",
        "| [fn-large](../figures/fn-large.md): `cbcb figure fn --size large --seeds 2` |  | 2/3 |",
        "| few of 3 | at most 2 to 3 | 1/2 |",
    ]


def test_claims_that_have_different_tolerances_are_apart() -> None:
    assert merged(["1 within 5 %", "2 within 5 %"]) == "1 to 2 within 5 %"
    assert merged(["1 within 5 %", "1 within 10.5 %"]) == "1 within 5 %; 1 within 10.5 %"
