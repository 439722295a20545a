"""Unix sockets of a machine, relayed to programs on the other machines of a run by mutual TLS 1.3.

`Relay` leads a program on each machine. A connection of two programs carries frames, a length (4 bytes) and
data each: the name of a target, then bytes each way up to an empty frame, as asyncio cannot end TLS one way.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import ssl
import sys
import time
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from router.records.json_file import to_json
from router.system import die_with
from testbed.support.processes import Child
from testbed.terminal import put

#: A target of every relay. It answers 8 bytes by 16: CLOCK_MONOTONIC and CLOCK_REALTIME, in ns, big-endian.
CLOCK, IDENTITY = "clock", "identity.pem"
#: Most bytes of a frame's data and of a line of input; connections that may wait to be accepted; wall seconds
#: in which a connection must reach its target (300 at once took 6 on two busy processors).
_FRAME, _LINE, _BACKLOG, _OPENING_S = 1 << 16, 1 << 26, 1024, 30.0


def make_identity(folder: Path) -> bytes:
    """Makes a key (EC P-256) and a certificate, signed by itself, in a file that only this user may read.

    A file of the last day, which no run has taken, stays. Returns the certificate, in PEM. Raises OSError if
    the file cannot be made.
    """
    path = folder / IDENTITY
    if path.exists() and time.time() - path.stat().st_mtime < 86_400:
        return path.read_bytes().partition(b"-----END PRIVATE KEY-----\n")[2]
    path.unlink(missing_ok=True)
    # The program does without this library, whose import takes longer than the others together.
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key, number, now = generate_private_key(SECP256R1()), x509.random_serial_number(), datetime.now(UTC)
    # OpenSSL finds certificates by name. Clocks of machines may differ by a day, and a run takes a week at
    # most. A certificate of an authority could let further machines in.
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"{number:x}")])
    valid = now - timedelta(days=1), now + timedelta(days=8)
    builder = x509.CertificateBuilder(name, name, key.public_key(), number, *valid)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    certificate: bytes = builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
    with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate)
    return certificate


def contexts(folder: Path, trusted: bytes) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Returns the contexts of servers and of clients that have the identity in a folder.

    The other side may have any address, but needs the key of a certificate of `trusted` (PEM). Raises OSError
    if the folder has no identity, or `trusted` no certificate.
    """
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in server, client:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(folder / IDENTITY)
        context.load_verify_locations(cadata=trusted.decode())
    return server, client


class Relay(Child):
    """The relay of this machine, which ends with the *thread* that made it (PR_SET_PDEATHSIG).

    Args:
        address: IP address at which it listens for the other machines, at a TCP `port` that is free.
        identity, trusted: as of `contexts`.
        errors: file for its log.

    Raises RunError if it cannot listen, or has no identity.
    """

    def __init__(self, address: str, identity: Path, trusted: bytes, errors: Path) -> None:
        super().__init__("the relay", __name__, [address, str(identity)], errors, None)
        self.port = self._order(trusted.decode())

    def add(self, targets: Mapping[str, Path], forwards: Mapping[Path, tuple[str, int, str]]) -> None:
        """Adds targets and forwards; raises RunError if the relay has ended, as when it cannot make a socket.

        Args:
            targets: name -> Unix socket to which the other machines may connect.
            forwards: Unix socket to make, for this user alone -> host and port of a relay, and its target.
        """
        self._order([targets, forwards])

    def _order(self, order: object) -> int:
        """Returns the port, with which the program answers each line."""
        self.write_line(to_json(order).decode())
        assert self.process.stdout is not None
        if not (answer := self.process.stdout.readline()):
            self.process.wait()
            self.check()
        return int(answer)


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


async def _frames(reader: StreamReader) -> AsyncIterator[bytes]:
    while size := int.from_bytes(await reader.readexactly(4), "big"):
        if size > _FRAME:
            raise ConnectionError(f"a frame of {size} bytes")
        yield await reader.readexactly(size)


def _notice_the_end(writer: StreamWriter) -> None:
    """Has the kernel end a connection to a machine that has not answered for ten seconds."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in ("KEEPIDLE", 4), ("KEEPINTVL", 2), ("KEEPCNT", 3), ("USER_TIMEOUT", 10_000):
        connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"), value)


async def _receive(frames: AsyncIterator[bytes], near: StreamWriter) -> None:
    async for data in frames:
        near.write(data)
        await near.drain()
    near.write_eof()


async def _send(near: StreamReader, far: StreamWriter) -> None:
    while data := await near.read(_FRAME):
        far.write(_frame(data))
        await far.drain()
    far.write(_frame(b""))


async def _run(address: str, identity: Path) -> None:
    """Takes the certificates that it trusts from standard input, then targets and forwards, until it ends."""
    lines = StreamReader(_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: StreamReaderProtocol(lines), sys.stdin)
    accepting, connecting = contexts(identity, json.loads(await lines.readline()).encode())
    targets, running = dict[str, str](), set[object]()

    async def relay(to: tuple[str, int, str] | None, reader: StreamReader, writer: StreamWriter) -> None:
        """Relays a connection of this machine `to` a target, or of another machine (None)."""
        near = far = reader, writer
        running.add(task := asyncio.current_task())  # the loop keeps no task alive that waits
        try:
            async with asyncio.timeout(_OPENING_S) as opening:
                if to is not None:
                    far = await asyncio.open_connection(*to[:2], ssl=connecting)
                    _notice_the_end(far[1])
                    far[1].write(_frame(to[2].encode()))
                    frames = _frames(far[0])
                else:
                    _notice_the_end(writer)
                    await writer.start_tls(accepting)
                    frames = _frames(reader)
                    if (name := (await anext(frames, b"")).decode(errors="replace")) == CLOCK:
                        opening.reschedule(None)
                        async for asked in frames:
                            now = time.monotonic_ns().to_bytes(8, "big") + time.time_ns().to_bytes(8, "big")
                            writer.write(_frame(len(asked) // 8 * now))
                        return writer.write(_frame(b""))
                    near = await asyncio.open_unix_connection(targets[name])
            await asyncio.gather(_send(near[0], far[1]), _receive(frames, near[1]))
        except (OSError, EOFError, KeyError) as error:  # KeyError: no such target
            put(f"a connection failed: {error!r}", file=sys.stderr, flush=True)
        finally:
            running.remove(task)
            near[1].close()
            far[1].close()

    server = await asyncio.start_server(partial(relay, None), address, backlog=_BACKLOG)
    put(port := server.sockets[0].getsockname()[1], flush=True)
    while line := await lines.readline():
        added, forwards = json.loads(line)
        targets |= added
        for path, to in forwards.items():
            await asyncio.start_unix_server(partial(relay, to), path, backlog=_BACKLOG)
        put(port, flush=True)


if __name__ == "__main__":
    os.umask(0o177)  # sockets are for this user alone
    resource.setrlimit(resource.RLIMIT_NOFILE, 2 * resource.getrlimit(resource.RLIMIT_NOFILE)[1:])
    die_with(os.getppid())
    asyncio.run(_run(sys.argv[1], Path(sys.argv[2])))
