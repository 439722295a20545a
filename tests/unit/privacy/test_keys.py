"""Key rings and their files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from router.privacy.keys import (
    EncodingParameters,
    Key,
    KeyFileError,
    KeyRing,
    read_keys,
    write_keys,
)


def test_a_file_holds_the_ring(tmp_path: Path) -> None:
    ring = KeyRing.new(EncodingParameters(bits=192, hashes=10, encoding="ranges", range_high=5.0)).rotated()
    path = tmp_path / "keys.json"
    write_keys(path, ring)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_keys(path) == ring
    with pytest.raises(FileExistsError):
        write_keys(path, ring)
    write_keys(path, ring.rotated(), replacing=True)
    assert read_keys(path) == ring.rotated()
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "keys.json"
    write_keys(path, KeyRing.new())
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"keys.json: mode {mode:04o} .*expected 0600"):
        read_keys(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "Expecting value"),
        ("{}", "'format' is missing"),
        ('{"format": "other"}', "expected 'cbcb-keys-1'"),
        ('{"format": "cbcb-keys-1", "keys": [], "sending": 1}', "expected one or two"),
        ('{"format": "cbcb-keys-1", "keys": [{"key_id": 1}], "sending": 1}', "'secret' is missing"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match=f"keys.json: no key file: .*{problem}"):
        read_keys(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"none\.json: No such file"):
        read_keys(tmp_path / "none.json")


def test_a_rotation_has_three_steps() -> None:
    rng = random.Random(1)
    ring = KeyRing.new(random_bytes=rng.randbytes)
    (old,) = ring.keys
    both = ring.rotated(EncodingParameters(bits=256), rng.randbytes)
    assert both.keys[0] == old
    new = both.keys[1]
    assert new.parameters.bits == 256
    assert both.sending == old.key_id
    switched = both.rotated()
    assert (switched.keys, switched.sending) == (both.keys, new.key_id)
    assert switched.rotated() == KeyRing((new,), new.key_id)
    with pytest.raises(ValueError, match="adds none"):
        both.rotated(EncodingParameters())


def test_a_secret_is_not_in_the_representation() -> None:
    key = Key(7, b"s" * 32)
    assert "ssss" not in repr(KeyRing((key,), 7))
