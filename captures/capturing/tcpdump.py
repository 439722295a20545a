"""The captures of a run: one tcpdump for each link and host link, from confirmed start to counted end.

tcpdump reads whole blocks of its kernel ring, and the kernel passes on a partly filled block only after the
read timeout of one second. On SIGINT, tcpdump writes the frames that it has read and drops the rest of the
ring (measured: 1,000 frames sent just before SIGINT, none in the file). `CaptureSet.stop` therefore requests
counters from each tcpdump (SIGUSR1) until it has read all frames that its filter has received.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from captures.frames.identity import CaptureIdentity
from captures.rundir.capture_list import CapturedFile, write_captures
from captures.rundir.layout import RunLayout
from router.wire.addresses import ETHERTYPE

#: Kernel ring of one tcpdump in KiB, in blocks of 256 KiB. A partly filled block passes to tcpdump after a
#: second: eight blocks last for some seconds in which tcpdump does not run. Two blocks lost single frames of
#: 53,000 on a busy machine.
DEFAULT_BUFFER_KIB = 2048
_FILTER = ("ether", "proto", f"{ETHERTYPE:#06x}")
_POLL_S = 0.05
_READY = re.compile(r"listening on ")
_COUNTERS = re.compile(
    r"(\d+) packets? captured[,\s]+(\d+) packets? received by filter[,\s]+(\d+) packets? dropped by kernel"
)


@dataclass(frozen=True, slots=True)
class Device:
    """A network device to capture.

    Attributes:
        namespace: path of its network namespace (None: that of this process).
    """

    name: str
    namespace: str | None = None


class CaptureError(RuntimeError):
    """A capture could not be started, died, or could not be completed; the message names the device."""


@dataclass(slots=True)
class _Tcpdump:
    """A running tcpdump and the text of its stderr."""

    identity: CaptureIdentity
    device: str
    process: subprocess.Popen[bytes]
    said: str = ""
    #: Start of the part of `said` that has not been parsed.
    mark: int = 0
    open: bool = True
    counters: tuple[int, int, int] | None = field(default=None)

    def unread(self) -> str:
        return self.said[self.mark :]

    def describe(self) -> str:
        status = self.process.poll()
        state = "still running" if status is None else f"exit status {status}"
        said = self.said[-2000:].strip() or "nothing"
        return f"{self.identity.name} on {self.device} ({state}; its stderr: {said})"

    def settled(self) -> bool:
        """Whether every frame that passed the filter has been read, or counted as dropped."""
        if self.counters is None:
            return False
        captured, received, dropped = self.counters
        # The kernel counts frames as received also if it then drops them for lack of room.
        return captured + dropped >= received


class CaptureSet:
    """The captures of one run.

    The processes run in sessions of their own, which a terminal's Ctrl-C does not reach. They get SIGTERM
    when the *thread* that called `start` ends (PR_SET_PDEATHSIG): call it from a thread that lives longer.

    Args:
        devices: the captures to take, and the network device of each; the names of the captures must be
            unique.
        run: the run folder; the capture files and their list go there.
        buffer_kib: kernel ring of each capture in KiB.

    Raises:
        ValueError: two captures have the same name.
    """

    def __init__(
        self,
        devices: Mapping[CaptureIdentity, Device],
        run: RunLayout,
        *,
        buffer_kib: int = DEFAULT_BUFFER_KIB,
    ) -> None:
        self.devices = dict(devices)
        self.run = run
        self.buffer_kib = buffer_kib
        counts = Counter(identity.name for identity in self.devices)
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            raise ValueError(f"captures with the same name: {', '.join(twice)}")
        self._running: list[_Tcpdump] = []
        self._selector = selectors.DefaultSelector()

    @property
    def pids(self) -> list[int]:
        """Process ids of the captures that have been started and not yet stopped."""
        return [tcpdump.process.pid for tcpdump in self._running]

    def start(self, deadline_s: float = 30.0) -> None:
        """Starts every capture and returns when each is listening.

        Raises:
            CaptureError: a capture could not be started, or was not ready in time; no capture keeps running.
        """
        if self._running:
            raise CaptureError("these captures have been started already")
        try:
            for identity, device in self.devices.items():
                self._spawn(identity, device)
            late = self._wait(
                self._running,
                lambda tcpdump: _READY.search(tcpdump.said) is not None,
                time.monotonic() + deadline_s,
            )
            if late:
                raise CaptureError(f"not listening after {deadline_s:g} s: {_first(late)}")
        except BaseException:
            self.kill()
            raise

    def check(self) -> None:
        """Checks that all captures run.

        Raises:
            CaptureError: a capture has died; the message names it.
        """
        self._read(0.0)
        dead = [tcpdump for tcpdump in self._running if tcpdump.process.poll() is not None]
        if dead:
            raise CaptureError(f"capture died during the run: {_first(dead)}")

    def stop(self, deadline_s: float = 60.0) -> list[CapturedFile]:
        """Ends every capture and writes the list of captures.

        Every frame that a device had before the call is in its file. If frames came just before, the call
        takes about a second. Returns the captures in the order of `devices`.

        Raises:
            CaptureError: a capture died during the run, or did not end in time. All captures are ended.
        """
        deadline = time.monotonic() + deadline_s
        try:
            self.check()
            self._settle(deadline)
            self._mark_all(self._running)
            for tcpdump in self._running:
                tcpdump.process.send_signal(signal.SIGINT)
            late = self._wait(self._running, lambda tcpdump: not tcpdump.open, deadline, allow_exit=True)
            if late:
                raise CaptureError(f"still running {deadline_s:g} s after SIGINT: {_first(late)}")
            results = [self._collect(tcpdump, deadline) for tcpdump in self._running]
        finally:
            self.kill()
        write_captures(self.run, results)
        return results

    def kill(self) -> None:
        """Kills every capture; frames that are not written are lost.

        Does nothing after `stop`.
        """
        for tcpdump in self._running:
            if tcpdump.process.poll() is None:
                tcpdump.process.kill()
        for tcpdump in self._running:
            tcpdump.process.wait()
            self._close(tcpdump)
        self._running.clear()

    def _spawn(self, identity: CaptureIdentity, device: Device) -> None:
        file = self.run.capture(identity.name)
        file.parent.mkdir(parents=True, exist_ok=True)
        # setpriv sets the parent-death signal and becomes tcpdump: no Python runs between fork and exec.
        command: Sequence[str] = (
            *(("nsenter", f"--net={device.namespace}") if device.namespace else ()),
            *("setpriv", "--pdeathsig", "TERM", "tcpdump", "-i", device.name, "-w", str(file)),
            *("--time-stamp-precision=nano", "-Z", "root", "-n", "-B", str(self.buffer_kib), "-s", "0"),
            *_FILTER,
        )
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )
        except OSError as error:
            raise CaptureError(f"cannot start the capture of {device.name}: {error}") from error
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        tcpdump = _Tcpdump(identity, device.name, process)
        self._running.append(tcpdump)
        self._selector.register(process.stderr, selectors.EVENT_READ, tcpdump)

    def _settle(self, deadline: float) -> None:
        """Waits until each capture has read all frames that its filter has received."""
        unsettled = self._running
        while unsettled:
            asked = time.monotonic()
            self._mark_all(unsettled)
            for tcpdump in unsettled:
                tcpdump.process.send_signal(signal.SIGUSR1)
            late = self._wait(unsettled, _take_counters, deadline)
            unsettled = [tcpdump for tcpdump in unsettled if not tcpdump.settled()]
            if late or (unsettled and time.monotonic() > deadline):
                raise CaptureError(f"frames were left unread at the deadline: {_first(late or unsettled)}")
            if unsettled:
                self._read(max(0.0, asked + _POLL_S - time.monotonic()))

    def _collect(self, tcpdump: _Tcpdump, deadline: float) -> CapturedFile:
        try:
            status = tcpdump.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise CaptureError(f"not ended in time: {tcpdump.describe()}") from error
        if status != 0 or not _take_counters(tcpdump):
            raise CaptureError(f"ended without its counters: {tcpdump.describe()}")
        assert tcpdump.counters is not None
        file = self.run.relative(self.run.capture(tcpdump.identity.name))
        return CapturedFile(tcpdump.identity, file, tcpdump.device, *tcpdump.counters)

    def _wait(
        self,
        tcpdumps: Iterable[_Tcpdump],
        done: Callable[[_Tcpdump], bool],
        deadline: float,
        *,
        allow_exit: bool = False,
    ) -> list[_Tcpdump]:
        """Reads stderr until `done` holds for each. Returns those for which it does not at the deadline.

        Raises CaptureError as soon as one has ended that is not done, unless `allow_exit`.
        """
        waiting = [tcpdump for tcpdump in tcpdumps if not done(tcpdump)]
        while waiting:
            ended = [tcpdump for tcpdump in waiting if not tcpdump.open]
            if ended and not allow_exit:
                for tcpdump in ended:
                    tcpdump.process.wait()
                raise CaptureError(f"capture ended by itself: {_first(ended)}")
            left = deadline - time.monotonic()
            if left <= 0:
                break
            self._read(left)
            waiting = [tcpdump for tcpdump in waiting if not done(tcpdump)]
        return waiting

    def _read(self, timeout_s: float) -> None:
        """Reads the stderr of the processes, waiting at most `timeout_s` for output."""
        if not self._selector.get_map():
            return
        for key, _ in self._selector.select(timeout_s):
            tcpdump: _Tcpdump = key.data
            chunk = os.read(key.fd, 65_536)
            tcpdump.said += chunk.decode("utf-8", "replace")
            if not chunk:
                self._close(tcpdump)

    def _close(self, tcpdump: _Tcpdump) -> None:
        stream = tcpdump.process.stderr
        if tcpdump.open and stream is not None:
            self._selector.unregister(stream)
            stream.close()
            tcpdump.open = False

    def _mark_all(self, tcpdumps: Iterable[_Tcpdump]) -> None:
        self._read(0.0)
        for tcpdump in tcpdumps:
            tcpdump.mark = len(tcpdump.said)


def _take_counters(tcpdump: _Tcpdump) -> bool:
    """Parses the last complete set of counters in the unread part. Returns False if there is none."""
    found = _COUNTERS.findall(tcpdump.unread())
    if not found:
        return False
    captured, received, dropped = (int(number) for number in found[-1])
    tcpdump.counters = (captured, received, dropped)
    return True


def _first(tcpdumps: Sequence[_Tcpdump]) -> str:
    more = f", and {len(tcpdumps) - 1} more" if len(tcpdumps) > 1 else ""
    return tcpdumps[0].describe() + more
