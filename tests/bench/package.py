"""The wheel of the formats in bare environments: each Python with each PySpark, and Spark Connect.

Makes a virtual environment for each interpreter on the path (`python3.12`, ...) with numpy, pyarrow and the
wheel alone, and has it read a capture in two lines. pip needs the network, unless the folder of an earlier
run is given. With Spark Connect, the wheel is first installed for client and server, then for the client
alone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from testbed.package.wheel import write_wheel
from tests.support.run_folder import good_run

_PYTHONS = ("3.11", "3.12", "3.13")
_PYSPARKS = ("4.1.0", "4.2.1", "4.3.0")
#: What a session of Spark Connect needs beside pyspark, by pyspark's documentation.
_CONNECT = ("pandas", "grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")
_START = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.{where}.config("spark.ui.enabled", "false").getOrCreate()
"""
_READ = """
print("packets", spark.read.format("pcap").load(sys.argv[1]).count())
print("types", spark.read.format("cbcb").load(sys.argv[1]).select("type").distinct().count())
"""
_REGISTER = """
from pyspark_cbcb import register
register(spark)
print("registered", spark.read.format("pcap").load(sys.argv[1]).count())
"""
_TIMEOUT_S = 300.0


def configure(arguments: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="./run.sh bench package", description=__doc__)
    parser.add_argument("--python", nargs="+", default=_PYTHONS, metavar="VERSION")
    parser.add_argument("--pyspark", nargs="+", default=_PYSPARKS, metavar="VERSION")
    parser.add_argument("--refused", nargs="*", default=("4.0.5",), metavar="VERSION")
    parser.add_argument("--folder", type=Path, help="for the environments; they are kept there")
    given = parser.parse_args(arguments)
    return {
        "pythons": given.python,
        "pysparks": given.pyspark,
        "refused": given.refused,
        "folder": given.folder,
    }


def main(
    pythons: tuple[str, ...] = _PYTHONS,
    pysparks: tuple[str, ...] = _PYSPARKS,
    refused: tuple[str, ...] = (),
    folder: Path | None = None,
) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        wheel = write_wheel(place / "dist")
        capture = place / "host-1.pcap"
        capture.unlink(missing_ok=True)
        run = good_run().write(Path(tempfile.mkdtemp(dir=temporary)) / "run")
        shutil.copy(run / "pcap" / "host-1.pcap", capture)
        libraries = {each: _pyspark(place, each) for each in (*pysparks, *refused)}
        for python in pythons:
            interpreter = shutil.which(f"python{python}")
            # The name may be that of a program that looks for interpreters.
            if interpreter is None or subprocess.run([interpreter, "-V"], capture_output=True).returncode:
                print(f"Python {python}: not on this machine")
                continue
            own = _environment(place, python, interpreter, wheel)
            classic = _START.format(where='master("local[1]")') + _READ
            for each in pysparks:
                _report(python, each, "classic", _run(own, libraries[each], classic, capture))
            for each in refused:
                _report(python, each, "to be refused", _run(own, libraries[each], classic, capture))
            _install(own, *_CONNECT)
            plain = _bare(place / f"server-{python}", interpreter)
            _install(plain, "numpy", "pyarrow", *_CONNECT)
            start = _START.format(where='remote("local[1]")')
            for each in pysparks:
                both = _run(own, libraries[each], start + _READ + _REGISTER, capture)
                _report(python, each, "Spark Connect", both)
                alone = _run(own, libraries[each], start + _REGISTER, capture, workers=plain)
                _report(python, each, "Spark Connect, server without the wheel", alone)


def _environment(place: Path, python: str, interpreter: str, wheel: Path) -> Path:
    """An environment with the wheel and what it asks for; the path of its interpreter."""
    own = _bare(place / f"python-{python}", interpreter)
    _install(own, str(wheel))
    _install(own, "--force-reinstall", "--no-deps", str(wheel))
    return own


def _bare(environment: Path, interpreter: str) -> Path:
    own = environment / "bin" / "python"
    if not own.exists():
        subprocess.run([interpreter, "-m", "venv", str(environment)], check=True)
    return own


def _install(own: Path, *what: str) -> None:
    subprocess.run([str(own), "-m", "pip", "install", "-q", *what], check=True, stderr=subprocess.DEVNULL)


def _pyspark(place: Path, version: str) -> Path:
    """A folder with a version of PySpark, which is the same for each Python."""
    folder = place / f"spark-{version}"
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), f"pyspark=={version}"]
        subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
    return folder


def _run(own: Path, pyspark: Path, text: str, capture: Path, workers: Path | None = None) -> str:
    """Runs a program; returns the lines that it prints, or the line of its error.

    Args:
        workers: the interpreter of Spark's Python processes; by default the program's.
    """
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(pyspark),
        "PYSPARK_PYTHON": str(workers or own),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    done = subprocess.run(
        [str(own), "-c", text, str(capture)],
        cwd=capture.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode == 0:
        return ", ".join(done.stdout.splitlines())
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    said = [line for line in lines if "formats pcap and cbcb need" in line]
    return f"error: {(said or lines[-1:])[0][:300]}"


def _report(python: str, pyspark: str, what: str, said: str) -> None:
    print(f"Python {python}, PySpark {pyspark}, {what}: {said}", flush=True)
