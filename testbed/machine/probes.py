"""Questions to the machine, answered by trying.

A qdisc is added in a network namespace that exists for that long.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from router.system import start_module
from topos import Topology

#: Capability -> its number in <linux/capability.h>.
_CAPABILITIES = {"NET_ADMIN": 12, "NET_RAW": 13, "SYS_ADMIN": 21, "SYS_NICE": 23}
#: Python packages with machine code of their own, which need not run on every processor (DuckDB: AVX).
_WITH_MACHINE_CODE = ("duckdb", "numba", "pyarrow")
#: The line of `java -version` with the version, such as 17.0.15, 26-ea or 25-internal.
_JAVA_VERSION = re.compile(r'^\S+ version "((\d+)[^"]*)"', re.MULTILINE)
_EGRESS = (
    "nft 'add table netdev t;"
    " add chain netdev t c { type filter hook egress device lo priority 0; };"
    " add rule netdev t c numgen random mod 10 < 5 "
)
#: Feature of `KernelFeatures` -> a command that needs it.
_FEATURES = {
    "netem": "tc qdisc add dev lo root netem delay 1ms",
    "tbf": "tc qdisc add dev lo root tbf rate 1mbit burst 16kb latency 400ms",
    "nft_egress": f"{_EGRESS}fwd to lo'",
    "nft_dup": f"{_EGRESS}meta mark set 1 dup to lo'",
}


@dataclass(frozen=True)
class KernelFeatures:
    netem: bool
    tbf: bool
    nft_egress: bool
    nft_dup: bool = False


@cache
def datapath() -> str:
    """Returns the Open vSwitch datapath to use: "kernel" if the kernel has the module, else "user"."""
    succeeds(["modprobe", "-q", "openvswitch"])
    return "kernel" if succeeds(["ovs-dpctl", "dump-dps"]) else "user"


@cache
def kernel_features() -> KernelFeatures:
    """Tries each feature in a network namespace that exists for that long.

    Needs root.
    """
    inside = ["unshare", "--net"]
    found = {name: succeeds([*inside, *shlex.split(command)]) for name, command in _FEATURES.items()}
    return KernelFeatures(**found)


#: Property of a link -> the features of the kernel any of which provides it, and their names.
_PROVIDERS = {
    "delay_ms": (("netem",), "the kernel's sch_netem"),
    "jitter_ms": (("netem",), "the kernel's sch_netem"),
    "reorder_percent": (("netem",), "the kernel's sch_netem"),
    "duplicate_percent": (("netem", "nft_dup"), "sch_netem or nftables egress with dup"),
    "loss_percent": (("netem", "nft_egress"), "sch_netem or nftables egress"),
    "bandwidth_mbps": (("tbf",), "the kernel's sch_tbf"),
}


def missing_features(topology: Topology, kernel: KernelFeatures) -> list[str]:
    """Returns a sentence for each link property that the kernel cannot provide."""
    return [
        f"link {link.u}-{link.v} asks for {key} = {value:g}, which needs {names}"
        for link in topology.links
        for key, (features, names) in _PROVIDERS.items()
        if (value := getattr(link, key)) and not any(getattr(kernel, each) for each in features)
    ]


def lacking_capabilities(*names: str) -> list[str]:
    """Returns those of the capabilities that this process does not have; names of `_CAPABILITIES`."""
    status = Path("/proc/self/status").read_text()
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return [name for name in names if not effective >> _CAPABILITIES[name] & 1]


def why_no_namespaces() -> str | None:
    """Why network and mount namespaces cannot be made here; None if they can."""
    text = output(["unshare", "--net", "--mount", "echo", "made"])
    return None if text.strip() == "made" else text.strip() or "`unshare --net --mount` fails"


def why_no_tun() -> str | None:
    """Why /dev/net/tun, of which the userspace datapath makes a switch's devices, cannot be opened."""
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        return f"/dev/net/tun: {error.strerror}"
    return None


def switch_schema() -> Path:
    """Returns the schema of Open vSwitch's database, of this machine's package."""
    return Path(os.environ.get("OVS_PKGDATADIR", "/usr/share/openvswitch")) / "vswitch.ovsschema"


def java() -> str:
    """Returns the command that Spark starts Java with: that of JAVA_HOME, or that of PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def java_version(text: str) -> tuple[str, int] | None:
    """Returns the version in what `java -version` prints, whole and its first number; None: it has none.

    What JAVA_TOOL_OPTIONS adds to the output may have quotes, too.
    """
    found = _JAVA_VERSION.search(text)
    return None if found is None else (found[1], int(found[2]))


def why_no_machine_code() -> str | None:
    """Says why libraries cannot run here, for example on a processor without AVX; None if they can."""
    child = start_module(
        __name__, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    names = ", ".join(_WITH_MACHINE_CODE)
    try:
        said = child.communicate(timeout=60)[1].decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return f"{names}: not loaded in 60 s"
    if child.returncode < 0:
        return f"{names}: the program ended by {signal.Signals(-child.returncode).name}"
    return (said.rpartition("\n")[2] or f"status {child.returncode}") if child.returncode else None


def why_no_temporary_programs() -> str | None:
    """Says why no program can run in the folder of temporary files; None if a program can.

    The Java libraries of Spark unpack machine code there.
    """
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryDirectory(prefix="cbcb-") as own:
            program = Path(own, "program")
            program.write_text("#!/bin/sh\n")
            program.chmod(0o700)
            return (
                None if succeeds([str(program)]) else f"{folder}: programs do not run there: mounted noexec?"
            )
    except OSError as error:
        return f"{folder}: {error.strerror}"


def succeeds(argv: list[str]) -> bool:
    """Whether a command ends with status 0 within 30 seconds."""
    try:
        return subprocess.run(argv, capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def output(argv: list[str]) -> str:
    """Standard output and error of a command; empty if it cannot be run or takes more than 30 seconds."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


if __name__ == "__main__":  # the child of `why_no_machine_code`
    for library in _WITH_MACHINE_CODE:
        import_module(library)
    import_module("duckdb").sql("select 1").fetchall()
