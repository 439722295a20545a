"""The image of Dockerfile, where no container engine is at hand: its steps in a root made by debootstrap.

The root has what the base image has (variant `minbase`). `RUN` steps see the host's network, as in
`docker build`. The entry point then runs in namespaces of its own for mounts, processes, network, IPC and
host name, with a /dev of few devices and without systemd, as in `docker run --network none`: with all
capabilities (`--privileged`), or with the engine's default ones and those of `--cap-add`. Needs root and
debootstrap.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.dockerfile import DEFAULT_CAPABILITIES, Image, read_dockerfile
from tests.support.paths import ROOT

#: Base image -> suite and components that debootstrap takes.
SUITES = {"debian:12": ("bookworm", "main"), "ubuntu:24.04": ("noble", "main,universe")}
#: The certificates of the host, and where a build step sees them: outside what its packages own.
_HOST_CERTIFICATES, _CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt", "/run/host-certificates.crt"
#: Name, major and minor number of the devices of a container's /dev.
_DEVICES = (
    *(("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9)),
    *(("tty", 5, 0), ("net/tun", 10, 200)),
)


def configure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="./run.sh bench container", description=__doc__)
    parser.add_argument("--base", choices=SUITES, default="debian:12")
    parser.add_argument("--root", type=Path, required=True, help="folder of the root, made if it is absent")
    parser.add_argument("--mirror", help="where debootstrap finds the packages (its own default)")
    parser.add_argument("--keyring", type=Path, help="keys of the mirror's signatures (the host's)")
    parser.add_argument("--cap-add", action="append", default=[], metavar="CAP", help="without --privileged")
    parser.add_argument(
        "--systempaths-unconfined", action="store_true", help="without --privileged: /proc/sys can be written"
    )
    parser.add_argument("command", nargs="*", default=[], help="what the entry point runs (the default)")
    return vars(parser.parse_args(options))


def main(
    base: str = "debian:12",
    root: Path | None = None,
    mirror: str | None = None,
    keyring: Path | None = None,
    cap_add: list[str] | None = None,
    systempaths_unconfined: bool = False,
    command: list[str] | None = None,
) -> None:
    if root is None:
        print("skipped: --root FOLDER names where to make the root")
        return
    image = read_dockerfile((ROOT / "Dockerfile").read_text(), BASE=base)
    root = root.resolve()
    if not (root / "etc/debian_version").exists():
        _timed("debootstrap", lambda: _bootstrap(base, root, mirror, keyring))
    built = root / ".built"
    steps = "\n".join(f"{word} {rest}" for word, rest in image.steps)
    if not built.exists() or built.read_text() != steps:
        _timed("build", lambda: _build(image, root))
        built.write_text(steps)
    else:
        _copy(root, image.folder)
    started = time.monotonic()
    status = _run(image, root, cap_add or [], systempaths_unconfined, command or [])
    print(f"{base}, entry point: exit status {status} after {time.monotonic() - started:.0f} s")
    if status:
        sys.exit(status)


def _timed(what: str, work: Any) -> None:
    started = time.monotonic()
    work()
    print(f"{what}: {time.monotonic() - started:.0f} s", flush=True)


def _bootstrap(base: str, root: Path, mirror: str | None, keyring: Path | None) -> None:
    suite, components = SUITES[base]
    script = Path("/usr/share/debootstrap/scripts")
    argv = ["debootstrap", "--variant=minbase", f"--components={components}"]
    if keyring is not None:
        argv.append(f"--keyring={keyring}")
    argv += [suite, str(root)]
    if mirror is not None:
        argv.append(mirror)
    if not (script / suite).exists():
        # A suite newer than the host's debootstrap: all of Ubuntu's are made by one script.
        argv += [str(script / "gutsy")] if mirror is not None else []
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def _copy(root: Path, folder: str) -> None:
    """Copies what git knows of the repository, as `COPY . .` does with .dockerignore."""
    names = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
    ).stdout
    target = root / folder.lstrip("/")
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["tar", "-C", str(ROOT), "--null", "-T", "-", "-cf", str(root / ".copy.tar")],
        input=names,
        check=True,
    )
    subprocess.run(["tar", "-C", str(target), "-xf", str(root / ".copy.tar"), "--no-same-owner"], check=True)
    (root / ".copy.tar").unlink()


def _build(image: Image, root: Path) -> None:
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    folder, variables = "/", dict[str, str]()
    for word, rest in image.steps:
        match word:
            case "WORKDIR":
                folder = rest
                (root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "COPY":
                _copy(root, folder)
            case "ENV":
                name, _, value = rest.partition("=")
                variables[name] = value
            case "RUN":
                subprocess.run(
                    _inside(root, folder, rest, network=True),
                    env=_environment(variables, build=True),
                    check=True,
                )


def _run(image: Image, root: Path, capabilities: list[str], writable: bool, command: list[str]) -> int:
    text = shlex.join([*image.entry_point, *command])
    if capabilities:
        kept = ",".join(f"+{name}" for name in [*DEFAULT_CAPABILITIES, *(c.lower() for c in capabilities)])
        text = f"setpriv --bounding-set=-all,{kept} --inh-caps=-all {text}"
    argv = _inside(root, image.folder, text, network=False, writable=writable or not capabilities)
    return subprocess.run(argv, env=_environment({}, build=False), check=False).returncode


def _environment(variables: dict[str, str], build: bool) -> dict[str, str]:
    passed = {}
    if build:
        passed = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        passed["PIP_CERT"] = _CERTIFICATES
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8", **passed, **variables}


def _inside(root: Path, folder: str, text: str, network: bool, writable: bool = True) -> list[str]:
    """The command that runs a text of the shell in the root, as an engine would."""
    at = shlex.quote(str(root))
    mounts = [
        f"mount --bind {at} {at}",
        f"cd {at}",
        "mount -t proc proc proc",
        "mount -t sysfs sysfs sys",
        "mount -t tmpfs -o mode=755 tmpfs dev",
        "mkdir dev/net dev/shm dev/pts",
        *(f"mknod -m 666 dev/{name} c {major} {minor}" for name, major, minor in _DEVICES),
        "mount -t tmpfs -o size=64m tmpfs dev/shm",
        "mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts",
        "ln -s pts/ptmx dev/ptmx",
        "ln -s /proc/self/fd dev/fd",
        *(f"ln -s /proc/self/fd/{n} dev/{name}" for n, name in enumerate(("stdin", "stdout", "stderr"))),
    ]
    if network:
        # A step sees the certificates that the host trusts, where a proxy has its own.
        mounts += [f"touch .{_CERTIFICATES}", f"mount --bind {_HOST_CERTIFICATES} .{_CERTIFICATES}"]
    else:
        mounts.append("ip link set lo up")
    if not writable:
        mounts += [
            "mount -o remount,ro sys",
            "mount --bind proc/sys proc/sys",
            "mount -o remount,ro,bind proc/sys",
        ]
    text = f"cd {folder} && exec {text}" if not network else f"cd {folder} && {text}"
    script = " && ".join([*mounts, f"exec chroot {at} /bin/sh -c {shlex.quote(text)}"])
    spaces = ["--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts"]
    return ["unshare", *spaces, *(() if network else ("--net",)), "/bin/sh", "-c", script]
