"""Private matching at the client: key rings and their files.

A key comes with all parameters of its encoding, so that everybody who has the key encodes alike. A ring holds
the keys that a member uses: messages are sent under one of them, predicates are advertised under all. A key
is replaced by three steps of `rotated` ("Keys" in docs/explanation/privacy.md).
The file is JSON, readable and writable by its owner alone.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Final, Literal

import msgspec

from router.predicates.encoded import Suite, encodings
from router.records.forms import parse
from router.records.json_file import to_json

#: Bytes of a secret.
SECRET_BYTES = 32
DEFAULT_BITS, DEFAULT_HASHES = 512, 8
_FILE_MODE = 0o600
_FORMAT: Final = "cbcb-keys-1"


class KeyFileError(ValueError):
    """A key file that cannot be used; the message names the file and what was expected."""


@dataclass(frozen=True)
class EncodingParameters:
    """The parameters by which all members encode, beside the secret.

    Attributes:
        bits: m, the length of a set in bits.
        hashes: k, the bits set for each string.
        encoding: name of the encoding.
        range_low, range_high, levels, affix: of the encoding `ranges`.

    Raises:
        ValueError: a value is out of range.
    """

    bits: int = DEFAULT_BITS
    hashes: int = DEFAULT_HASHES
    encoding: str = encodings.DEFAULT_ENCODING
    range_low: float = encodings.RANGE_LOW
    range_high: float = encodings.RANGE_HIGH
    levels: int = encodings.LEVELS
    affix: int = encodings.AFFIX_MAX

    def __post_init__(self) -> None:
        self.suite(1)
        self.make_encoding()

    def suite(self, key_id: int) -> Suite:
        """The suite of frames under a key with these parameters."""
        return Suite(key_id, self.bits, self.hashes, encodings.ENCODINGS[self.encoding].number)

    def make_encoding(self) -> encodings.Encoding:
        made = encodings.ENCODINGS[self.encoding]
        if issubclass(made, encodings.Ranges):
            return made(self.range_low, self.range_high, self.levels, self.affix)
        return made()


DEFAULT_PARAMETERS = EncodingParameters()


@dataclass(frozen=True)
class Key:
    """A key.

    Attributes:
        key_id: its number in frames, 1 to 2^32 - 1.
        secret: 32 bytes.
        parameters: of the encoding.

    Raises:
        ValueError: the number or the length of the secret is out of range.
    """

    key_id: int
    secret: bytes
    parameters: EncodingParameters = DEFAULT_PARAMETERS

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET_BYTES:
            raise ValueError(f"secret of {len(self.secret)} bytes; expected {SECRET_BYTES}")
        self.parameters.suite(self.key_id)

    def __repr__(self) -> str:
        """Without the secret: representations end up in logs."""
        return f"Key({self.key_id}, ..., {self.parameters})"


@dataclass(frozen=True)
class KeyRing:
    """The keys of a member.

    Attributes:
        keys: one or two, of different numbers.
        sending: the number of the key of messages.

    Raises:
        ValueError: no key, too many, a number twice, or none with the number `sending`.
    """

    keys: tuple[Key, ...]
    sending: int

    def __post_init__(self) -> None:
        numbers = [key.key_id for key in self.keys]
        if not 1 <= len(numbers) <= 2 or len(set(numbers)) != len(numbers):
            raise ValueError(f"keys {numbers}; expected one or two with different numbers")
        if self.sending not in numbers:
            raise ValueError(f"sending under key {self.sending}, which is none of {numbers}")

    @classmethod
    def new(
        cls,
        parameters: EncodingParameters = DEFAULT_PARAMETERS,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> KeyRing:
        """A ring of one new key.

        Args:
            random_bytes: the source of secrets; the operating system's, unless a run must be repeatable.
        """
        key = _new_key(parameters, random_bytes, ())
        return cls((key,), key.key_id)

    def rotated(self, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> KeyRing:
        """The ring after the next step of a rotation; a new key has the parameters of the present key."""
        if len(self.keys) == 1:
            (old,) = self.keys
            added = _new_key(old.parameters, random_bytes, (old.key_id,))
            return KeyRing((old, added), old.key_id)
        old, new = self.keys
        if self.sending == old.key_id:
            return replace(self, sending=new.key_id)
        return KeyRing((new,), new.key_id)

    @property
    def next_step(self) -> str:
        """The effect of the next step of a rotation, and the condition for it."""
        if len(self.keys) == 1:
            return "adds a new key, under which members also receive"
        old, new = self.keys
        if self.sending == old.key_id:
            return f"makes members send under key {new.key_id}: when all members have this file"
        return f"removes key {old.key_id}: when all members have this file, and no older message is under way"


@dataclass(frozen=True, kw_only=True)
class _Entry(EncodingParameters):
    """A key in a file: the secret is in hex."""

    key_id: int
    secret: str


@dataclass(frozen=True)
class _File:
    """A key file."""

    format: Literal["cbcb-keys-1"]
    sending: int
    keys: list[_Entry]


def _new_key(
    parameters: EncodingParameters, random_bytes: Callable[[int], bytes], taken: tuple[int, ...]
) -> Key:
    while True:
        key_id = int.from_bytes(random_bytes(4), "big")
        if key_id and key_id not in taken:
            return Key(key_id, random_bytes(SECRET_BYTES), parameters)


def write_keys(path: Path, ring: KeyRing, replacing: bool = False) -> None:
    """Writes a key file, which its owner alone may read.

    Args:
        replacing: whether the file may exist; it is replaced as a whole.

    Raises:
        FileExistsError: the file exists, and is not to be replaced.
        OSError: it cannot be written.
    """
    keys = [_Entry(key_id=key.key_id, secret=key.secret.hex(), **asdict(key.parameters)) for key in ring.keys]
    content = to_json(_File(_FORMAT, ring.sending, keys))
    write_secret(path, msgspec.json.format(content, indent=2) + b"\n", replacing)


def write_secret(path: Path, data: bytes, replacing: bool = False) -> None:
    """Writes a file that its owner alone may read, as `write_keys`."""
    target = path.with_name(f".{path.name}.{os.getpid()}") if replacing else path
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replacing:
            target.replace(path)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def read_keys(path: Path) -> KeyRing:
    """Reads a key file.

    Raises:
        KeyFileError: the file is missing, is open to others than its owner, or has another form.
    """
    data = read_secret(path)
    try:
        return _ring(parse(_File, data))
    except ValueError as error:
        raise KeyFileError(f"{path}: no key file: {error}") from error


def holds_keys(path: Path) -> bool:
    """Whether a file is a key file, or one that a killed `write_keys` left, or a private key in hex."""
    with path.open("rb") as file:
        begin = file.read(4096)
    return _FORMAT.encode() in begin or re.fullmatch(rb"\s*[0-9a-fA-F]{64}\s*", begin) is not None


def read_secret(path: Path) -> bytes:
    """The content of a file of secrets.

    Raises:
        KeyFileError: the file is missing, belongs to another user than this one, the one who called sudo and
            root, or is open to others than its owner.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            mode = found.st_mode
            if str(found.st_uid) not in ("0", str(os.geteuid()), os.environ.get("SUDO_UID")):
                raise KeyFileError(
                    f"{path}: belongs to user {found.st_uid}; chown it to {os.geteuid()}, or sudo"
                )
            if not stat.S_ISREG(mode):
                raise KeyFileError(f"{path}: expected a regular file")
            if stat.S_IMODE(mode) & 0o077:
                raise KeyFileError(
                    f"{path}: mode {stat.S_IMODE(mode):04o} lets others than its owner use the key; "
                    f"expected {_FILE_MODE:04o}"
                )
            return file.read()
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}") from error


class KeyFile:
    """A key file that may be replaced while its keys are in use.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = _state(path)

    def renewed(self) -> KeyRing | None:
        """Returns the keys of the file if it was replaced since the last look; None: it was not.

        Raises:
            KeyFileError: the new file cannot be used; the next call reads it once more.
        """
        state = _state(self.path)
        if state == self._read:
            return None
        ring = read_keys(self.path)
        self._read = state
        return ring


def _state(path: Path) -> tuple[int, ...] | None:
    """Returns numbers that change when a file is replaced or its mode is; None: there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mode, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _ring(file: _File) -> KeyRing:
    keys = []
    for each in file.keys:
        parameters = {one.name: getattr(each, one.name) for one in fields(EncodingParameters)}
        keys.append(Key(each.key_id, bytes.fromhex(each.secret), EncodingParameters(**parameters)))
    return KeyRing(tuple(keys), file.sending)
