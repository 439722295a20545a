"""The generated reference of topology files."""

from __future__ import annotations

from testbed.cli.documents import topology_file
from topos.build import LinkSpec


def test_the_reference_of_topology_files_has_every_key() -> None:
    page = topology_file.document()
    for key in ("id", "x", "y", "name", *LinkSpec._fields):
        assert f"| `{key}` | " in page, key
