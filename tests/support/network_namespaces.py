"""The network namespaces of processes, for tests that look for what a run leaves."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.polling import wait_for


def network_namespaces(pids: Iterable[int]) -> Iterator[tuple[str, Path]]:
    """Yields the network namespaces in which processes are, or which they hold: name and a path to open."""
    for pid in pids:
        with suppress(OSError):
            for link in [Path(f"/proc/{pid}/ns/net"), *Path(f"/proc/{pid}/fd").iterdir()]:
                with suppress(OSError):
                    if (name := str(link.readlink())).startswith("net:"):
                        yield name, link


def held_by_others(namespaces: set[str]) -> set[str]:
    """Returns those of the namespaces in which a process other than this one is, or which it holds."""
    everyone = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()} - {os.getpid()}
    return namespaces & {name for name, _ in network_namespaces(everyone)}


class HeldNamespaces:
    """The network namespaces that a process holds besides this process's own; a context manager.

    They stay open until its end: the kernel gives the name of a namespace that is gone to another one.
    """

    def __init__(self, pid: int) -> None:
        self._open: dict[str, int] = {}
        self._held = ExitStack()
        own = str(Path("/proc/self/ns/net").readlink())
        for name, path in network_namespaces([pid]):
            if name != own and name not in self._open:
                descriptor = os.open(path, os.O_RDONLY)
                self._held.callback(os.close, descriptor)
                self._open[name] = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def devices(self, kind: str) -> set[str]:
        """Returns the names of the devices of a type in all of them (`ip -details link`: `veth`, `tun`)."""
        found = set()
        for descriptor in self._open.values():
            listed = subprocess.run(
                ["nsenter", f"--net=/proc/self/fd/{descriptor}", "ip", "-json", "-details", "link"],
                pass_fds=[descriptor],
                capture_output=True,
                check=True,
            )
            found |= {
                link["ifname"]
                for link in json.loads(listed.stdout)
                if link.get("linkinfo", {}).get("info_kind") == kind
            }
        return found

    def wait_until_released(self) -> None:
        """Returns when no process but this one is in a namespace, or holds one.

        The kernel removes such a namespace with its veth devices, and with the TAP devices of Open vSwitch,
        which outlive their daemon in a namespace that is open.
        """

        def left() -> str | None:
            held = held_by_others(set(self._open))
            return f"held: {sorted(held)}" if held else None

        wait_for(left)
