"""The generated references: of the Python interface, and of topology files."""

from __future__ import annotations

import testbed.api
from testbed.documents import api_reference, topology_file
from topos.build import LinkSpec


def test_the_reference_of_the_interface_has_every_name_and_no_path_of_this_machine() -> None:
    page = api_reference.document()
    headings = [line.removeprefix("## testbed.") for line in page.splitlines() if line.startswith("## ")]
    assert headings == sorted(testbed.api.__all__, key=str.lower)
    assert "runs: str | Path = captures/runs" in page and "PosixPath" not in page
    assert "master: str = 'local[2]'" in page
    assert "- `InputError`: " in page


def test_the_reference_of_topology_files_has_every_key() -> None:
    page = topology_file.document()
    for key in ("id", "x", "y", "name", *LinkSpec._fields):
        assert f"| `{key}` | " in page, key
