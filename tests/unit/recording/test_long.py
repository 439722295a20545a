"""Long contents of a recording: written in parts, one in a turn; bodies that came in are written once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from router.predicates.encoded.model import BloomFilter, BloomPredicate, Suite
from router.predicates.model import Constraint, Filter, Operator, Predicate, Type
from router.predicates.printer import predicate_to_json
from router.protocol.events import ControllerFrame, Event, FrameReceived, SetPredicate, Tick
from router.protocol.options import RouterOptions
from router.recording import contents, file
from router.recording.contents import predicate_content, read_predicate
from router.recording.file import Origin, Recorder, Recording, RecordingError
from router.recording.format import RECORD
from router.recording.long import LONG, ReceivedBodies
from router.recording.mapped import MappedFile
from router.recording.replay import check, describe
from router.wire.codec import decode_header, forwarded_frame, whole_frame
from router.wire.frames import Commit, Frame, FrameType
from tests.support.one_router import CONTROL, NODE, TABLE

#: Without a bound on what a neighbour sends in a moment, nothing is widened.
_EXACT = RouterOptions(predicate_burst=10_000_000)


class _Recorded:
    """A recorded router in epoch 1, between nodes 11, 12 and 13.

    Attributes:
        turns: bytes that each turn has appended, most of all in one record.
    """

    def __init__(self, path: Path, options: RouterOptions, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        origin = Origin(NODE, options, "counting", 1, 3)
        self.router = origin.router().core
        self.recorder = Recorder(path, origin)
        self.turns: list[list[int]] = []
        append = MappedFile.append

        def noted(mapped: MappedFile, data: bytes) -> None:
            if self.turns:
                self.turns[-1].append(len(data))
            append(mapped, data)

        monkeypatch.setattr(MappedFile, "append", noted)
        for kind, body in ((FrameType.TABLE, TABLE), (FrameType.COMMIT, Commit(1))):
            self.handle(ControllerFrame(Frame(kind, NODE, CONTROL | 1, 1, 1, body)))

    def handle(self, event: Event) -> None:
        """A turn of the router, with what the loop does at its end."""
        self.turns.append([])
        frame = getattr(event, "frame", None)
        self.recorder.event(event, 1.0, None if frame is None else whole_frame(frame))
        self.recorder.actions(event, self.router.handle(event, 1.0))
        if self.recorder.behind:
            self.recorder.step()

    def until_idle(self) -> None:
        while not self.router.idle or self.recorder.behind:
            self.handle(Tick())

    def replayed(self) -> int:
        """Ends the recording, and replays it; the bytes of the file."""
        self.recorder.end()
        self.recorder.close()
        found = check(self.path)
        assert (found.difference, found.cut) == (None, None)
        assert found.router.rows() == self.router.rows()
        assert found.router.counters == self.router.counters
        return self.path.stat().st_size


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Recorded:
    return _Recorded(tmp_path / "r.rec", _EXACT, monkeypatch)


def _texts(count: int, length: int) -> Predicate:
    return Predicate(
        tuple(
            Filter((Constraint("s", Type.STRING, Operator.EQ, f"{number:0{length}d}"),))
            for number in range(count)
        )
    )


def _received(predicate: Predicate, sender: int = 11) -> FrameReceived:
    """An RA of a neighbour as the link gives it to the core: the body is decoded in parts."""
    header, body, _ = whole_frame(Frame(FrameType.RA, sender, 1, 1, 9, predicate))
    return FrameReceived(sender, forwarded_frame(decode_header(header + body), body))


def test_a_long_ra_is_recorded_once_and_in_parts(recorded: _Recorded) -> None:
    event = _received(_texts(400, 1_000))
    assert event.frame.received is not None
    recorded.handle(event)
    recorded.until_idle()
    assert max(map(sum, recorded.turns)) <= LONG + 100
    length = len(event.frame.received)
    assert length > 6 * LONG
    assert length < recorded.replayed() < 1.1 * length
    (line,) = (line.strip() for line in describe(Recording(recorded.path)) if "long body" in line)
    assert line.startswith("send through interfaces 2, 3: RA 11/")
    assert line.endswith(", epoch 1, hop limit 8: long body 1")


def test_an_ra_that_is_widened_is_recorded_as_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = RouterOptions(predicate_burst=10_000_000, predicate_filters=300)
    recorded = _Recorded(tmp_path / "r.rec", options, monkeypatch)
    event = _received(_texts(400, 1_000))
    recorded.handle(event)
    recorded.until_idle()
    assert recorded.router.counters.predicates_widened == 1
    assert max(map(sum, recorded.turns)) <= LONG + 100
    assert event.frame.received is not None
    assert recorded.replayed() > 1.6 * len(event.frame.received)


def test_a_body_that_was_forgotten_is_recorded_a_second_time(
    recorded: _Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = _received(_texts(400, 1_000))
    recorded.handle(event)
    # That of another neighbour comes in before it has been read.
    monkeypatch.setattr("router.recording.long._KEPT", 1)
    other = _received(_texts(100, 1_001), sender=12)
    recorded.handle(other)
    recorded.until_idle()
    assert event.frame.received is not None
    assert other.frame.received is not None
    length = 2 * len(event.frame.received) + len(other.frame.received)
    assert length < recorded.replayed() < 1.1 * length


def test_a_large_predicate_of_an_application_is_encoded_in_parts(
    recorded: _Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[list[int]] = [[]]

    def counted(predicate: Predicate) -> Any:
        encoded[-1].append(sum(1 + len(each.constraints) for each in predicate.filters))
        return predicate_to_json(predicate)

    monkeypatch.setattr(contents, "predicate_to_json", counted)
    recorded.handle(SetPredicate(1, _texts(3_000, 20)))
    while not recorded.router.idle or recorded.recorder.behind:
        encoded.append([])
        recorded.handle(Tick())
    assert sum(map(sum, encoded)) == 6_000
    # The first part tells whether the predicate is long.
    assert sum(encoded[0]) <= 2_000
    assert max(map(sum, encoded[1:])) <= 1_000
    assert max(map(sum, recorded.turns)) <= LONG + 1_000
    recorded.replayed()


def _unequal(constraints: int) -> Predicate:
    """One filter."""
    return Predicate(
        (Filter(tuple(Constraint("x", Type.INTEGER, Operator.NE, n) for n in range(constraints))),)
    )


@pytest.mark.parametrize(
    "predicate",
    [
        Predicate(),
        Predicate((Filter(()),)),
        _texts(3, 5),
        _texts(1_000, 5),
        _unequal(1_000),
        _unequal(3_500),
        Predicate((*_texts(3, 5), *_unequal(2_000), *_texts(2, 5), *_unequal(2_001), *_unequal(1_500))),
        _texts(3, 60_000),
        BloomPredicate([BloomFilter(Suite(1, 64, 4, 1), 1 << n) for n in range(3)]),
        BloomPredicate([BloomFilter(Suite(1, 512, 4, 1 + n // 150), 1 << n) for n in range(500)]),
    ],
)
def test_the_parts_of_a_predicate_make_its_json(predicate: Predicate) -> None:
    content = predicate_content(b"head", predicate, b"tail")
    data = content if isinstance(content, bytes) else b"".join(content)
    assert data.startswith(b"head")
    assert data.endswith(b"tail")
    assert read_predicate(data[4:-4]) == predicate


def test_the_constraints_of_one_filter_are_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(predicate: Predicate) -> list[Any]:
        made.append(sum(map(len, predicate)))
        return predicate_to_json(predicate)

    monkeypatch.setattr("router.recording.contents.predicate_to_json", counted)
    predicate = Predicate((*_texts(3, 5), *_unequal(3_500)))
    content = predicate_content(b"", predicate)
    assert not isinstance(content, bytes)
    assert made == []
    assert read_predicate(b"".join(content)) == predicate
    assert made == [3, 1_000, 1_000, 1_000, 500]


def test_sets_of_bits_are_encoded_in_parts() -> None:
    predicate = BloomPredicate([BloomFilter(Suite(1, 512, 4, 1), 1 << n) for n in range(500)])
    content = predicate_content(b"", predicate)
    assert not isinstance(content, bytes)
    # Quotation marks, and two digits for each of 64 bytes and more of a set.
    assert [len(part) // 128 // 100 for part in content] == [0, 2, 2, 1, 0]


def test_a_recording_of_version_2_with_a_long_ra_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its frames have their bodies, and nothing is in parts."""
    with monkeypatch.context() as earlier:
        earlier.setattr(file, "_VERSION", 2)
        earlier.setattr("router.recording.long.LONG", 2**62)
        recorded = _Recorded(tmp_path / "r.rec", _EXACT, monkeypatch)
        event = _received(_texts(400, 1_000))
        recorded.handle(event)
        recorded.until_idle()
        recorded.recorder.end()
        recorded.recorder.close()
    assert event.frame.received is not None
    assert recorded.path.stat().st_size > 2 * len(event.frame.received)
    assert Recording(recorded.path).version == 2
    assert check(recorded.path).difference is None


