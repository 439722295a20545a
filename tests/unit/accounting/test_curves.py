"""Moving averages, bins and the first wave, on events small enough to work out by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from captures.accounting.texts import double
from tests.support.texts import answer, frames_of, rows_of, table_of, wall


def test_a_moving_share_forgets_what_left_the_window() -> None:
    # Experiment seconds 0.5 and 1.5 (with one false positive), then 9.5; a window of 3 s in steps of 1 s.
    processed = pa.table({"t_s": [0.5, 0.5, 1.5, 9.5], "false_positive": [True, False, False, True]})
    curve = answer("false_positive_curve", {"processed": processed}, step_s=double(1), steps="2")
    assert rows_of(curve) == [(1.0, 0.5), (2.0, pytest.approx(1 / 3)), (10.0, 1.0)]


def test_false_negatives_stand_alone_in_their_windows() -> None:
    # The window is 0.25 experiment seconds, in steps of 0.05. The last message was expected nowhere.
    outcomes = pa.table(
        {
            "sent_ns": pa.array([wall(1), wall(1), wall(2), wall(3), None], pa.int64()),
            "expected": [True, True, True, False, True],
            "missed": [False, True, True, False, True],
        }
    )
    points = rows_of(answer("false_negative_curve", {"outcomes": outcomes}))
    assert [(round(t_s, 6), fraction) for t_s, fraction in points] == [(10.05, 0.5), (20.05, 1.0)]


def test_control_frames_by_share_and_rate() -> None:
    frames = frames_of(
        {"type": "RA", "time_ns": wall(0.1)},
        {"type": "MSG", "time_ns": wall(0.3)},
        # Silence for more than the window of 120 experiment seconds follows.
        *({"type": kind, "time_ns": wall(13)} for kind in ("MSG", "SR", "UR", "UR")),
        {"type": "HELLO", "time_ns": wall(0.3)},
        {"type": "MSG", "kind": "host", "time_ns": wall(0.3)},
    )
    shares = rows_of(answer("control_share_curve", {"captured": frames}))
    assert shares[:2] == [(2.0, 1.0, 1.0), (4.0, 0.5, 0.5)]
    # RA of the first step leaves the window at 122 s, the message after it at 124 s.
    assert shares[-3:] == [(120.0, 0.5, 0.5), (122.0, 0.0, 0.0), (132.0, 0.75, 0.0)]
    rates = {t_s: tuple(rest) for t_s, *rest in rows_of(answer("control_rate_curve", {"captured": frames}))}
    # Every 2 s, but for two zeros of the silence.
    assert set(range(2, 134, 2)) - rates.keys() == {126, 128}
    assert rates[4.0] == pytest.approx((1 / 120, 1 / 120, 0))
    assert rates[124.0] == rates[130.0] == (0, 0, 0)
    assert rates[132.0] == pytest.approx((1 / 120, 0, 3 / 120))


def test_a_frame_with_a_time_far_off_makes_no_points_in_between() -> None:
    frames = frames_of({"time_ns": 0}, {"time_ns": wall(1)}, {"time_ns": wall(2 * 10**9)})
    points = rows_of(answer("control_rate_curve", {"captured": frames}))
    assert len(points) < 200
    assert (points[0][0], points[-1][0]) == (-8.0, 2e10 + 2)


def test_no_frames_no_points() -> None:
    assert not answer("control_rate_curve", {}).num_rows
    assert not answer("control_share_curve", {}).num_rows


def test_bins_of_the_frames_on_links_by_type() -> None:
    # Bins of half an experiment second are 0.05 wall seconds wide.
    frames = frames_of(
        *({"time_ns": wall(at_s)} for at_s in (0.02, 0.15, 0.19)),
        {"time_ns": wall(0.15), "type": "RA"},
        {"time_ns": wall(0.01), "type": None, "undecodable": "bad_type"},
        {"time_ns": wall(0.15), "type": "RA", "kind": "host", "link": None},
    )
    bins = answer("type_bins", {"captured": frames})
    assert rows_of(bins, "type", "bin_s", "frames", "frames_per_s") == [
        ("MSG", 0.0, 1, 2.0),
        ("MSG", 1.5, 2, 4.0),
        ("RA", 1.5, 1, 2.0),
        ("undecodable", 0.0, 1, 2.0),
    ]


def test_first_wave_ends_with_the_last_frame_of_the_first_advertisements() -> None:
    opening = table_of("opening", [(1, wall(0), wall(0.1)), (2, wall(1), wall(1.1))])
    frames = frames_of(
        {"type": "RA", "issuer": 1, "seq": 10, "time_ns": wall(0.5)},
        {"type": "RA", "issuer": 1, "seq": 10, "time_ns": wall(3)},
        # A later advertisement, one from before the predicate, and one of a node outside the opening.
        {"type": "RA", "issuer": 1, "seq": 11, "time_ns": wall(9)},
        {"type": "RA", "issuer": 2, "seq": 1, "time_ns": wall(0.9)},
        {"type": "RA", "issuer": 2, "seq": 2, "time_ns": wall(2)},
        {"type": "RA", "issuer": 3, "seq": 1, "time_ns": wall(8)},
        {"type": "MSG", "issuer": 1, "seq": 10, "time_ns": wall(7)},
    )
    found = answer("convergence", {"opening": opening, "captured": frames})
    assert rows_of(found) == [(wall(3), wall(3), pytest.approx(3.0))]
    # Without an RA, messages count from the last confirmation on; without a predicate, from the start.
    assert rows_of(answer("convergence", {"opening": opening})) == [(None, wall(1.1), None)]
    assert rows_of(answer("convergence", {}, start_ns="7")) == [(None, 7, None)]


def test_advertisement_on_its_way_at_the_request_is_not_its_answer() -> None:
    opening = table_of("opening", [(1, wall(1), wall(1))])
    frames = frames_of(
        {"type": "RA", "issuer": 1, "seq": 1, "time_ns": wall(0.9)},
        {"type": "RA", "issuer": 1, "seq": 1, "time_ns": wall(1.1)},
        {"type": "RA", "issuer": 1, "seq": 2, "time_ns": wall(1.2)},
        {"type": "RA", "issuer": 1, "seq": 2, "time_ns": wall(1.5)},
    )
    assert rows_of(answer("convergence", {"opening": opening, "captured": frames}), "last_ns") == [
        (wall(1.5),)
    ]
