"""URIs of files (`hdfs://`, `s3://`, `file:`), which go through pyarrow.fs; also those not quite well formed.

`hdfs://` needs Hadoop's native library (libhdfs) on each machine that reads.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

from pyarrow import fs

#: A file's name may hold a colon, such as one with a time of day.
_URI = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
#: What begins with `?` and is no setting is a wildcard, or part of a name.
_PARTS = re.compile(r"([^/]*:(?://[^/?]*)?)(.*?)(\?\w+=[^?]*)?", re.DOTALL)
#: What a path in a URI may hold as it is (RFC 3986), and what is escaped already.
_PLAIN = "/%!$&'()*+,;=:@"


class Uri(NamedTuple):
    """A URI in parts: scheme and authority, path as written, settings of the file system (`?region=...`)."""

    head: str
    path: str
    query: str


def is_uri(path: str) -> bool:
    """Whether it is a URI; else it is a path of this machine."""
    return _URI.match(path) is not None


def split_uri(uri: str) -> Uri:
    """The parts of a URI."""
    parts = _PARTS.fullmatch(uri)
    assert parts is not None
    return Uri(*(part or "" for part in parts.groups()))


def locate(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path in it. Characters that should be escaped need not be.

    Raises:
        OSError, ValueError: there is no such file system.
    """
    head, path, query = split_uri(uri)
    escaped = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", path)
    system, inside = fs.FileSystem.from_uri(head + quote(escaped, safe=_PLAIN) + query)
    return system, inside
