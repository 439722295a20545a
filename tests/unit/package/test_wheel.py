"""The wheel of the formats: what it holds, what it asks for, and that it reads captures on its own."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from captures.datasource.versions import refusal
from testbed.package.modules import PackagingError, moved
from testbed.package.wheel import LICENSE, NAMESPACE, write_wheel
from tests.support.paths import ROOT
from tests.support.run_folder import good_run

#: Reads a capture as a task of Spark does, where no package of this project and no other library is found.
_READ = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {
            "captures", "router", "topos", "testbed", "psutil", "networkx", "duckdb", "scapy", "rich",
        }:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
sys.path.insert(0, sys.argv[1])
import pyspark_cbcb, pyspark_pcap
from pyspark.sql.pandas.types import from_arrow_schema
for source in (pyspark_pcap.DefaultSource, pyspark_cbcb.DefaultSource):
    made = source({"path": sys.argv[2]})
    schema = from_arrow_schema(made.options_and_view()[1].schema)
    reader = made.reader(schema)
    print(source.name(), sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel."""
    return write_wheel(tmp_path_factory.mktemp("wheel"))


def test_it_needs_numpy_and_pyarrow_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        lines = archive.read(name).decode().splitlines()
    assert [line for line in lines if line.startswith("Requires-")] == [
        "Requires-Python: >=3.11,<3.14",
        "Requires-Dist: numpy",
        "Requires-Dist: pyarrow",
        'Requires-Dist: numba; extra == "numba"',
    ]


def test_it_has_one_namespace(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        top = {name.partition("/")[0] for name in archive.namelist()}
        information = next(name for name in top if name.endswith(".dist-info"))
        assert top == {NAMESPACE, "pyspark_pcap.py", information}
        rows = [line.split(",") for line in archive.read(f"{information}/RECORD").decode().splitlines()]
        assert {name for name, *_ in rows} == set(archive.namelist())
        for name, digest, size in rows:
            if digest:
                data = archive.read(name)
                found = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert (digest, size) == (f"sha256={found}", str(len(data)))


def test_it_is_compressed_and_has_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert {each.compress_type for each in archive.infolist()} == {zipfile.ZIP_DEFLATED}
        (name,) = [name for name in archive.namelist() if name.endswith(f".dist-info/{LICENSE.name}")]
        assert archive.read(name).decode() == LICENSE.read_text()


def test_the_same_sources_give_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    assert write_wheel(tmp_path).read_bytes() == wheel.read_bytes()


def test_it_reads_captures_without_this_project(wheel: Path, tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(wheel), str(run / "pcap" / "host-1.pcap")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    frames = len(good_run().pcaps["host-1"])
    assert done.stdout.splitlines() == [f"pcap {frames}", f"cbcb {frames}"]


@pytest.mark.parametrize(
    ("python", "pyspark", "sentence"),
    [
        ((3, 11), "4.1.0", None),
        ((3, 13), "4.9.2.dev0", None),
        ((3, 10), "4.1.0", "The formats pcap and cbcb need Python 3.11 to 3.13; found 3.10."),
        ((3, 14), "4.1.0", "The formats pcap and cbcb need Python 3.11 to 3.13; found 3.14."),
        ((3, 12), "4.0.5", "The formats pcap and cbcb need PySpark 4.1 or a later 4; found 4.0.5."),
        ((3, 12), "5.0.0", "The formats pcap and cbcb need PySpark 4.1 or a later 4; found 5.0.0."),
    ],
)
def test_other_versions_are_refused_by_one_sentence(
    python: tuple[int, int], pyspark: str, sentence: str | None
) -> None:
    assert refusal(python, pyspark) == sentence


def test_an_import_that_binds_a_package_cannot_be_moved(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("import os\nimport captures.source\n")
    with pytest.raises(PackagingError, match=r"module\.py:2: import captures\.source; expected from"):
        moved(module, NAMESPACE)


def test_imports_and_names_of_modules_are_moved(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "from captures.pcap import walk\nfrom os import path\n"
        "SOURCES = ['router.wire.format', 'router.none', 'captures']\n"
    )
    assert moved(module, "a") == (
        "from a.captures.pcap import walk\nfrom os import path\n"
        "SOURCES = ['a.router.wire.format', 'router.none', 'captures']\n"
    )


def test_each_reference_on_a_line_is_moved_once(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        'PAIR = {"ä∃∃∃∃∃∃∃∃∃": "router.wire.format", "b": "router.wire.format"}\n', encoding="utf-8"
    )
    assert moved(module, "a") == (
        'PAIR = {"ä∃∃∃∃∃∃∃∃∃": "a.router.wire.format", "b": "a.router.wire.format"}\n'
    )
    module.write_text('NAME = ("router."\n"wire.format")\n')
    with pytest.raises(PackagingError, match=r"module\.py:1: router\.wire\.format; expected the whole name"):
        moved(module, "a")


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "testbed.package", str(tmp_path / "file")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == f"[Errno 17] File exists: '{tmp_path / 'file'}'\n"
