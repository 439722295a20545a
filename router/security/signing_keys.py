"""The signing keys of a network in a folder: a file for each owner, and one with the public keys of all.

`controller.key` and `<node>.key` have a private key in hex, readable and writable by their owner alone;
`public.keys` has a line for each public key in hex: the controller's, then those of the nodes from 0 on.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from router.privacy.keys import KeyFileError, read_secret, write_secret
from router.privacy.sealing import derived
from router.security.signatures import KEY_BYTES, PublicKeys, Signer, public_key
from router.wire.addresses import CONTROLLER

_PUBLIC = "public.keys"


def make_signing_keys(
    folder: Path, nodes: int, random_bytes: Callable[[int], bytes] = secrets.token_bytes
) -> None:
    """Makes the keys of a controller and of the nodes from 0 on, in a folder that does not exist.

    Args:
        random_bytes: the source of secrets; the operating system's, unless a run must be repeatable.

    Raises:
        OSError: the folder exists, or cannot be written.
    """
    folder.mkdir(mode=0o700)
    public = []
    for owner in (CONTROLLER, *range(nodes)):
        private = random_bytes(KEY_BYTES)
        write_secret(folder / _name(owner), f"{private.hex()}\n".encode())
        public.append(public_key(private).hex())
    (folder / _PUBLIC).write_text("\n".join(public) + "\n")


def read_signer(folder: Path, owner: int) -> Signer:
    """The signer of a node, or of `addresses.CONTROLLER`.

    Raises:
        KeyFileError: the file of its key is missing, is open to others than its owner, or has another form.
    """
    return Signer(owner, _key_of(folder / _name(owner)))


def read_public_keys(folder: Path) -> bytes:
    """The public keys, as `router.security.signatures.PublicKeys` takes them.

    Raises:
        KeyFileError: the file is missing, or has another form.
    """
    path = folder / _PUBLIC
    try:
        return b"".join(map(_key, path.read_text().split()))
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise _no_key_file(path, error) from error


def read_verifier(folder: Path, floor: int) -> PublicKeys:
    """The verifier of signatures with the public keys of a folder.

    Args:
        floor: see `router.protocol.signatures.Verifier`.

    Raises:
        KeyFileError: the file of the public keys is missing, or has another form.
    """
    return PublicKeys(read_public_keys(folder), floor)


def derive_signing_keys(source: Path, folder: Path, nodes: int, identity: str) -> None:
    """Derives the keys of one run for a controller and the nodes from 0 on, in a folder that does not exist.

    Args:
        identity: of the run: keys of different runs differ.

    Raises:
        KeyFileError: a file of the source cannot be used; names it.
        OSError: the folder exists, or cannot be written.
    """
    private = [_key_of(source / _name(owner)) for owner in (CONTROLLER, *range(nodes))]
    public = read_public_keys(source)
    if public[: KEY_BYTES * len(private)] != b"".join(map(public_key, private)):
        raise KeyFileError(f"{source / _PUBLIC}: not the public keys of the private keys beside it")
    keys = (derived(key, f"signing {identity}") for key in private)
    make_signing_keys(folder, nodes, lambda _: next(keys))


def _name(owner: int) -> str:
    return "controller.key" if owner == CONTROLLER else f"{owner}.key"


def _key_of(path: Path) -> bytes:
    try:
        return _key(read_secret(path).decode())
    except ValueError as error:
        raise _no_key_file(path, error) from error


def _key(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key of {len(key)} bytes; expected {KEY_BYTES}")
    return key


def _no_key_file(path: Path, error: ValueError) -> KeyFileError:
    return error if isinstance(error, KeyFileError) else KeyFileError(f"{path}: no key: {error}")
