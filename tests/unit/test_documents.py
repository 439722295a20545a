"""Generated documents are current, and documents refer to existing files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.documents.generated import DOCUMENTS, Document
from tests.support.paths import DOCS, ROOT

_PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_generated_documents_are_current(document: Document) -> None:
    assert document.path.read_text() == document.current(), "run `python -m testbed.documents`"


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_documents_lead_to_files(page: Path) -> None:
    broken = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert broken == []
