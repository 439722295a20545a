"""The generated references have a row for each key."""

from __future__ import annotations

import re

from router.options import options_of
from testbed.cli.documents import topology_file
from testbed.cli.documents.experiment_file import document
from testbed.experiments.config.schema import SECTIONS
from testbed.experiments.events.network import EVENTS
from topos.build import LinkSpec
from topos.generators import GENERATORS


def test_the_reference_of_topology_files_has_every_key() -> None:
    page = topology_file.document()
    for key in ("id", "x", "y", "name", *LinkSpec._fields):
        assert f"| `{key}` | " in page, key


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
