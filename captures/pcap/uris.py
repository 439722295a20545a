"""URIs of files (`s3:`, `gs:`, `abfs:`, `hdfs:`, `file:`), which pyarrow.fs opens, with or without escapes.

Hadoop's name `s3a:` is that of `s3:`. `hdfs:` needs Hadoop's native library (libhdfs) on each machine
that reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from pyarrow import fs

#: Names of files may contain colons, as in a time of day.
_URI = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
#: A `?` that begins no setting is a wildcard, or part of a name.
_PARTS = re.compile(r"([^/]*:(?://[^/?]*)?)(.*?)(\?\w+=[^?]*)?", re.DOTALL)
#: Characters that a path in a URI may contain unescaped (RFC 3986), and `%` of escapes.
_PLAIN = "/%!$&'()*+,;=:@"


class Uri(NamedTuple):
    """A URI: scheme and authority, path as written, settings of the file system (`?region=...`)."""

    head: str
    path: str
    query: str


def is_uri(path: str) -> bool:
    """Whether a path is a URI; otherwise it is a path of this machine."""
    return _URI.match(path) is not None


def split_uri(uri: str) -> Uri:
    """The parts of a URI."""
    parts = _PARTS.fullmatch(uri)
    assert parts is not None
    return Uri(*(part or "" for part in parts.groups()))


def locate(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path in it.

    Characters that should be escaped may be unescaped.

    Raises:
        OSError: pyarrow has no such file system, or the library that it needs is missing.
    """
    head, path, query = split_uri(uri)
    escaped = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", path)
    head = re.sub("^s3a:", "s3:", head)
    try:
        system, inside = fs.FileSystem.from_uri(head + quote(escaped, safe=_PLAIN) + query)
    except (OSError, ValueError) as error:
        raise OSError(
            f"{uri}: {_first_line(error)}; expected file:, s3:, gs:, abfs:, or hdfs: with libhdfs"
        ) from error
    return system, inside


@contextmanager
def errors_of(uri: str) -> Iterator[None]:
    """Errors of a remote file system in the block, as one line that names the URI.

    Raises:
        OSError: as raised in the block.
    """
    try:
        yield
    except OSError as error:
        if type(error) is not OSError:
            raise  # a path that is missing, or no folder
        where = "keys, region and endpoint are those of the environment or of the URI"
        raise OSError(f"{uri}: {_first_line(error)}; {where} (docs/reference/pcap-source.md)") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def place_of(path: str | Path) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path in it.

    Raises:
        OSError: as `locate`.
    """
    return locate(str(path)) if is_uri(str(path)) else (fs.LocalFileSystem(), str(Path(path).resolve()))
