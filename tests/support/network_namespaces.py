"""The network namespaces of processes, for tests that look for what a run leaves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path


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
