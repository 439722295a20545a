"""`cbcb keys`: makes and rotates the keys of networks with privacy or authentication."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from router.predicates.encoded.encodings import ENCODINGS
from router.privacy import DEFAULT_PARAMETERS, EncodingParameters, KeyRing, read_keys, write_keys
from testbed.cli.arguments import positive
from testbed.support.errors import InputError, reading
from testbed.terminal import put


def keys_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    new = actions.add_parser("new", help="write a file with one new key")
    new.add_argument("file", type=Path)
    new.add_argument(
        "--bits", type=int, default=DEFAULT_PARAMETERS.bits, help="length of a set (%(default)s)"
    )
    new.add_argument(
        "--hashes", type=int, default=DEFAULT_PARAMETERS.hashes, help="bits set for each string (%(default)s)"
    )
    new.add_argument("--encoding", choices=ENCODINGS, default=DEFAULT_PARAMETERS.encoding)
    new.add_argument("--range-low", type=float, default=DEFAULT_PARAMETERS.range_low, metavar="X")
    new.add_argument("--range-high", type=float, default=DEFAULT_PARAMETERS.range_high, metavar="X")
    issuers = actions.add_parser(
        "issuers", help="make a folder with a signing key for the controller and each node ([security])"
    )
    issuers.add_argument("file", type=Path, metavar="folder")
    issuers.add_argument("--nodes", type=positive, required=True, help="number of nodes", metavar="N")
    rotate = actions.add_parser("rotate", help="do the next of the three steps that replace a key")
    rotate.add_argument("file", type=Path)
    show = actions.add_parser("show", help="print the keys of a file without their secrets")
    show.add_argument("file", type=Path)


def keys_command(arguments: Namespace) -> None:
    """Prints the keys of the file afterwards."""
    path: Path = arguments.file
    try:
        if arguments.action == "issuers":
            from router.security.signatures import make_signing_keys

            make_signing_keys(path, arguments.nodes)
            last = arguments.nodes - 1
            put(f"{path}: private keys of the controller and of nodes 0 to {last}, public keys of all")
            return
        if arguments.action == "new":
            names = ("bits", "hashes", "encoding", "range_low", "range_high")
            with reading(str(path)):
                ring = KeyRing.new(EncodingParameters(**{name: getattr(arguments, name) for name in names}))
            write_keys(path, ring)
        else:
            ring = read_keys(path)
            if arguments.action == "rotate":
                ring = ring.rotated()
                write_keys(path, ring, replacing=True)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    for key in ring.keys:
        sends = ", members send under it" if key.key_id == ring.sending else ""
        chosen = key.parameters
        put(f"key {key.key_id}: {chosen.bits} bits, {chosen.hashes} hashes, {chosen.encoding}{sends}")
    put(f"the next `cbcb keys rotate {path}` {ring.next_step}")
