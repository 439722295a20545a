"""Captures by the URIs of object stores: `s3a:` from an endpoint on loopback, `dbfs:` below /dbfs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from captures.datasource.formats import CaptureReader, CbcbSource, PcapSource
from captures.datasource.views import View
from captures.frames.index import index_file
from tests.support.capture_files import pcap
from tests.support.paths import ROOT
from tests.support.run_folder import good_run, pcap_bytes
from tests.support.s3_endpoint import s3_endpoint

_FIRST, _SECOND = pcap([(1, bytes(60))]), pcap([(2, bytes(60)), (3, bytes(60))])
_OBJECTS = {
    "bucket/day/a.pcap": _FIRST,
    "bucket/day/b c.pcap": _SECOND,
    "bucket/day/notes.txt": b"no capture",
    "bucket/day/late/d.pcap": pcap([(4, bytes(60))]),
    "bucket/run/host-1.pcap": pcap_bytes(good_run().pcaps["host-1"]),
}


@pytest.fixture
def requests() -> list[str]:
    """The requests that the endpoint has answered."""
    return []


@pytest.fixture
def settings(requests: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The part of a URI that names the endpoint."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with s3_endpoint(_OBJECTS, requests) as address:
        yield f"?region=us-east-1&scheme=http&endpoint_override={address}"


def _rows(uri: str, source: type[PcapSource] = PcapSource, **options: str) -> list[dict[str, Any]]:
    made, view = source({"path": uri, **options}).options_and_view()
    parts = [part for group in CaptureReader(made, view).partitions() for part in group.parts]
    return sorted(
        (row for batch in view.read_all(parts) for row in batch.to_pylist()), key=lambda row: str(row)
    )


def test_s3a_names_files_folders_and_globs(settings: str, requests: list[str]) -> None:
    def times(path: str, **options: str) -> list[int]:
        rows = _rows(f"s3a://bucket{path}{settings}", PcapSource, columns="time_ns", **options)
        return [row["time_ns"] for row in rows]

    assert times("/day/a.pcap") == [1]
    assert times("/day/b%20c.pcap") == times("/day/b c.pcap") == [2, 3]
    assert times("/day") == [1, 2, 3]
    assert times("/day", recursiveFileLookup="true") == [1, 2, 3, 4]
    assert times("/day/*/d.pcap") == [4]
    assert times("/day/{a,x}*") == [1]
    assert {request.split()[0] for request in requests} == {"HEAD", "GET"}


def test_frames_of_an_s3a_uri_are_those_of_the_file(settings: str, tmp_path: Path) -> None:
    (tmp_path / "host-1.pcap").write_bytes(_OBJECTS["bucket/run/host-1.pcap"])
    found = _rows(f"s3a://bucket/run/host-1.pcap{settings}", CbcbSource)
    assert found == _rows(str(tmp_path / "host-1.pcap"), CbcbSource)
    assert len(found) == len(good_run().pcaps["host-1"])


def test_a_file_of_s3a_is_split(settings: str) -> None:
    uri = f"s3a://bucket/run/host-1.pcap{settings}"
    parts = index_file(uri, 500)
    assert len(parts) > 3
    view = View("packets", ("number",))
    numbers = [row["number"] for part in parts for batch in view.read(part) for row in batch.to_pylist()]
    assert numbers == [each + 1 for each in range(len(good_run().pcaps["host-1"]))]


def test_a_missing_object_is_one_line(settings: str) -> None:
    uri = f"s3a://bucket/day/none.pcap{settings}"
    with pytest.raises(FileNotFoundError) as caught:
        _rows(uri)
    assert str(caught.value) == f"{uri}: no such file or directory"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a root folder of its own has /dbfs")
def test_dbfs_names_files_below_dbfs(tmp_path: Path) -> None:
    captures = tmp_path / "root" / "dbfs" / "day"
    captures.mkdir(parents=True)
    (captures / "a.pcap").write_bytes(_FIRST)
    (captures / "b.pcap").write_bytes(_SECOND)
    program = (
        "import sys; from captures.datasource.formats import CaptureReader, PcapSource\n"
        "for uri in sys.argv[1:]:\n"
        "    options, view = PcapSource({'path': uri, 'columns': 'file,time_ns'}).options_and_view()\n"
        "    parts = [part for group in CaptureReader(options, view).partitions() for part in group.parts]\n"
        "    rows = [row for batch in view.read_all(parts) for row in batch.to_pylist()]\n"
        "    print(sorted(tuple(row.values()) for row in rows))\n"
    )
    # Every folder of the machine beside /dbfs, seen by this process alone.
    inside = (
        'for each in /*; do test -d "$each" && mkdir -p "$1$each" && mount --rbind "$each" "$1$each"; done; '
        'cd "$2" && exec chroot "$1" "$3" -c "$4" "${@:5}"'
    )
    uris = ["dbfs:/day/a.pcap", "dbfs:///day/*.pcap"]
    command = ["unshare", "--mount", "bash", "-c", inside, "bash", str(tmp_path / "root"), str(ROOT)]
    done = subprocess.run(
        [*command, sys.executable, program, *uris],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[('dbfs:/day/a.pcap', 1)]",
        "[('dbfs:///day/a.pcap', 1), ('dbfs:///day/b.pcap', 2), ('dbfs:///day/b.pcap', 3)]",
    ]
