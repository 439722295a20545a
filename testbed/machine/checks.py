"""Checks of this machine, each with the command that repairs it (`cbcb doctor`).

Every answer comes from trying (`testbed.machine.probes`).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from testbed.controller.framework import FRAMEWORKS, INSTALL_OS_KEN
from testbed.experiments.config import Experiment
from testbed.experiments.events.network import at_worst
from testbed.machine import probes
from testbed.machine.versions import package_versions, required_packages
from testbed.support.errors import MachineError

PYTHON_MIN = (3, 11)
JAVA_MIN = 17
#: A setting that a run writes in each namespace.
_SETTINGS = Path("/proc/sys/net/ipv4/ip_forward")


@dataclass(frozen=True)
class Check:
    """The result of a check.

    Attributes:
        mend: the remedy, if the check is not `ok`.
        required: whether `cbcb run` needs the checked feature.
    """

    name: str
    ok: bool
    detail: str
    mend: str = ""
    required: bool = True


def check_machine() -> list[Check]:
    """Checks everything that `cbcb run` needs or can use, in the order in which to repair it."""
    checks = [_python(), *_packages(), _rights(), _commands(), _java(), _temporary(), _mininet()]
    able = all(check.ok for check in checks if check.required)
    checks.append(open_vswitch())
    if able:
        namespaces = _namespaces()
        checks += [namespaces, *_permissions(), *_kernel(namespaces)]
    return checks


def require_machine(*experiments: Experiment) -> None:
    """Checks that this machine can emulate the experiments, whatever their events make of the links.

    Raises:
        MachineError: it cannot; the message lists everything that is missing.
    """
    missing = [check for check in check_machine() if check.required and not check.ok]
    if missing:
        raise MachineError("\n".join(f"{check.name}: {check.detail}; {check.mend}" for check in missing))
    for framework in {experiment.broadcast.framework for experiment in experiments}:
        if find_spec(FRAMEWORKS[framework]) is None:
            raise MachineError(
                f"framework = {framework!r}: it is not installed in {sys.prefix}; {INSTALL_OS_KEN}"
            )
    if (problem := lacking_properties(*experiments)) is not None:
        raise MachineError(
            f"{problem}; load it (`modprobe sch_netem`, package linux-modules-extra on Ubuntu) "
            "or take the property out of the experiment"
        )


def lacking_properties(*experiments: Experiment) -> str | None:
    """Names the first property of a link that this kernel cannot provide; None: it provides all."""
    kernel = probes.kernel_features()
    problems = [
        problem
        for experiment in experiments
        for problem in probes.missing_features(at_worst(experiment.topology, experiment.events), kernel)
    ]
    more = f" (and {len(problems) - 1} more properties)" if len(problems) > 1 else ""
    return f"{problems[0]}{more}" if problems else None


def _python() -> Check:
    found = sys.version.split()[0]
    return Check(
        "python",
        sys.version_info >= PYTHON_MIN,
        f"{found} at {sys.executable}",
        f"Python {'.'.join(map(str, PYTHON_MIN))} or newer is needed: `./run.sh` makes the environment",
    )


def _packages() -> list[Check]:
    installed = package_versions()
    lacking = [name for name in required_packages() if name not in installed]
    packages = Check(
        "python packages",
        not lacking,
        f"{', '.join(lacking)} not installed in {sys.prefix}" if lacking else f"all in {sys.prefix}",
        "wrong interpreter? use `./run.sh`, or .venv/bin/cbcb, which it makes",
    )
    if lacking:
        return [packages]
    refused = probes.why_no_machine_code()
    mend = "a processor with AVX is needed; in a virtual machine, let it see the host's (`-cpu host`)"
    return [packages, Check("machine code of packages", refused is None, refused or "runs", mend)]


def _temporary() -> Check:
    refused = probes.why_no_temporary_programs()
    return Check(
        "temporary files",
        refused is None,
        refused or f"{tempfile.gettempdir()}: can be written, programs run",
        "set TMPDIR to a folder that can be written, where programs may run",
    )


def compiled_code() -> Check:
    """Names the place of the machine code; loads it, which takes a second."""
    try:
        from router.forwarding.deciding import COMPILER

        warm()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return Check("compiled code", False, reason, "`./run.sh setup` installs numba and llvmlite")
    return Check("compiled code", True, str(COMPILER.code_directory))


def warm() -> None:
    """Loads the machine code of matching, forwarding and trees, or compiles it (within two minutes).

    Raises:
        RuntimeError: the machine code gives a wrong answer.
    """
    # Imported late: other checks say what is missing where Numba cannot be imported.
    from router.runtime.process import warm as warm_routers
    from testbed.controller.trees import broadcast_tables, spt_trees
    from topos.generators import waxman

    warm_routers()
    topology = waxman(3)
    broadcast_tables(topology, spt_trees(topology))


def _rights() -> Check:
    if os.geteuid() != 0:
        detail = f"user id {os.geteuid()}, not root"
        return Check("rights", False, detail, "run it as root: `sudo ./run.sh`")
    lacking = probes.lacking_capabilities("NET_ADMIN", "NET_RAW", "SYS_ADMIN")
    if lacking:
        options = " ".join(f"--cap-add {name}" for name in lacking)
        detail = f"root without {', '.join(f'CAP_{name}' for name in lacking)}"
        remedy = f"start the container with {options} (docs/how-to/containers.md)"
        return Check("rights", False, detail, remedy)
    return Check("rights", True, "root")


def _namespaces() -> Check:
    """Tries to make network and mount namespaces, which an engine withholds from the root of a container."""
    refused = probes.why_no_namespaces()
    return Check(
        "network namespaces",
        refused is None,
        refused or "can be made",
        "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined; on a"
        " machine of one's own: sysctl user.max_net_namespaces user.max_mnt_namespaces must not be 0",
    )


def _permissions() -> list[Check]:
    """Tries the other things that an engine withholds, whatever the capabilities of root."""
    writable = os.access(_SETTINGS, os.W_OK)
    detail = "can be written" if writable else f"{_SETTINGS} is read-only"
    mend = "start the container with --security-opt systempaths=unconfined, or --privileged"
    checks = [Check("kernel settings (/proc/sys)", writable, detail, mend)]
    if probes.datapath() == "user":
        reason = probes.why_no_tun()
        mend = "start the container with --device /dev/net/tun; on a machine of one's own: modprobe tun"
        checks.append(Check("devices of switches (/dev/net/tun)", reason is None, reason or "opens", mend))
    return checks


def required_commands() -> dict[str, str]:
    """Command -> the Debian and Ubuntu package that has it, from commands.txt, which run.sh reads too."""
    lines = files("testbed.machine").joinpath("commands.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return dict(pairs)


def _commands() -> Check:
    commands = required_commands()
    # Java may be that of JAVA_HOME: it has a row of its own.
    lacking = [command for command in commands if command != "java" and shutil.which(command) is None]
    packages = sorted({commands[command] for command in lacking})
    detail = f"{', '.join(lacking)} not found" if lacking else ", ".join(commands)
    return Check("system commands", not lacking, detail, f"apt-get install -y {' '.join(packages)}")


def _java() -> Check:
    mend = f"apt-get install -y {required_commands()['java']}"
    command = probes.java()
    text = probes.output([command, "-version"])
    found = probes.java_version(text)
    of_home = f"; JAVA_HOME is {os.environ['JAVA_HOME']}" if os.environ.get("JAVA_HOME") else ""
    if found is not None:
        mend = f"Java {JAVA_MIN} or newer is needed: {mend}{', and unset JAVA_HOME' if of_home else ''}"
        return Check("java", found[1] >= JAVA_MIN, f"{found[0]}{of_home}", mend)
    if shutil.which(command) is not None and text:
        # It is installed and does not start, for example for lack of memory.
        mend = f"make `{command} -version` work; for lack of memory, free some or raise `ulimit -v`"
        lines = "; ".join(text.strip().splitlines()[:2])
        return Check("java", False, f"`{command} -version` fails: {lines}", mend)
    mend = "set JAVA_HOME to the folder of a Java, or unset it" if of_home else mend
    return Check("java", False, f"`{command} -version` says nothing", mend)


def _mininet() -> Check:
    try:
        from mininet.net import VERSION
    except ImportError as error:
        mend = "apt-get install -y mininet, then ./run.sh setup"
        return Check("mininet", False, f"not importable: {error}", mend)
    return Check("mininet", True, VERSION)


def open_vswitch() -> Check:
    """Names Open vSwitch's version and its datapath."""
    mend = f"apt-get install -y {required_commands()['ovs-vswitchd']}"
    if shutil.which("ovs-vswitchd") is None:
        return Check("open vswitch", False, "ovs-vswitchd not found", mend)
    if not probes.switch_schema().is_file():
        detail = f"{probes.switch_schema()}, the schema of its database, does not exist"
        return Check("open vswitch", False, detail, f"{mend}, or set OVS_PKGDATADIR to its folder")
    found = probes.output(["ovs-vswitchd", "--version"]).split("\n")[0].split()[-1]
    return Check("open vswitch", True, f"{found}, {probes.datapath()} datapath")


