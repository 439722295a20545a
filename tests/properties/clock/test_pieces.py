"""Pieces of experiment time: continuous, ascending, and invertible to the nanosecond."""

from __future__ import annotations

from hypothesis import given, strategies as st

from router.clock import Piece, Timeline, in_force

RATES = st.floats(1e-3, 1e4)
GAPS = st.integers(1, 10**12)


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    """A clock whose rate changes up to eight times."""
    pieces = [Piece(draw(st.integers(0, 10**15)), 0.0, draw(RATES))]
    for gap, rate in draw(st.lists(st.tuples(GAPS, RATES), max_size=8)):
        pieces.append(pieces[-1].followed_by(pieces[-1].start_ns + gap, rate))
    return Timeline(pieces)


@given(timelines(), st.lists(st.integers(-(10**9), 10**13), min_size=2))
def test_experiment_time_never_goes_back(timeline: Timeline, offsets: list[int]) -> None:
    times = sorted(timeline.pieces[0].start_ns + offset for offset in offsets)
    seconds = [timeline.experiment_at(time_ns) for time_ns in times]
    assert seconds == sorted(seconds)


@given(timelines(), st.integers(0, 10**13))
def test_a_deadline_has_come_at_its_time_and_not_before(timeline: Timeline, offset: int) -> None:
    deadline = timeline.experiment_at(timeline.pieces[0].start_ns + offset)
    due_ns = timeline.time_of(deadline)
    assert timeline.experiment_at(due_ns) >= deadline
    assert timeline.experiment_at(due_ns - 2) <= deadline


@given(timelines())
def test_pieces_meet(timeline: Timeline) -> None:
    for before, piece in zip(timeline.pieces, timeline.pieces[1:], strict=False):
        assert before.experiment_at(piece.start_ns) == piece.experiment_s


@given(st.lists(st.tuples(st.integers(0, 20), RATES), min_size=1))
def test_a_piece_supersedes_what_was_announced_for_later(announced: list[tuple[int, float]]) -> None:
    pieces = [Piece(start_ns, 0.0, rate) for start_ns, rate in announced]
    kept = in_force(pieces)
    for time_ns in range(22):
        begun = [piece for piece in pieces if piece.start_ns <= time_ns]
        # The last announced piece of those that have begun.
        expected = begun[-1] if begun else None
        assert next((piece for piece in reversed(kept) if piece.start_ns <= time_ns), None) is expected
