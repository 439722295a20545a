"""URIs of files (`hdfs://`, `s3://`, `file:`), which pyarrow.fs opens; also URIs without the needed escapes.

Hadoop's names `s3a:` and `dbfs:` are those of `s3:` and of files below /dbfs.

`hdfs://` needs Hadoop's native library (libhdfs) on each machine that reads.
"""

from __future__ import annotations

import re
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

#: What pyarrow knows under another name: files of Databricks as its machines see them (`/dbfs/...`).
_ARROW_HEADS = {"dbfs:": "file:///dbfs", "dbfs://": "file:///dbfs"}


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
        OSError, ValueError: pyarrow has no such file system.
    """
    head, path, query = split_uri(uri)
    escaped = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", path)
    head = _ARROW_HEADS.get(head, head)
    if head.startswith("s3a:"):
        head = "s3" + head[3:]
    system, inside = fs.FileSystem.from_uri(head + quote(escaped, safe=_PLAIN) + query)
    return system, inside


def place_of(path: str | Path) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path in it.

    Raises:
        OSError, ValueError: as `locate`.
    """
    return locate(str(path)) if is_uri(str(path)) else (fs.LocalFileSystem(), str(Path(path).resolve()))
