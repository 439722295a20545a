"""`cbcb doctor` in a container: each thing that the engine withholds, with the option that gives it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields

import pytest
import yaml

from testbed.machine.checks import FEATURES, check_machine
from testbed.machine.probes import KernelFeatures, kernel_features
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: privileges are taken away")

#: What Docker and Podman leave a container's root without options.
_DEFAULT_CAPABILITIES = (
    *("chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "net_raw"),
    *("setfcap", "setgid", "setpcap", "setuid", "sys_chroot"),
)
_CHECK = """
import json
from testbed.machine.checks import check_machine
print(json.dumps({c.name: (c.detail, c.mend) for c in check_machine() if c.required and not c.ok}))
"""


def _missing(*wrapper: str, check: str = _CHECK) -> dict[str, list[str]]:
    argv = [*wrapper, sys.executable, "-c", check]
    text = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = json.loads(text)
    return found


def test_the_capabilities_that_root_lacks_are_named_with_the_options_that_add_them() -> None:
    kept = ",".join(f"+{name}" for name in _DEFAULT_CAPABILITIES)
    found = _missing("setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all")
    assert found == {
        "rights": [
            "root without CAP_NET_ADMIN, CAP_SYS_ADMIN",
            "start the container with --cap-add NET_ADMIN --cap-add SYS_ADMIN (docs/how-to/containers.md)",
        ]
    }


def test_an_error_names_the_command_that_makes_a_user_root() -> None:
    # As `_rights` sees it: the checkout may lie where only root can read.
    found = _missing("setpriv", "--euid=65534", "--ruid=0", "--inh-caps=-all", "--reset-env")
    assert found["rights"] == ["user id 65534, not root", "run it as root: `sudo ./run.sh`"]


def test_settings_and_devices_that_the_engine_hides_have_a_check_each() -> None:
    hide = (
        "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys"
        ' && mount -t tmpfs tmpfs /dev/net && exec "$0" "$@"'
    )
    found = _missing("unshare", "--mount", "sh", "-c", hide)
    assert {name: detail for name, (detail, _) in found.items()} == {
        "kernel settings (/proc/sys)": "/proc/sys/net/ipv4/ip_forward is read-only",
        "devices of switches (/dev/net/tun)": "/dev/net/tun: No such file or directory",
    }


def test_without_namespaces_nothing_is_said_of_the_kernel() -> None:
    """A limit of a user namespace of the test: that of the machine holds for all who run on it."""
    own = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*own, "true"], capture_output=True).returncode:
        pytest.skip("user namespaces cannot be made here")
    limit = 'echo 0 >/proc/sys/user/max_net_namespaces && exec "$0" "$@"'
    everything = _CHECK.replace(" if c.required and not c.ok", " if not c.ok")
    found = _missing(*own, "sh", "-c", limit, check=everything)
    detail, mend = found["network namespaces"]
    assert detail == "unshare: unshare failed: No space left on device"
    assert "user.max_net_namespaces" in mend
    kernel = {name: rest for name, rest in found.items() if "(" in name and "/" not in name}
    not_known = ["not known: network namespaces cannot be made", "see `network namespaces`"]
    assert kernel == {
        "delay, loss (netem)": not_known,
        "bandwidth (tbf)": not_known,
        "loss without netem (nftables egress)": not_known,
        "duplicates without netem (nftables dup)": not_known,
    }


def test_every_feature_of_the_kernel_has_a_row() -> None:
    rows = {check.name: check for check in check_machine()}
    for name, (feature, _) in FEATURES.items():
        assert rows[name].ok is getattr(kernel_features(), feature)
    assert {feature for feature, _ in FEATURES.values()} == {each.name for each in fields(KernelFeatures)}


def _docker(text: str) -> list[list[str]]:
    """The commands of docker in a text, lines that end in a backslash joined."""
    lines = map(str.strip, text.replace("\\\n", " ").splitlines())
    return [shlex.split(line, comments=True) for line in lines if line.startswith("docker ")]


def test_compose_file_and_workflow_say_what_the_page_says() -> None:
    page = (ROOT / "docs/how-to/containers.md").read_text()
    (folder,) = re.findall(r"^WORKDIR (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    mount = f"{folder}/captures/runs"
    assert f"`{mount}`" in page
    build = ["docker", "build", "--tag", "cbcb-testbed", "."]
    run = ["docker", "run", "--rm", "--init", "--privileged"]
    ring5 = ["cbcb-testbed", "run", "ring5"]
    compose = ["docker", "compose", "run", "--rm", "testbed", "run", "ring5"]
    assert _docker(page)[:4] == [build, [*run, "cbcb-testbed"], [*run, *ring5], compose]
    service = {"build": ".", "image": "cbcb-testbed", "privileged": True, "init": True}
    assert yaml.safe_load((ROOT / "compose.yaml").read_text()) == {
        "services": {"testbed": {**service, "volumes": [f"./captures/runs:{mount}"]}}
    }
    workflow = yaml.safe_load((ROOT / "examples/ci/github-actions.yml").read_text())
    steps = workflow["jobs"]["emulation"]["steps"]
    scripts = "\n".join(step["run"] for step in steps if "run" in step)
    assert _docker(scripts) == [build, [*run, "--volume", f"$PWD/captures/runs:{mount}", *ring5]]
    assert [step["with"]["path"] for step in steps if "with" in step] == ["captures/runs"]
