"""The captures of a run: every link and host link, from confirmed start to counted end."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captures.frames import CaptureIdentity
from captures.rundir import RunLayout
from captures.rundir.capture_list import CapturedFile, write_captures
from router.system import start_module
from router.wire.header import ETHERTYPE, IPV4_ETHERTYPE


@dataclass(frozen=True, slots=True)
class Device:
    """A network device to capture.

    Attributes:
        namespace: path of its network namespace (None: that of this process).
    """

    name: str
    namespace: str | None = None


class CaptureError(RuntimeError):
    """The captures could not be started, died, or could not be completed."""


class CaptureSet:
    """The captures of one run, taken by one process (`captures.capturing.recorder`).

    The process runs in a session of its own, which a terminal's Ctrl-C does not reach. It is killed when the
    *thread* that called `start` ends (PR_SET_PDEATHSIG): call it from a thread that lives longer.

    Args:
        devices: the captures to take, of different names, and the network device of each.
        clock: path of the page of the experiment clock, and the slot for the lag of the captures (None: not
            measured).
        run: the run folder; the capture files and their list go there.
        ip: capture IPv4 on the same devices too, apart, with the first bytes of each frame.
    """

    def __init__(
        self,
        devices: Mapping[CaptureIdentity, Device],
        run: RunLayout,
        clock: tuple[Path, int] | None = None,
        *,
        ip: bool = False,
    ) -> None:
        self.devices = dict(devices)
        self.run = run
        self._clock = clock
        self._ip = ip
        self._process: subprocess.Popen[bytes] | None = None
        self._output = b""
        #: How the process ended, once that is known.
        self._ended: str | None = None

    @property
    def pids(self) -> list[int]:
        """Process ids of what has been started and not yet stopped."""
        return [] if self._process is None else [self._process.pid]

    def start(self, deadline_s: float = 30.0) -> None:
        """Starts all captures and returns when each device is captured.

        Raises:
            CaptureError: a device could not be captured, or not in time; no process keeps running.
        """
        if self._process is not None:
            raise CaptureError("these captures have been started already")
        self.run.captures_folder.mkdir(parents=True, exist_ok=True)
        if self._ip:
            self.run.ip_captures_folder.mkdir(parents=True, exist_ok=True)
        order = {
            "parent": os.getpid(),
            "clock": None if self._clock is None else (str(self._clock[0]), self._clock[1]),
            "captures": [
                {
                    "name": f"{prefix}{identity.name}",
                    "namespace": device.namespace,
                    "device": device.name,
                    "file": str(path_of(identity.name)),
                    "ethertype": ethertype,
                }
                for prefix, path_of, ethertype in self._wanted()
                for identity, device in self.devices.items()
            ],
        }
        self._ended = None
        self._process = start_module(
            "captures.capturing.recorder",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            self._ask(json.dumps(order), "ready", deadline_s, "captures could not be started")
        except BaseException:
            self.kill()
            raise

    def check(self) -> None:
        """Checks that the captures go on.

        Raises:
            CaptureError: their process has died; the message has its last words.
        """
        process = self._process
        if process is not None and process.poll() is not None:
            raise CaptureError(f"captures died during the run: {self._describe(process)}")

    def stop(self, deadline_s: float = 60.0) -> list[CapturedFile]:
        """Ends all captures and writes their list.

        Every frame that a device had before the call is in its file. If frames came just before, the call
        takes about a quarter of a second. Returns the captures in the order of `devices`.

        Raises:
            CaptureError: the captures died during the run, or did not end in time. They are ended.
        """
        try:
            self.check()
            answer = self._ask("stop", "counters", deadline_s, "captures could not be completed")
        finally:
            self.kill()
        return self._write_lists(lambda name, _: answer["counters"][name])

    def list_files(self) -> None:
        """Writes the list of the captures by their files alone, after their process has died.

        Frames that it had not written are lost, and how many is not known.
        """
        # The reader takes a second to load, and only a run that has lost its captures needs it.
        from captures.pcap.reader import PcapReader

        def counted(_: str, path: Path) -> tuple[int, int, int]:
            frames = sum(1 for _ in PcapReader(path).records())
            return frames, frames, 0

        self._write_lists(counted)

    def _write_lists(self, counted: Callable[[str, Path], Sequence[int]]) -> list[CapturedFile]:
        """Writes the lists, by the counters of a capture's name and file; returns that of CBCB's captures."""
        lists = []
        for prefix, path_of, _ in self._wanted():
            found = []
            for identity, device in self.devices.items():
                path = path_of(identity.name)
                counters = counted(f"{prefix}{identity.name}", path)
                found.append(CapturedFile(identity, self.run.relative(path), device.name, *counters))
            write_captures(self.run.ip_captures if prefix else self.run.captures, found)
            lists.append(found)
        return lists[0]

    def _wanted(self) -> Iterator[tuple[str, Callable[[str], Path], int]]:
        """Yields what is captured: a prefix of names, the file of a name, and the EtherType."""
        yield "", self.run.capture, ETHERTYPE
        if self._ip:
            yield "ip ", self.run.ip_capture, IPV4_ETHERTYPE

    def kill(self) -> None:
        """Kills the captures; frames that are not written are lost.

        Does nothing after `stop`.
        """
        process = self._process
        if process is None:
            return
        process.kill()
        process.communicate()
        self._process = None

    def _ask(self, request: str, event: str, deadline_s: float, failed: str) -> dict[str, Any]:
        """Sends a line to the process and returns its answer.

        Raises:
            CaptureError: the process ended, or did not answer in time.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = time.monotonic() + deadline_s
        try:
            process.stdin.write(request.encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise CaptureError(f"{failed}: {self._describe(process)}") from None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._output:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise CaptureError(f"{failed}: no answer after {deadline_s:g} s")
                chunk = os.read(process.stdout.fileno(), 1 << 20)
                if not chunk:
                    raise CaptureError(f"{failed}: {self._describe(process)}")
                self._output += chunk
        line, _, self._output = self._output.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        assert answer["event"] == event
        return answer

    def _describe(self, process: subprocess.Popen[bytes]) -> str:
        """Returns how a process that has ended did so, and its last words, which can be read once."""
        if self._ended is None:
            status = process.wait()
            assert process.stderr is not None
            said = process.stderr.read().decode(errors="replace").strip().splitlines()
            self._ended = f"{said[-1] if said else 'it said nothing'} (exit status {status})"
        return self._ended
