"""The pages of docs/figures: their index, and what they say of how they were made."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from testbed.figures.page import STATEMENT_COLUMNS, head, page_of
from testbed.figures.parameters import command_of, page_name, parameters_of
from testbed.figures.reproduction import EMULATED, FIGURES, SIZES, Results
from testbed.figures.runner import Reproduced
from testbed.sweeps.engines import ENGINES
from tests.support.paths import DOCS

_FOLDER = DOCS / "figures"
_PAGES = sorted(each for each in _FOLDER.glob("*.md") if each.name != "README.md")
_INDEX = (_FOLDER / "README.md").read_text()
#: Pages whose figures have changed since they were made. A page that is made leaves the list of the index.
_OUTDATED = {
    name
    for names in re.findall(r"^Older than the code: (.+)\.$", _INDEX, re.MULTILINE)
    for name in re.findall(r"`(\S+?)`", names)
}
_COLUMNS = f"| {' | '.join(STATEMENT_COLUMNS)} |"
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
    name, size, seeds, engine = _made(lines)
    figure = FIGURES[name]()
    command, cases = command_of(name, size, seeds, engine), figure.cases(size)
    expected = head(figure, command, parameters_of(figure, cases, seeds, engine))
    assert lines[: len(expected)] == expected
    # A line of failures would be between the head and the table of statements.
    assert lines[len(expected) :][:2] == ["", _COLUMNS]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_a_page_of_whatever_age_names_its_command_and_has_statements_and_a_figure(page: Path) -> None:
    lines = page.read_text().splitlines()
    name, size, seeds, engine = _made(lines)
    assert page.stem == page_name(name, size, engine)
    assert (size in FIGURES[name]().sizes, seeds > 0) == (True, True)
    assert not [line for line in lines if line.startswith("Runs that failed")]
    begin = lines.index(_COLUMNS)
    rows = [re.split(r"(?<!\\)\|", line[1:-1]) for line in lines[begin : lines.index("", begin)]]
    assert [len(row) for row in rows] == [len(STATEMENT_COLUMNS)] * len(rows)
    verdicts = [verdict.strip() for *_, verdict in rows[2:]]
    assert verdicts
    assert set(verdicts) <= {"yes", "**no**", "shown"}
    assert any(line.endswith(f"]({page.stem}.svg)") for line in lines)
    assert page.with_suffix(".svg").is_file()


def _made(lines: list[str]) -> tuple[str, str, int, str]:
    """Returns figure, size, number of seeds and engine of the command that made a page."""
    found = _COMMAND.fullmatch(lines[2])
    assert found is not None, lines[2]
    return found[1], found[2], int(found[3]), found[4] or "simulate"


def _names(name: str) -> set[str]:
    """The names that pages of a figure can have."""
    return {page_name(name, size, engine) for size in SIZES for engine in ENGINES}


def _cell(name: str, made: set[str]) -> str:
    """The first cell of a figure's row: links the page of the paper's size, or else of size small."""
    page = next(
        (each for each in (page_name(name, size) for size in ("paper", "small")) if each in made), None
    )
    return name if page is None else f"[{name}]({page}.md)"


def test_the_index_has_every_figure_with_the_link_to_its_page_and_to_those_beside_it() -> None:
    rows = re.findall(r"^\| (\S+) \|", _INDEX, re.MULTILINE)
    made = {page.stem for page in _PAGES}
    assert made >= _OUTDATED
    assert set(rows) - {"page", "---"} == {_cell(name, made) for name in FIGURES}
    linked = set()
    for row in _INDEX.splitlines():
        if row.startswith("| "):
            name = re.sub(r"\[(\S+)\].*", r"\1", row.split(" | ")[0].removeprefix("| "))
            of_row = set(re.findall(r"\]\(([\w-]+)\.md\)", row))
            assert of_row <= _names(name)
            linked |= of_row
    assert made <= linked


def test_no_page_replaces_another() -> None:
    """Size emulated cannot be simulated (test_reproductions.py)."""
    pages = [(size, engine) for size in SIZES for engine in ENGINES]
    pages.remove((EMULATED, "simulate"))
    names = Counter(page_name(name, *page) for name in FIGURES for page in pages)
    assert len(names) == names.total() == 7 * len(FIGURES)


@pytest.mark.parametrize(
    ("name", "size", "engine", "page"),
    [
        ("fn", "small", "simulate", "fn-small"),
        ("fn", "paper", "simulate", "fn"),
        ("fn", "large", "run", "fn-large-emulated"),
        ("schemes", "paper", "run", "schemes-paper-emulated"),
        ("schemes", "emulated", "run", "schemes-emulated"),
    ],
)
def test_the_files_of_a_page_have_its_name(
    name: str, size: str, engine: str, page: str, tmp_path: Path
) -> None:
    figure = FIGURES[name]()
    done = Reproduced(Results({case: [] for case in figure.cases(size)}), [])
    path = page_of(name, figure, done, tmp_path, size=size, seeds=1, engine=engine)
    assert path == tmp_path / f"{page}.md"
    assert f"]({page}.svg)" in path.read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{page}.md", f"{page}.svg"]
