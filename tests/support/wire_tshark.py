"""Frames through tshark with the dissector, as values by field name."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import DISSECTOR_FOLDER

DISSECTOR = DISSECTOR_FOLDER / "cbcb.lua"
STATISTICS = DISSECTOR.with_name("cbcb_statistics.lua")
#: Wall seconds after which a call of tshark has failed.
_TSHARK_S = 300
#: From node 3 to its port 1.
ETHERNET = bytes.fromhex("03000000000102cb0000000388b5")
Row = dict[str, list[str]]
_ALLOW_ROOT = "run_user_scripts_when_superuser = true"
#: How versions from 4.4 on print bits -> how earlier versions do.
_BITS = {"True": "1", "False": "0"}

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def ethernet(source: bytes, destination: bytes, payload: bytes) -> bytes:
    return destination + source + b"\x88\xb5" + payload


def write_capture(path: Path, frames: Iterable[tuple[int, bytes]], snaplen: int = 65_535) -> Path:
    """A pcap of (time in ns, Ethernet frame)."""
    with path.open("wb") as file:
        file.write(struct.pack("!IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snaplen, 1))
        for at_ns, data in frames:
            kept = data[:snaplen]
            file.write(struct.pack("!IIII", *divmod(at_ns, 10**9), len(kept), len(data)) + kept)
    return path


@cache
def for_root() -> tuple[str, ...]:
    """The words before a command of tshark by which it runs a named Lua file (`-X`) for root, too.

    From 4.4 on that takes a line in the global init.lua, which is there in a mount namespace of the command.
    """
    if os.geteuid() != 0 or "cbcb" in _with_dissector("protocols"):
        return ()
    return _over_global_plugins(f'mount -t tmpfs tmpfs "$0" && echo "{_ALLOW_ROOT}" > "$0/init.lua"')


def with_plugins(folder: Path) -> tuple[str, ...]:
    """The words before a command of tshark by which it reads the Lua files of a folder for root, too.

    The folder is the user's own, and from 4.4 on, root's tshark reads the folder for all users alone.
    """
    return for_root() and _over_global_plugins(f'mount --bind {shlex.quote(str(folder))} "$0"')


def _over_global_plugins(mount: str) -> tuple[str, ...]:
    named = subprocess.run(["tshark", "-G", "folders"], capture_output=True, text=True, check=True).stdout
    (plugins,) = re.findall(r"^Global Lua Plugins:\s*(.+)$", named, re.M)
    return ("unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', plugins)


def tshark(capture: Path, *arguments: str) -> str:
    """Returns the output of tshark; fails if standard error has a message about Lua."""
    # With names for addresses, which is Wireshark's default.
    scripts = [f"lua_script:{DISSECTOR}", "-X", f"lua_script:{STATISTICS}"]
    command = [*for_root(), "tshark", "-N", "m", "-X", *scripts]
    done = subprocess.run(
        [*command, "-r", str(capture), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=_TSHARK_S,
    )
    assert "Lua" not in done.stderr, done.stderr
    return done.stdout


def all_fields() -> str:
    """Every field that tshark knows with the dissector, one a line: kind, label, name, type, ..."""
    return _with_dissector("fields", with_plugins(DISSECTOR_FOLDER))


def _with_dissector(glossary: str, before: Sequence[str] = ()) -> str:
    """A glossary as `tshark -G` prints it, where the user's own plugins are the dissector's.

    Version 4.0 takes -G as the first option alone, and 4.2 takes no -X behind it.
    """
    with tempfile.TemporaryDirectory() as config:
        (Path(config) / "plugins").symlink_to(DISSECTOR_FOLDER)
        return subprocess.run(
            [*before, "tshark", "-G", glossary],
            env={**os.environ, "WIRESHARK_CONFIG_DIR": config},
            capture_output=True,
            text=True,
            check=True,
            timeout=_TSHARK_S,
        ).stdout


def rows(capture: Path, columns: Sequence[str], *arguments: str) -> list[Row]:
    """One row a frame: the values of each column that it has, without the prefix `cbcb.`."""
    return rows_of(tshark(capture, *arguments, *as_json(columns)))


def as_json(columns: Sequence[str]) -> list[str]:
    """Arguments for output that `rows_of` reads.

    From 4.4 on, `-T fields` escapes backslashes; JSON means the same in each version.
    """
    return ["-T", "json", *(word for column in columns for word in ("-e", column))]


def rows_of(printed: str) -> list[Row]:
    """One row a frame.

    Names are in lower case, as versions from 4.4 on have those of columns.
    """
    return [
        {
            name.removeprefix("cbcb.").lower(): [_BITS.get(value, value) for value in values]
            for name, values in packet["_source"]["layers"].items()
            if values != [""]
        }
        for packet in json.loads(printed)
    ]
