"""Machines as sets of namespaces on one bridge, each with a worker of Spark and its own monotonic clock."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster import CLUSTER_ENVIRONMENT, SETTINGS, SPARK_CLASS, process_of, wait_for_line
from tests.support.network_namespaces import network_namespaces

_NETWORK = "10.99.0"
_DRIVER = f"{_NETWORK}.254"


@dataclass
class Machine:
    """A machine, as the test's own namespaces see it.

    Attributes:
        outside: process id of `unshare`, which is in all its namespaces but that of processes.
        folder: for its temporary files.
    """

    name: str
    outside: int
    folder: Path

    def pids(self) -> dict[int, str]:
        """Returns the processes of the machine, with their command lines."""
        own = Path(f"/proc/{self.outside}/ns/pid_for_children").readlink()
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (path / "ns/pid").readlink() == own:
                    found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def kill_worker(self) -> None:
        """Kills the worker, whose executor then ends by itself."""
        (worker,) = [
            pid for pid, line in self.pids().items() if re.match(r"\S*java .*deploy\.worker\.Worker", line)
        ]
        os.kill(worker, signal.SIGKILL)

    def start_worker(self) -> None:
        """Starts another worker, and waits until the master knows it."""
        log = self.folder.with_suffix(".log")
        log.write_bytes(b"")  # the earlier worker has registered, too
        (self.folder / "go").write_text("\n")
        wait_for_line("Successfully registered with master", log)

    def set_up(self, up: bool) -> None:
        """Joins the machine to the network of the machines, or cuts it off."""
        link = ["ip", "link", "set", "eth0", "up" if up else "down"]
        subprocess.run(["nsenter", "--net", "-t", str(self.outside), *link], check=True)

    def routers(self) -> list[Path]:
        """Returns the sockets of the routers that are up."""
        return [*Path(f"/proc/{self.outside}/root/run/cbcb").glob("*/r*.sock")]

    def remains(self) -> list[str]:
        """Returns the emulation's namespaces, devices, rules, processes and folders."""
        pids = self.pids()
        found = [line for line in pids.values() if "testbed" in line or "ovs" in line]
        own = {name for name, _ in network_namespaces([self.outside])}
        found += {name for name, _ in network_namespaces(pids)} - own
        inside = ["nsenter", "-n", "-t", str(self.outside)]
        devices = subprocess.check_output([*inside, "ip", "-o", "link"], text=True)
        found += [line for line in devices.splitlines() if " lo:" not in line and " eth0@" not in line]
        found += subprocess.check_output([*inside, "nft", "list", "tables"], text=True).splitlines()
        run = Path(f"/proc/{self.outside}/root/run/cbcb")
        found += [str(path) for path in run.glob("*/")]
        return found + [str(path) for path in self.folder.glob("cbcb-*")]


@dataclass
class Cluster:
    """A master, and machines `m1`, `m2`, ... with a worker each.

    Attributes:
        inside, environment: begin of a command line, and environment, of a driver.
    """

    url: str
    inside: list[str]
    environment: dict[str, str]
    machines: list[Machine]


@contextmanager
def machines(folder: Path, cores: Sequence[int]) -> Iterator[Cluster]:
    """Yields a cluster whose workers offer so many processors.

    Args:
        folder: for logs, and the temporary files of each machine.
    """
    with ExitStack() as stack:

        def start(name: str, address: str, role: str, *arguments: str, options: Sequence[str] = ()) -> int:
            """Makes namespaces in which a part of Spark starts when `go` has a line."""
            (own := folder / name).mkdir()
            os.mkfifo(own / "go")
            part = ["env", f"SPARK_LOCAL_IP={address}", f"TMPDIR={own}", str(SPARK_CLASS)]
            part += [f"org.apache.spark.deploy.{role}", *SETTINGS, "--host", address]
            part += ["--webui-port", "0", *arguments]
            # The shell, which is process 1 of a machine, stays when the worker is killed.
            script = f"hostname {name}; mount -t tmpfs none /run; echo made; "
            # A writer that is late to close has the next `read` fail.
            script += f"while :; do if read < {own}/go; then {shlex.join(part)} & fi; done"
            command = ["unshare", "--net", "--mount", "--uts", "--fork", "--kill-child", *options]
            log = folder / f"{name}.log"
            pid = stack.enter_context(process_of([*command, "bash", "-c", script], log))
            wait_for_line("made", log)
            return pid

        def go(name: str, pid: int, *lines: str) -> None:
            """Runs commands in the network namespace of a process, then lets its part of Spark start."""
            inside = ["nsenter", "--net", "-t", str(pid), "sh", "-ec"]
            subprocess.run([*inside, "\n".join(("ip link set lo up", *lines))], check=True)
            (folder / name / "go").write_text("\n")

        driver = start("driver", _DRIVER, "master.Master", "--port", "7077")
        go(
            "driver",
            driver,
            "ip link add br0 mtu 1550 type bridge",
            f"ip addr add {_DRIVER}/24 dev br0",
            "ip link set br0 up",
        )
        wait_for_line("I have been elected leader", folder / "driver.log")
        url, found = f"spark://{_DRIVER}:7077", []
        inside = ["nsenter", "--net", "--uts", "-t", str(driver)]
        for number, processors in enumerate(cores, 1):
            name, address = f"m{number}", f"{_NETWORK}.{number}"
            work = str(folder / name / "work")
            arguments = ["--cores", str(processors), "--memory", "1g", "--work-dir", work, url]
            ahead = ["--time", "--monotonic", str(1000 * number)]  # seconds, as if booted earlier
            pid = start(name, address, "worker.Worker", *arguments, options=["--pid", "--mount-proc", *ahead])
            # Tunnels between machines carry whole frames.
            link = ["ip", "link", "add", name, "mtu", "1550", "master", "br0", "up", "type", "veth"]
            peer = ["peer", "name", "eth0", "mtu", "1550", "netns", str(pid)]
            subprocess.run([*inside, *link, *peer], check=True)
            go(name, pid, f"ip addr add {address}/24 dev eth0", "ip link set eth0 up")
            found.append(Machine(name, pid, folder / name))
        for each in found:
            wait_for_line("Successfully registered with master", folder / f"{each.name}.log")
        environment = {**CLUSTER_ENVIRONMENT, "SPARK_LOCAL_IP": _DRIVER, "TMPDIR": str(folder / "driver")}
        yield Cluster(url, inside, environment, found)