def test_the_last_bodies_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.recording.long._KEPT", 250_000)
    bodies = ReceivedBodies()
    events = [_received(_texts(100, length)) for length in (1_000, 1_001, 1_002, 1_003, 9_000)]
    numbers = []
    for event in events:
        bodies.came(event)
        numbers.append([bodies.number_of(each.frame) for each in events])
    assert numbers == [
        [1, None, None, None, None],
        [1, 2, None, None, None],
        [1, 2, 3, None, None],
        [None, 2, 3, 4, None],
        [None, None, 3, 4, 5],
    ]
    # A body that is equal and did not come in is another.
    assert bodies.number_of(_received(_texts(100, 9_000)).frame) is None


@pytest.mark.parametrize("code", [69, 70], ids=["PART", "PARTS_END"])
def test_a_part_behind_the_last_part_of_a_content_is_refused(recorded: _Recorded, code: int) -> None:
    recorded.handle(_received(_texts(400, 1_000)))
    recorded.until_idle()
    recorded.replayed()
    data = recorded.path.read_bytes()
    at, end = 13 + int.from_bytes(data[9:13], "little"), 0
    while at < len(data):
        kind, length = RECORD.unpack_from(data, at)
        at += RECORD.size + length
        end = at if kind == 70 else end
    recorded.path.write_bytes(data[:end] + RECORD.pack(code, 0) + data[end:])
    with pytest.raises(RecordingError, match=f"^{recorded.path}: byte {end}: a part of no content$"):
        list(Recording(recorded.path).inputs())
