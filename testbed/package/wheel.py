"""The wheel `cbcb-captures`: the formats `pcap` and `cbcb` for Spark, without the testbed.

Its import namespace is `pyspark_cbcb`. Spark looks for sources in installed packages whose names begin with
`pyspark_`, and takes one source from each: `cbcb` from `pyspark_cbcb`, `pcap` from the module `pyspark_pcap`,
which holds nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

from captures.datasource.versions import PYTHON
from testbed import __version__
from testbed.package.modules import moved, needed

NAMESPACE = "pyspark_cbcb"
LICENSE = Path(__file__).resolve().parents[2] / "LICENSE"
_NAME = "cbcb_captures"
_DOORS = ("captures.source", "captures.datasource.formats", "captures.datasource.versions")
#: Files in a zip have a time; the same sources shall give the same wheel.
_TIME = (2020, 1, 1, 0, 0, 0)
_INIT = f'''"""Captures in Spark: the formats `pcap` and `cbcb`.

Where this package is installed, Spark finds the formats by name: `spark.read.format("pcap").load(PATH)`.
"""

from {NAMESPACE}.captures.datasource.versions import refusal, refusing_source, require_versions

_REFUSAL = refusal()
if _REFUSAL is None:
    from {NAMESPACE}.captures.datasource.formats import CbcbSource as DefaultSource
    from {NAMESPACE}.captures.datasource.formats import register
    from {NAMESPACE}.captures.datasource.parquet import write_parquet
    from {NAMESPACE}.captures.frames.index import write_index
else:
    DefaultSource = refusing_source("cbcb", _REFUSAL)

    def register(*_, **__):
        """Refuses the versions of this process."""
        require_versions()

    write_index = write_parquet = register


def read_hadoop(*arguments, **named):
    """Reads captures through the JVM; see `captures.datasource.hadoop`."""
    require_versions()
    from {NAMESPACE}.captures.datasource.hadoop import read_hadoop as read

    return read(*arguments, **named)
'''
_PCAP = f'''"""The format `pcap` of `{NAMESPACE}`, where Spark looks for it."""

from {NAMESPACE} import _REFUSAL, refusing_source

if _REFUSAL is None:
    from {NAMESPACE}.captures.datasource.formats import PcapSource as DefaultSource
else:
    DefaultSource = refusing_source("pcap", _REFUSAL)
'''


def write_wheel(folder: Path) -> Path:
    """Builds the wheel; returns its path.

    Raises:
        PackagingError: a module cannot be moved into the namespace.
    """
    files = {f"{NAMESPACE}/__init__.py": _INIT, "pyspark_pcap.py": _PCAP}
    for name, path in needed(_DOORS).items():
        parts = name.split(".")
        place = [*parts, "__init__.py"] if path.name == "__init__.py" else [*parts[:-1], path.name]
        files["/".join((NAMESPACE, *place))] = moved(path, NAMESPACE)
    information = f"{_NAME}-{__version__}.dist-info"
    files[f"{information}/METADATA"] = _metadata()
    # Every copy carries the text of the licence.
    files[f"{information}/{LICENSE.name}"] = LICENSE.read_text(encoding="utf-8")
    files[f"{information}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: cbcb-testbed\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = f"{information}/RECORD"
    files[record] = "".join(f"{_recorded(name, text)}\n" for name, text in files.items()) + f"{record},,\n"
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{_NAME}-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            # An entry with a time of its own takes nothing from the archive, its compression neither.
            archive.writestr(zipfile.ZipInfo(name, _TIME), text, zipfile.ZIP_DEFLATED)
    return wheel


def _metadata() -> str:
    low, high = (".".join(map(str, each)) for each in PYTHON)
    return "\n".join(
        [
            "Metadata-Version: 2.1",
            f"Name: {_NAME.replace('_', '-')}",
            f"Version: {__version__}",
            "Summary: Captures in Spark: formats pcap (packets) and cbcb (frames of content-based networks)",
            "License: MIT",
            f"License-File: {LICENSE.name}",
            f"Requires-Python: >={low},<{high}",
            "Requires-Dist: numpy",
            "Requires-Dist: pyarrow",
            "Provides-Extra: numba",
            'Requires-Dist: numba; extra == "numba"',
            "",
        ]
    )


def _recorded(name: str, text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(text.encode())}"
