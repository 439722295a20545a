"""The site made from docs/: it builds without a network, and its pages load nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import testbed.api
from testbed.cli.documents import without_outer_links
from tests.support.paths import DOCS, ROOT


def test_links_that_leave_the_documents_become_paths() -> None:
    text = (
        "[examples/](../examples) and [a run](../captures/x.py#top), [here](tables.md#a), [x](https://e.org/)"
    )
    expected = "`examples` and a run (`captures/x.py`), [here](tables.md#a), [x](https://e.org/)"
    assert without_outer_links(text, "index.md") == expected
    assert without_outer_links("[up](../glossary.md)", "adr/0001.md") == "[up](../glossary.md)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if None in map(find_spec, ("mkdocs", "material", "mkdocstrings")):
        pytest.skip("MkDocs is not installed (requirements.lock has it)")
    folder = tmp_path_factory.mktemp("site")
    # Without a network, where a namespace can be made.
    alone = ["unshare", "--net"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*alone, sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_of_docs_is_a_page_of_the_site(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}
    built = {
        path.parent.relative_to(site) if path.parent != site else Path("index")
        for path in site.rglob("index.html")
    }
    # A README is the index of its folder.
    expected = {page.parent if page.name == "README" else page for page in pages}
    assert expected - built == set()


def test_the_reference_of_python_has_every_name_and_no_path_of_this_machine(site: Path) -> None:
    page = (site / "reference" / "api" / "index.html").read_text(encoding="utf-8")
    assert sorted(re.findall(r'<h2 id="testbed\.api\.(\w+)"', page)) == sorted(testbed.api.__all__)
    assert str(ROOT) not in page


def test_the_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loading = re.compile(
        r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)"
    )
    found = {
        (path.name, link)
        for path in site.rglob("*.html")
        for link in loading.findall(path.read_text(encoding="utf-8"))
    }
    assert found == set()
