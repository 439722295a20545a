"""Distributions set up from nothing: debootstrap, `./run.sh setup`, the default experiment, the unit tests.

The steps run in namespaces of their own for mounts, processes, IPC and host name, and on the kernel of this
machine. The experiment has a network namespace of its own, with nothing but loopback. Needs root and
debootstrap; the time of a set-up is mostly that of downloads.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.support.paths import ROOT

#: Distribution -> suite and components that debootstrap takes.
SUITES = {
    "debian:12": ("bookworm", "main"),
    "debian:13": ("trixie", "main"),
    "ubuntu:24.04": ("noble", "main,universe"),
    "ubuntu:26.04": ("resolute", "main,universe"),
}
_FOLDER = "/opt/cbcb-testbed"
#: All suites of Ubuntu are made by one script, also those that this machine's debootstrap does not name.
_SCRIPTS, _SCRIPT_OF_UBUNTU = Path("/usr/share/debootstrap/scripts"), "gutsy"
#: The certificates that this machine trusts, and where a set-up sees them.
_HOST_CERTIFICATES, _CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt", "/run/host-certificates.crt"
_VERSIONS = (
    "/usr/bin/python3 -V; ovs-vswitchd --version | sed 's/.* /Open vSwitch /; q';"
    " java -version 2>&1 | sed -n 's/.*version \"\\(.*\\)\".*/Java \\1/p'"
)
#: Name, major and minor number of the devices that a run opens.
_DEVICES = (
    *(("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9)),
    *(("tty", 5, 0), ("net/tun", 10, 200)),
)


def main(
    distribution: str = "debian:12",
    root: str = "",
    mirror: str = "",
    keyring: str = "",
    experiment: str = "default",
    tests: str = "tests/unit",
) -> None:
    """Prints a row: versions, and seconds and result of each step.

    Args:
        distribution: a key of `SUITES`.
        root: folder of the root, made if it is absent, and kept; "" skips the benchmark.
        mirror: where debootstrap finds the packages ("": its own default).
        keyring: file with the keys of the mirror's signatures ("": debootstrap's own).
        experiment: the experiment to run ("": none).
        tests: the tests to run ("": none).
    """
    if not root:
        print(f"skipped: --root FOLDER names where to make a root of {', '.join(SUITES)}")
        return
    place = Path(root).resolve()
    if ROOT.is_relative_to(place):
        sys.exit(f"bench: --root {root}: it holds this checkout; expected a folder of its own")
    if not (place / "etc/debian_version").exists():
        _timed("debootstrap", _debootstrap(distribution, place, mirror, keyring))
    (place / "etc/resolv.conf").write_bytes(Path("/etc/resolv.conf").read_bytes())
    _copy_checkout(place)
    steps = [("setup", "./run.sh setup", True), ("versions", _VERSIONS, True)]
    if experiment:
        steps.append(("experiment", f"./run.sh run {shlex.quote(experiment)}", False))
    if tests:
        quiet = "-q -p no:cacheprovider --no-header -n auto --dist loadfile"
        steps.append(("tests", f".venv/bin/python -m pytest {quiet} {shlex.quote(tests)}", False))
    for name, text, network in steps:
        _timed(name, _inside(place, text, network), network)


def _timed(name: str, argv: list[str], network: bool = True) -> None:
    started = time.monotonic()
    done = subprocess.run(
        argv, env=_environment(network), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    print(f"{name}: status {done.returncode}, {time.monotonic() - started:.0f} s", flush=True)
    for line in lines if done.returncode else lines[-12:]:
        print(f"  {re.sub(chr(27) + r'[^m]*m', '', line)}", flush=True)
    if done.returncode and name != "tests":
        sys.exit(1)


def _debootstrap(distribution: str, root: Path, mirror: str, keyring: str) -> list[str]:
    suite, components = SUITES[distribution]
    options = [f"--components={components}", *([f"--keyring={keyring}"] if keyring else [])]
    script = [] if (_SCRIPTS / suite).exists() or not mirror else [str(_SCRIPTS / _SCRIPT_OF_UBUNTU)]
    source = [mirror, *script] if mirror else []
    return ["debootstrap", "--variant=minbase", *options, suite, str(root), *source]


def _copy_checkout(root: Path) -> None:
    """Copies what a clone of this checkout has, changes included."""
    target = root / _FOLDER.removeprefix("/")
    target.mkdir(parents=True, exist_ok=True)
    for name in ("captures", "router", "testbed", "tests", "topos"):
        # A file of an earlier copy may be gone.
        shutil.rmtree(target / name, ignore_errors=True)
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout
    pack = ["tar", "-C", str(ROOT), "--null", "-T", "-", "--ignore-failed-read", "-cf", "-"]
    packed = subprocess.run(pack, input=names, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-C", str(target), "--no-same-owner", "-xf", "-"], input=packed, check=True)


def _environment(network: bool) -> dict[str, str]:
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    # Settings that say where packages come from, but for folders of this machine.
    passed = {name: value for name, value in os.environ.items() if name.startswith("PIP_")} if network else {}
    passed.pop("PIP_FIND_LINKS", None)
    certificates = {"PIP_CERT": _CERTIFICATES} if network else {}
    return {**passed, **certificates, "PATH": path, "HOME": "/root", "LANG": "C.UTF-8"}


def _inside(root: Path, text: str, network: bool) -> list[str]:
    """The command that runs a text of the shell in the checkout of the root."""
    at = shlex.quote(str(root))
    steps = [
        f"mount --bind {at} {at}",
        f"cd {at}",
        "mount -t proc proc proc",
        "mount -t sysfs sysfs sys",
        "mount -t tmpfs -o mode=755 tmpfs dev",
        "mkdir dev/net dev/shm dev/pts",
        *(f"mknod -m 666 dev/{name} c {major} {minor}" for name, major, minor in _DEVICES),
        "mount -t tmpfs tmpfs dev/shm",
        "mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts",
        "ln -s pts/ptmx dev/ptmx",
        "ln -s /proc/self/fd dev/fd",
        *(
            f"ln -s /proc/self/fd/{number} dev/{name}"
            for number, name in enumerate(("stdin", "stdout", "stderr"))
        ),
        f"touch .{_CERTIFICATES} && mount --bind {_HOST_CERTIFICATES} .{_CERTIFICATES}"
        if network
        else "ip link set lo up",
        f"exec chroot {at} /bin/sh -c {shlex.quote(f'cd {_FOLDER} && {text}')}",
    ]
    spaces = ["--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", *([] if network else ["--net"])]
    return ["unshare", *spaces, "/bin/sh", "-c", " && ".join(steps)]
