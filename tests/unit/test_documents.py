"""Generated documents are current, and documents refer to existing files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.cli.documents.__main__ import DOCUMENTS, Document
from tests.support.paths import DOCS, ROOT

_PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")
#: A path of the repository in backticks. Words in capitals stand for names.
_PATH = re.compile(
    r"`((?:testbed|router|captures|topos|tests|docs)/[\w/.-]+\.(?:py|toml|md|sql|csv|json))\b[^`]*`"
)
#: A link to a heading: the page, empty for that of the link, and the anchor.
_ANCHORED = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```", re.M | re.S)
_HEADING = re.compile(r"^#+ +(.+)$", re.M)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_generated_documents_are_current(document: Document) -> None:
    assert document.path.read_text() == document.current(), "run `python -m testbed.cli.documents`"


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_document_has_the_marks_of_a_merge(page: Path) -> None:
    """Two such marks once landed in the index of the figures."""
    assert re.findall(r"^(?:<{7}|>{7}).*", page.read_text(encoding="utf-8"), re.MULTILINE) == []


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_documents_lead_to_files(page: Path) -> None:
    text = page.read_text()
    broken = [link for link in _LINK.findall(text) if not (page.parent / link).exists()]
    broken += [path for path in _PATH.findall(text) if "NAME" not in path and not (ROOT / path).exists()]
    assert broken == []


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_headings_lead_to_headings(page: Path) -> None:
    links = [
        (page.parent / name if name else page, anchor) for name, anchor in _ANCHORED.findall(page.read_text())
    ]
    broken = [anchor for path, anchor in links if path.suffix == ".md" and anchor not in _anchors(path)]
    assert broken == []


def test_the_navigation_of_the_site_names_each_document_once() -> None:
    named = re.findall(r"[\w/-]+\.md\b", (ROOT / "mkdocs.yml").read_text())
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings: lower case, without punctuation, with a hyphen for each space."""
    headings = _HEADING.findall(_FENCED.sub("", page.read_text()))
    shown = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in shown}
