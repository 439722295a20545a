"""The dissector in every Lua, and in locales with a decimal comma."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from router.predicates import Message
from router.wire.frames import FrameType
from tests.support.paths import ROOT
from tests.support.wire_conversation import frame, of_router
from tests.support.wire_tshark import DISSECTOR, STATISTICS, needs_tshark, rows, tshark, write_capture
from tests.vectors.wire_vectors import MALFORMED, WHOLE

pytestmark = needs_tshark

COMMA = "de_DE.UTF-8"
EVERY_LUA = pytest.mark.parametrize("version", ["5.2", "5.3", "5.4"])


@pytest.fixture(scope="module")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a locale that writes 1,5."""
    folder = tmp_path_factory.mktemp("locales")
    if shutil.which("localedef") is None:
        pytest.skip("localedef is not installed (apt-get install locales)")
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / COMMA)]
    if subprocess.run(command, capture_output=True, timeout=60, check=False).returncode != 0:
        pytest.skip("no sources of locales (apt-get install locales)")
    return folder


@pytest.fixture
def decimal_comma(locales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chooses that locale in the environment."""
    monkeypatch.setenv("LOCPATH", str(locales))
    monkeypatch.setenv("LC_ALL", COMMA)


@pytest.mark.usefixtures("decimal_comma")
def test_writes_decimals_with_a_point_in_every_locale(tmp_path: Path) -> None:
    body = Message({"a": 1.5, "b": 0.1, "c": 2.0, "d": 5e-324, "e": -1.25e300})
    data = of_router(1, frame(FrameType.MSG, 1, 1, body))
    capture = write_capture(tmp_path / "doubles.pcap", [(0, data)])
    (row,) = rows(capture, ["cbcb.value"], "-Y", 'cbcb.attribute == "a=1.5"')
    assert row["value"] == ["1.5", "0.1", "2.0", "5e-324", "-1.25e+300"]
    counted = tshark(capture, "-q", "-z", "cbcb,frames").splitlines()[1].split()
    assert counted == ["MSG", "1", "100.00%", str(len(data)), f"{len(data)}.0"]


@EVERY_LUA
@pytest.mark.parametrize("script", [DISSECTOR, STATISTICS], ids=lambda path: path.name)
def test_is_valid_in_every_lua(version: str, script: Path) -> None:
    compiler = shutil.which(f"luac{version}")
    if compiler is None:
        pytest.skip(f"luac{version} is not installed (apt-get install lua{version})")
    subprocess.run([compiler, "-p", str(script)], check=True)


def decodes_the_vectors(version: str, tmp_path: Path, *options: str) -> None:
    """Compares the Info column of each vector in a plain Lua with a stand-in for Wireshark's classes."""
    lua = shutil.which(f"lua{version}")
    if lua is None:
        pytest.skip(f"lua{version} is not installed (apt-get install lua{version})")
    malformed = [vector for vector in MALFORMED if vector.payload]
    listing = tmp_path / "payloads"
    payloads = [vector.payload for vector in WHOLE] + [vector.payload for vector in malformed]
    listing.write_text("".join(payload.hex() + "\n" for payload in payloads))
    stand_in = ROOT / "tests" / "support" / "wire_wireshark.lua"
    command = [lua, *options, str(stand_in), str(DISSECTOR), str(listing)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    infos = done.stdout.decode().splitlines()
    assert infos[: len(WHOLE)] == [vector.info for vector in WHOLE]
    reasons = [info.removeprefix("Undecodable: ").partition(":")[0] for info in infos[len(WHOLE) :]]
    assert reasons == [vector.reason for vector in malformed]


@EVERY_LUA
def test_decodes_the_vectors_in_every_lua(version: str, tmp_path: Path) -> None:
    decodes_the_vectors(version, tmp_path)


@EVERY_LUA
@pytest.mark.usefixtures("decimal_comma")
def test_every_lua_decodes_alike_in_a_locale_with_a_decimal_comma(version: str, tmp_path: Path) -> None:
    decodes_the_vectors(version, tmp_path, "-e", f'assert(os.setlocale("{COMMA}"))')
