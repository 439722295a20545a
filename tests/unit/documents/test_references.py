"""The references of experiment and topology files have a row for each key."""

from __future__ import annotations

import re

from router.options import options_of
from testbed.cli.documents.experiment_file import document
from testbed.experiments.config import SECTIONS
from testbed.experiments.events.network import EVENTS
from tests.support.paths import DOCS
from topos.build import MAX_LINKS, MAX_NODES
from topos.generators import GENERATORS
from topos.loaders import LINK_KEYS, NODE_KEYS, SUFFIXES


def test_the_reference_of_topology_files_has_every_key_and_suffix_and_the_limits() -> None:
    page = (DOCS / "reference/topology-file.md").read_text()
    assert {*NODE_KEYS, *LINK_KEYS} <= set(_rows(page))
    for suffix in SUFFIXES:
        assert f"`{suffix}`" in page, suffix
    assert f"at most {MAX_NODES:,} nodes and {MAX_LINKS:,} links" in " ".join(page.split())


def _rows(text: str) -> list[str]:
    """The first cells of the tables, without quotes."""
    return re.findall(r'^\| `"?([a-z_A-Z]+)"?` \|', text, re.MULTILINE)


def test_every_key_of_a_section_has_a_row() -> None:
    parts = re.split(r"^## \[+([\w.]+)\]+$", document(), flags=re.MULTILINE)
    pages = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(pages) == list(SECTIONS)
    for section, options in SECTIONS.items():
        if options is not None:
            assert {option.key for option in options_of(options)} <= set(_rows(pages[section]))
    assert set(GENERATORS) <= set(_rows(pages["topology"]))
    assert set(EVENTS) <= set(_rows(pages["events"]))
