"""The pages of docs/figures: their index, and what they say of how they were made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.figures.page import STATEMENT_COLUMNS, head
from testbed.figures.parameters import command_of, parameters_of
from testbed.figures.reproduction import FIGURES
from tests.support.paths import DOCS

_FOLDER = DOCS / "figures"
_PAGES = sorted(each for each in _FOLDER.glob("*.md") if each.name != "README.md")
#: Their figures have changed since they were made. A page that is made leaves this set.
_OUTDATED = {"alpha", "attention", "fn", "fp", "match", "ra", "schemes", "srur"}
_COMMAND = re.compile(r"Made by `cbcb figure (\S+) --size (\S+) --seeds (\d+)(?: --engine (\S+))?`\.")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.xfail(strict=True)] if page.stem in _OUTDATED else [])
        for page in _PAGES
    ],
    ids=lambda page: page.stem,
)
def test_a_page_has_the_words_and_parameters_of_the_code_and_no_run_that_failed(page: Path) -> None:
    lines = page.read_text().splitlines()
    found = _COMMAND.fullmatch(lines[2])
    assert found is not None, lines[2]
    name, size, seeds, engine = found[1], found[2], int(found[3]), found[4] or "simulate"
    assert name == page.stem
    figure = FIGURES[name]()
    command, cases = command_of(name, size, seeds, engine), figure.cases(size)
    expected = head(figure, command, parameters_of(figure, cases, seeds, engine))
    assert lines[: len(expected)] == expected
    # A line of failures would be between the head and the table of statements.
    assert lines[len(expected) :][:2] == ["", f"| {' | '.join(STATEMENT_COLUMNS)} |"]


def test_the_index_has_every_figure_with_the_link_to_its_page() -> None:
    rows = re.findall(r"^\| (\S+) \|", (_FOLDER / "README.md").read_text(), re.MULTILINE)
    made = {page.stem for page in _PAGES}
    assert set(rows) - {"page", "---"} == {f"[{n}]({n}.md)" if n in made else n for n in FIGURES}
