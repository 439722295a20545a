"""`cbcb keys`: makes and rotates the keys of networks with privacy or authentication."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from router.options import options_of
from router.privacy import EncodingParameters, KeyRing, read_keys, write_keys
from testbed.cli.arguments import add_all, positive
from testbed.experiments.config import PrivacyOptions
from testbed.support.errors import InputError, reading
from testbed.terminal import put

#: The options of [privacy] that are parameters of an encoding, in their order.
_PARAMETERS = ("bits", "hashes", "encoding", "range_low", "range_high")


def keys_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    new = actions.add_parser("new", help="write a file with one new key")
    new.add_argument("file", type=Path)
    add_all(new, (each for each in options_of(PrivacyOptions) if each.key in _PARAMETERS))
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
            with reading(str(path)):
                ring = KeyRing.new(EncodingParameters(*(getattr(arguments, name) for name in _PARAMETERS)))
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
