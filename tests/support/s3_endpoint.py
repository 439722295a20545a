"""An endpoint of Amazon's protocol S3 on loopback, for reading: HEAD, GET with a range, ListObjectsV2."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@contextmanager
def s3_endpoint(objects: Mapping[str, bytes], requests: list[str]) -> Iterator[str]:
    """Serves objects (`bucket/key` -> content); the address as `127.0.0.1:PORT`.

    Adds method and path of each request to `requests`.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(send=False)

        def do_GET(self) -> None:
            self._answer(send=True)

        def _answer(self, *, send: bool) -> None:
            requests.append(f"{self.command} {self.path}")
            url = urlsplit(self.path)
            name, given = unquote(url.path).strip("/"), parse_qs(url.query)
            status, headers, body = 200, {"Last-Modified": formatdate(1e9, usegmt=True)}, b""
            if "list-type" in given:
                body = _listing(name, given, objects)
            elif name in objects:
                body = objects[name]
                span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                if span is not None:
                    first, last = int(span[1]), min(int(span[2]), len(body) - 1)
                    status, headers["Content-Range"] = 206, f"bytes {first}-{last}/{len(body)}"
                    body = body[first : last + 1]
            elif not any(each.startswith(f"{name}/") and "/" not in name for each in objects):
                status = 404
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if send:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _listing(bucket: str, given: dict[str, list[str]], objects: Mapping[str, bytes]) -> bytes:
    """The objects of a bucket below a prefix, and the folders that the delimiter makes of the others."""
    prefix, delimiter = given.get("prefix", [""])[0], given.get("delimiter", [""])[0]
    rows, folders = [], set()
    for name, content in sorted(objects.items()):
        key = name.removeprefix(f"{bucket}/")
        if key == name or not key.startswith(prefix):
            continue
        inside, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        if found:
            folders.add(prefix + inside + delimiter)
        else:
            rows.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size>"
                "<LastModified>2001-09-09T01:46:40.000Z</LastModified></Contents>"
            )
    rows += [f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders)]
    return (
        f"<?xml version='1.0'?><ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
        f"<KeyCount>{len(rows)}</KeyCount><IsTruncated>false</IsTruncated>{''.join(rows)}</ListBucketResult>"
    ).encode()
