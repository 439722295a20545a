"""Versions of Python and PySpark that the formats run with; any other is refused by one sentence."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

#: Least version, and the first that is excluded.
PYTHON = ((3, 11), (3, 14))
PYSPARK = ((4, 1), (5, 0))


class VersionError(ImportError):
    """The formats do not run with a version of Python or PySpark."""


def refusal(python: tuple[int, int] | None = None, pyspark: str | None = None) -> str | None:
    """Why the formats do not run, as a sentence; None: they do.

    Args:
        python, pyspark: versions; by default, those of this process.
    """
    python = python or sys.version_info[:2]
    if not PYTHON[0] <= python < PYTHON[1]:
        return (
            f"The formats pcap and cbcb need Python {_text(PYTHON[0])} to {_text((3, PYTHON[1][1] - 1))}; "
            f"found {_text(python)}."
        )
    pyspark = pyspark or _pyspark()
    number = re.match(r"(\d+)\.(\d+)", pyspark or "")
    if number is None or not PYSPARK[0] <= (int(number[1]), int(number[2])) < PYSPARK[1]:
        return (
            f"The formats pcap and cbcb need PySpark {_text(PYSPARK[0])} or a later {PYSPARK[0][0]}; "
            f"found {pyspark or 'none'}."
        )
    return None


def require_versions() -> None:
    """Checks the versions of this process.

    Raises:
        VersionError: the formats do not run with one of them.
    """
    sentence = refusal()
    if sentence is not None:
        raise VersionError(sentence)


def refusing_source(name: str, sentence: str) -> Any:
    """A source of Spark that refuses every use by a sentence.

    Spark imports all installed sources when it looks for any: an error at import would hide the others.
    """
    from pyspark.sql.datasource import DataSource

    class Refusing(DataSource):
        def __init__(self, options: dict[str, str]) -> None:
            del options
            raise RuntimeError(sentence)

    Refusing.name = classmethod(lambda _: name)
    return Refusing


def _pyspark() -> str | None:
    """The version of PySpark; None: it is not installed."""
    try:
        from pyspark import __version__
    except ImportError:
        for package in ("pyspark", "pyspark-client"):
            try:
                return version(package)
            except PackageNotFoundError:
                continue
        return None
    return str(__version__)


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
