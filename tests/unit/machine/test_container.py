"""`cbcb doctor` in a container: each thing that the engine withholds, with the option that gives it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.dockerfile import DEFAULT_CAPABILITIES, read_dockerfile
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: privileges are taken away")

_CHECK = """
import json
from testbed.machine.checks import check_machine
print(json.dumps({c.name: (c.detail, c.mend) for c in check_machine() if c.required and not c.ok}))
"""


def _missing(*wrapper: str) -> dict[str, list[str]]:
    argv = [*wrapper, sys.executable, "-c", _CHECK]
    text = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = json.loads(text)
    return found


def test_the_capabilities_that_root_lacks_are_named_with_the_options_that_add_them() -> None:
    kept = ",".join(f"+{name}" for name in DEFAULT_CAPABILITIES)
    found = _missing("setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all")
    assert found == {
        "rights": [
            "root without CAP_NET_ADMIN, CAP_SYS_ADMIN",
            "start the container with --cap-add NET_ADMIN --cap-add SYS_ADMIN (docs/containers.md)",
        ]
    }


def test_a_user_is_told_to_become_root() -> None:
    # As `_rights` sees it: the checkout may lie where only root can read.
    found = _missing("setpriv", "--euid=65534", "--ruid=0", "--inh-caps=-all", "--reset-env")
    assert found["rights"] == ["user id 65534, not root", "run it as root: `sudo ./run.sh`"]


def test_settings_and_devices_that_the_engine_hides_are_told_apart() -> None:
    hide = (
        "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys"
        ' && mount -t tmpfs tmpfs /dev/net && exec "$0" "$@"'
    )
    found = _missing("unshare", "--mount", "sh", "-c", hide)
    assert {name: detail for name, (detail, _) in found.items()} == {
        "kernel settings (/proc/sys)": "/proc/sys/net/ipv4/ip_forward is read-only",
        "devices of switches (/dev/net/tun)": "/dev/net/tun: No such file or directory",
    }


def test_the_recipe_in_use_where_there_is_no_engine_reads_the_dockerfile() -> None:
    image = read_dockerfile((ROOT / "Dockerfile").read_text(), BASE="ubuntu:24.04")
    assert (image.base, image.folder, image.entry_point) == (
        "ubuntu:24.04",
        "/opt/cbcb-testbed",
        ["./run.sh"],
    )
    assert [word for word, _ in image.steps] == ["WORKDIR", "COPY", "RUN"]