#: A row of `doctor` -> the feature of `KernelFeatures`, and how to get it.
_MODULES = "apt-get install -y linux-modules-extra-$(uname -r), where the distribution has it"
FEATURES = {
    "delay, loss (netem)": ("netem", f"modprobe sch_netem; {_MODULES}"),
    "bandwidth (tbf)": ("tbf", f"modprobe sch_tbf; {_MODULES}"),
    "loss without netem (nftables egress)": (
        "nft_egress",
        "a kernel of 5.16 or newer with CONFIG_NETFILTER_EGRESS",
    ),
    "duplicates without netem (nftables dup)": (
        "nft_dup",
        "a kernel of 5.16 or newer with CONFIG_NETFILTER_EGRESS and CONFIG_NFT_DUP_NETDEV",
    ),
}


def _kernel(namespaces: Check) -> list[Check]:
    """Tries what the kernel offers, which takes a network namespace."""
    if not namespaces.ok:
        detail, mend = "not known: network namespaces cannot be made", "see `network namespaces`"
        return [Check(name, False, detail, mend, required=False) for name in FEATURES]
    features = probes.kernel_features()
    refused = "not offered by this kernel: experiments that need it are refused"
    checks = []
    for name, (feature, mend) in FEATURES.items():
        # With netem, nothing is made of nftables.
        if not (features.netem and "without netem" in name):
            found = getattr(features, feature)
            detail = "offered by this kernel" if found else refused
            checks.append(Check(name, found, detail, mend, required=False))
    return checks
