"""Key rings and their files."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from router.privacy import EncodingParameters, Key, KeyFile, KeyFileError, KeyRing, read_keys, write_keys
from tests.support.cases import cases_beside


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


@pytest.mark.parametrize(("content", "problem"), cases_beside(__file__)["malformed_files"])
def test_a_malformed_file_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match=f"keys.json: no key file: .*{problem}"):
        read_keys(path)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [*cases_beside(__file__)["malformed_keys"], ("range_low", 10**400, "an integer of 401 digits")],
)
def test_a_malformed_key_is_refused(tmp_path: Path, name: str, value: object, problem: str) -> None:
    path = tmp_path / "keys.json"
    write_keys(path, KeyRing.new())
    content = json.loads(path.read_text())
    content["keys"][0][name] = value
    path.write_text(json.dumps(content))
    with pytest.raises(KeyFileError, match=f"keys.json: no key file: .*{problem}"):
        read_keys(path)
    content["keys"] = [5]
    for text, expected in (
        (json.dumps(content), "Expected `object`, got `int`"),
        ("[" * 100_000, "Expected `object`, got `array`"),
    ):
        path.write_text(text)
        with pytest.raises(KeyFileError, match=f"keys.json: no key file: .*{expected}"):
            read_keys(path)


def test_a_file_that_was_replaced_is_read_once(tmp_path: Path) -> None:
    path, ring = tmp_path / "keys.json", KeyRing.new()
    write_keys(path, ring)
    file = KeyFile(path)
    assert file.renewed() is None
    write_keys(path, ring.rotated(), replacing=True)
    renewed = file.renewed()
    assert renewed is not None and renewed.keys[0] == ring.keys[0]
    assert file.renewed() is None
    # Until the file can be used, each look reads it.
    path.chmod(0o644)
    for _ in range(2):
        with pytest.raises(KeyFileError, match="mode 0644"):
            file.renewed()
    path.unlink()
    for _ in range(2):
        with pytest.raises(KeyFileError, match="No such file"):
            file.renewed()


@pytest.mark.root
def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner could read and replace the keys; the user who called sudo may."""
    path = tmp_path / "keys"
    write_keys(path, KeyRing.new())
    os.chown(path, 65534, -1)
    with pytest.raises(KeyFileError, match="belongs to user 65534; chown it to 0, or sudo"):
        read_keys(path)
    monkeypatch.setenv("SUDO_UID", "65534")
    assert read_keys(path).keys


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"none\.json: No such file"):
        read_keys(tmp_path / "none.json")


def test_a_rotation_has_three_steps() -> None:
    rng = random.Random(1)
    ring = KeyRing.new(EncodingParameters(bits=256), rng.randbytes)
    (old,) = ring.keys
    both = ring.rotated(rng.randbytes)
    assert both.keys[0] == old
    new = both.keys[1]
    assert new.parameters == old.parameters
    assert both.sending == old.key_id
    switched = both.rotated()
    assert (switched.keys, switched.sending) == (both.keys, new.key_id)
    assert switched.rotated() == KeyRing((new,), new.key_id)


def test_a_secret_is_not_in_the_representation() -> None:
    key = Key(7, b"s" * 32)
    assert "ssss" not in repr(KeyRing((key,), 7))
