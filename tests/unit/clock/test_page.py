"""The page of the experiment clock, and the clock that reads it."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from captures.rundir.clock import read_clock
from router.clock import NS, ClockPage, Piece
from router.clock.clock import LEAD_S, ExperimentClock, SharedClock
from router.clock.meter import DEADLINE, Measured, Meter
from router.wire.frames import FrameType
from testbed.emulation.run.governor import EmulationClock
from tests.support.paths import ROOT


class Hand:
    """The monotonic clock in the hand of a test: it stands still until the test moves it."""

    def __init__(self) -> None:
        self.ns = time.monotonic_ns()

    def move(self, seconds: float) -> None:
        self.ns += round(seconds * NS)


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    made = Hand()
    monkeypatch.setattr(time, "monotonic_ns", lambda: made.ns)
    monkeypatch.setattr(time, "monotonic", lambda: made.ns / NS)
    return made


@pytest.mark.root
@pytest.mark.attack("full /run")
def test_a_page_without_room_on_its_file_system_is_an_error_that_names_it() -> None:
    """A sparse file would end the process when its page is written (SIGBUS)."""
    code = (
        "from pathlib import Path; from router.clock import ClockPage, Piece\n"
        "try: ClockPage.create(Path('/mnt/clock'), 3, Piece(1, 0.0, 1.0))\n"
        "except OSError as error: print(error)"
    )
    mount = 'mount -t tmpfs -o size=64k tmpfs /mnt && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", mount, "sh", sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[Errno 28] No space left on device: '/mnt/clock'\n")


@pytest.fixture
def page(tmp_path: Path) -> ClockPage:
    return ClockPage.create(tmp_path / "clock", 3, Piece(time.monotonic_ns(), 0.0, 1.0))


def announce(page: ClockPage, in_s: float, rate: float) -> Piece:
    """Appends a piece that continues the last one that has begun."""
    start_ns = time.monotonic_ns() + round(in_s * NS)
    before = next(piece for piece in reversed(page.pieces()) if piece.start_ns <= start_ns)
    piece = before.followed_by(start_ns, rate)
    assert page.append(piece)
    return piece


def test_a_second_map_shows_the_same_pieces_and_slots(page: ClockPage, tmp_path: Path) -> None:
    announced = announce(page, 3.0, 60.0)
    other = ClockPage.open(tmp_path / "clock")
    assert other.pieces() == page.pieces() and other.pieces()[1] == announced
    Meter(other.slot(2)).late(1.5, SharedClock(other))
    assert Meter(page.slot(2)).measured().lag_s == 1.5
    other.close()


@pytest.mark.usefixtures("page")
def test_the_page_is_its_owners_alone(tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "clock").stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        ClockPage.create(tmp_path / "clock", 1, Piece(0, 0.0, 1.0))
    (tmp_path / "link").symlink_to(tmp_path / "clock")
    with pytest.raises(OSError, match="symbolic links"):
        ClockPage.open(tmp_path / "link")


@pytest.mark.parametrize("content", [b"", b"x" * 63, bytes(4096)])
def test_another_file_is_no_page(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ValueError, match="other: not the page of an experiment clock"):
        ClockPage.open(tmp_path / "other")


def test_a_rate_that_is_no_rate_is_refused(page: ClockPage) -> None:
    for rate in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="expected a number above 0"):
            page.append(Piece(1, 0.0, rate))
    assert page.count == 1


def test_a_full_page_keeps_its_last_piece(page: ClockPage) -> None:
    for number in range(page.capacity - 1):
        assert page.append(Piece(2 + number, 0.0, 1.0))
    assert not page.append(Piece(1 << 40, 0.0, 7.0))
    assert page.count == page.capacity


def test_the_clock_runs_at_the_rate_of_the_piece_in_force(hand: Hand, page: ClockPage) -> None:
    clock = SharedClock(page)
    hand.move(2.0)
    assert clock.now() == pytest.approx(2.0)
    announce(page, 0.05, 1000.0)
    hand.move(0.049)
    assert (clock.now(), clock.rate) == pytest.approx((2.049, 1.0))
    hand.move(0.002)
    assert (clock.now(), clock.rate) == pytest.approx((2.05 + 0.001 * 1000, 1000.0))


def test_the_clock_never_goes_back(hand: Hand, page: ClockPage) -> None:
    clock = SharedClock(page)
    announce(page, 0.0, 1000.0)
    hand.move(0.01)
    ahead = clock.now()
    # Announced too late: the reader has gone on at the old rate.
    page.append(page.pieces()[-1].followed_by(time.monotonic_ns() - 5_000_000, 0.001))
    assert clock.now() == ahead == pytest.approx(10.0)
    assert clock.rate == 0.001


def test_a_sleep_ends_before_a_rise_takes_effect(hand: Hand, page: ClockPage) -> None:
    clock = SharedClock(page)
    hand.move(1.0)
    assert clock.timeout(clock.now() - 1) == 0.0
    assert clock.timeout(clock.now() + 1000) == LEAD_S
    assert clock.timeout(clock.now() + 0.1) == pytest.approx(0.1)
    announce(page, 0.1, 1000.0)
    # 0.1 s of the old rate, and 0.0199 of the new.
    assert clock.timeout(clock.now() + 20) == pytest.approx(0.1199)


def test_a_fixed_clock_counts_from_the_monotonic_clocks_zero(hand: Hand) -> None:
    clock = ExperimentClock(10.0)
    assert clock.now() == hand.ns / NS * 10
    assert clock.timeout(clock.now() + 10) == pytest.approx(1.0)
    assert clock.timeout(0.0) == 0.0


def test_a_meter_keeps_the_greatest_lag_and_the_longest_turn(hand: Hand, page: ClockPage) -> None:
    clock = SharedClock(page)
    meter = Meter(page.slot(1))
    hand.move(1.0)
    meter.turn(0.2, FrameType.RA, clock, 0.02)
    hand.move(1.0)
    meter.turn(0.1, DEADLINE, clock, 0.09)
    meter.late(0.5, clock)
    page.append(page.pieces()[-1].followed_by(time.monotonic_ns(), 100.0))
    hand.move(0.1)
    meter.late(0.1, clock)
    meter.late(0.01, clock)
    found = meter.measured()
    assert (found.lag_s, found.lag_wall_s, found.turn_s, found.turn_of) == (10.0, 0.5, 0.2, "RA")
    assert found.turn_cpu_s == 0.09
    assert (found.turn_at_s, found.lag_at_s) == pytest.approx((1.0, 2.0 + 10.0))
    assert (meter.take_recent(), meter.take_recent()) == (0.5, 0.0)
    assert Meter(page.slot(0)).measured() == Measured(0.0, 0.0, 0.0, 0.0, "", 0.0, 0.0)
    meter.reset()
    assert meter.measured() == Measured(0.0, 0.0, 0.0, 0.0, "", 0.0, 0.0)
    with pytest.raises(IndexError, match="slot 3: the page has 3"):
        page.slot(3)


def test_what_was_due_before_the_rate_fell_waited_at_the_rate_of_that_time(
    hand: Hand, page: ClockPage
) -> None:
    first = page.pieces()[-1]
    hand.move(1.0)
    page.append(first.followed_by(time.monotonic_ns(), 100.0))
    hand.move(1.0)
    due = SharedClock(page).now()
    hand.move(0.05)
    page.append(page.pieces()[-1].followed_by(time.monotonic_ns(), 0.01))
    clock, meter = SharedClock(page), Meter(page.slot(1))
    meter.overdue(due, clock)
    found = meter.measured()
    # At the present rate, those five experiment seconds would be 500 wall seconds.
    assert found.lag_wall_s == pytest.approx(0.05)
    assert found.lag_s == pytest.approx(5.0)
    assert clock.waited(clock.now() + 1) == 0.0
    assert ExperimentClock(10.0).waited(ExperimentClock(10.0).now() - 5) == pytest.approx(0.5)


def test_the_end_of_a_run_has_by_how_much_the_wall_clock_was_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hand: Hand
) -> None:
    run = RunLayout(tmp_path)
    clock = EmulationClock(run, tmp_path / "page", 0)
    clock.begin(10.0)
    hand.move(1)
    before_ns = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: before_ns - 60 * NS)
    clock.end()
    clock.page.close()
    assert round(read_clock(run).set_ns / NS) == 61
