"""Mininet's objects for a network that exists already: hosts and switches whose shells start on first use.

Mininet starts a shell for each host, in a namespace that the shell makes. In this testbed the namespaces come
first, and most runs use no shell.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

from mininet.link import Intf, Link
from mininet.node import Host, Node, OVSSwitch


class _InNamespace(Node):
    """A node in a network namespace that somebody else holds.

    `shell` and `pid` start a shell on first use; Mininet's `cmd`, `sendCmd`, `popen` and the like use them.

    Args:
        namespace: path of the network namespace.
        environment: variables of the shell, in addition to this process's.
    """

    def __init__(
        self, name: str, namespace: str, environment: Mapping[str, str] | None = None, **params: Any
    ) -> None:
        self._namespace = namespace
        self._environment = dict(environment or {})
        self._starting = False
        self._shell: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        super().__init__(name, **params)

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 (Mininet's names)
        """Does nothing: Mininet's constructor calls it."""

    @property
    def shell(self) -> subprocess.Popen[bytes] | None:
        self._start()
        return self._shell

    @shell.setter
    def shell(self, shell: subprocess.Popen[bytes] | None) -> None:
        self._shell = shell

    @property
    def pid(self) -> int | None:
        self._start()
        return self._pid

    @pid.setter
    def pid(self, pid: int | None) -> None:
        self._pid = pid

    def _start(self) -> None:
        if self._shell is None and not self._starting:
            self._starting = True
            try:
                super().startShell()
            finally:
                self._starting = False

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        if self._starting and self._shell is None:
            # In place of `mnexec -n`, which makes a namespace. The shell gets a /sys that shows its devices.
            variables = [f"{name}={value}" for name, value in self._environment.items()]
            mount = ["unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys; exec "$@"', "sh"]
            enter = ["nsenter", f"--net={self._namespace}", "--", *mount]
            cmd = [*enter, "mnexec", "-cd", "env", *variables, *cmd[3:]]
        return super()._popen(cmd, **params)

    def terminate(self) -> None:
        if self._shell is not None:
            super().terminate()


class LazyHost(_InNamespace, Host):
    """A Mininet host."""


class LazySwitch(_InNamespace, OVSSwitch):
    """A Mininet switch, which a daemon of the run's own has made already."""

    @classmethod
    def setup(cls) -> None:
        """Does nothing: Mininet would require the machine's own Open vSwitch daemons to run."""


class ReadyIntf(Intf):
    """An interface whose device exists and is configured already."""

    def config(self, **_params: Any) -> dict[str, Any]:
        return {}


class ReadyLink(Link):
    """A link whose pair of devices exists already."""

    @classmethod
    def makeIntfPair(cls, *_args: Any, **_params: Any) -> None:  # noqa: N802 (Mininet's name)
        return None
