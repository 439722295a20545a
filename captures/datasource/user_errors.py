"""Errors of users as one line: without the traceback of the Python process in which Spark runs a source."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from captures.datasource.options import OptionError
from captures.pcap.formats import PcapError
from captures.rundir.files import RunFolderError

#: The variable by which Spark's Python processes leave out the traceback of the exception that ends them.
_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """In a Python process of Spark: shows errors about options and files without traceback.

    The process ends with the exception, so the setting applies to that exception alone.
    """
    try:
        yield
    except (OptionError, PcapError, RunFolderError, OSError):
        main = sys.modules["__main__"].__spec__
        if main is not None and main.name.startswith(("pyspark.", "captures.spark.")):
            os.environ[_HIDE_TRACEBACK] = "1"
        raise
