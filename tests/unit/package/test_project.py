"""The project as a wheel: the whole of it, and parts with the packages of their extras alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from testbed import __version__
from tests.support.paths import ROOT
from tests.support.run_folder import good_run

_PACKAGES = ("router", "topos", "captures", "testbed")
_FILES = ("pyproject.toml", "README.md", "LICENSE")
_DATA = (".css", ".html", ".js", ".json", ".lua", ".mplstyle", ".sql", ".toml", ".txt")
_IMPORT_ALL = """
import importlib, pkgutil, sys
import router
walked = pkgutil.walk_packages(router.__path__, "router.")
found = [each.name for each in walked if not each.name.endswith("__main__")]
for name in found:
    importlib.import_module(name)
from router.predicates import Message
from router.predicates.parser import parse_predicate
from router.predicates import matches
assert matches(parse_predicate('dest = "ORD" and price < 400'), Message({"dest": "ORD", "price": 300}))
for name in ("pyspark", "mininet", "ryu", "pyarrow", "duckdb", "rich"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        continue
    sys.exit(f"{name} is installed")
others = {name.partition(".")[0] for name in sys.modules} & {"topos", "captures", "testbed"}
print(len(found), router.__file__, sorted(others))
"""

#: Reads a capture by the formats that Spark finds in the wheel, as a task of Spark does.
_READ = """
import sys
import pyspark_cbcb, pyspark_pcap
from captures.datasource.opening import view_of
from pyspark.sql.pandas.types import from_arrow_schema
for source in (pyspark_pcap.DefaultSource, pyspark_cbcb.DefaultSource):
    made = source({"path": sys.argv[1]})
    reader = made.reader(from_arrow_schema(view_of(source.name(), made.options).schema))
    print(source.name(), sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)))
"""


def _run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(each) for each in command], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


def _pip(*arguments: object) -> None:
    done = _run(sys.executable, "-m", "pip", *arguments, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network."""
    sources = tmp_path_factory.mktemp("sources")
    for name in _PACKAGES:
        shutil.copytree(
            ROOT / name,
            sources / name,
            ignore=shutil.ignore_patterns("__pycache__", "runs" if name == "captures" else ""),
        )
    for name in _FILES:
        shutil.copy(ROOT / name, sources)
    folder = tmp_path_factory.mktemp("wheel")
    build = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, sources]
    _pip(*build)
    (built,) = folder.iterdir()
    packed = set(zipfile.ZipFile(built).namelist())
    data = [path for name in _PACKAGES for path in (sources / name).rglob("*.*") if path.suffix in _DATA]
    assert {path.relative_to(sources).as_posix() for path in data} - packed == set()
    assert built.name == f"cbcb_testbed-{__version__}-py3-none-any.whl"
    return built


def _installed(wheel: Path, folder: Path) -> tuple[Path, Path]:
    """Installs the wheel into an environment of its own; returns its Python and its folder of packages."""
    venv.create(folder)
    python = folder / "bin" / "python"
    _pip("--python", python, "install", "--no-deps", "--no-index", wheel)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return python, folder / "lib" / version / "site-packages"


def _required(*extras: str) -> list[str]:
    """The names of the packages that the project requires, with those of some extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [
        *project["dependencies"],
        *(each for extra in extras for each in project["optional-dependencies"][extra]),
    ]
    return [Requirement(each).name for each in declared]


def _link(names: list[str], packages: Path) -> None:
    """Links distributions and all that they require into a folder of packages."""
    known: set[str] = set()
    while names:
        name = names.pop()
        if name in known:
            continue
        known.add(name)
        found = distribution(name)
        for file in found.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (packages / top).exists():
                (packages / top).symlink_to(Path(str(found.locate_file(top))))
        names += [
            requirement.name
            for requirement in map(Requirement, found.requires or ())
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ]


def test_router_alone_needs_neither_spark_nor_mininet(wheel: Path, tmp_path: Path) -> None:
    python, packages = _installed(wheel, tmp_path / "bare")
    _link(_required(), packages)
    done = _run(python, "-I", "-c", _IMPORT_ALL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    count, file, others = done.stdout.split(maxsplit=2)
    assert int(count) > 100
    assert Path(file).is_relative_to(packages)
    assert others == "[]\n"


def test_the_formats_need_the_packages_of_their_extra(wheel: Path, tmp_path: Path) -> None:
    python, packages = _installed(wheel, tmp_path / "spark")
    _link(_required("spark"), packages)
    run = good_run().write(tmp_path / "run")
    done = _run(python, "-I", "-c", _READ, run / "pcap" / "host-1.pcap", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    frames = len(good_run().pcaps["host-1"])
    assert done.stdout.splitlines() == [f"pcap {frames}", f"cbcb {frames}"]


def test_the_command_of_the_wheel_finds_its_experiments(wheel: Path, tmp_path: Path) -> None:
    python, packages = _installed(wheel, tmp_path / "whole")
    # What the extra `testbed` would install.
    (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    cbcb = python.with_name("cbcb")
    assert _run(cbcb, "--version", cwd=tmp_path).stdout == f"cbcb {__version__}\n"
    place = _run(python, "-I", "-c", "import testbed; print(testbed.__file__)", cwd=tmp_path).stdout
    assert Path(place.strip()).is_relative_to(packages)
    checked = _run(cbcb, "simulate", "ring5", "--runs", tmp_path / "runs", "--no-account", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
