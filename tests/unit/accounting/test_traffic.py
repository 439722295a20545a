"""Totals and rates of frames, on inputs small enough to work out by hand."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support.texts import answer, frames_of, rows_of, table_of, wall

_HOST = {"capture": "h", "kind": "host", "link": None, "node": 0}
#: Three frames from 0 to 1, of which two in one bin, one back, a broken one, and three on a host link.
#: Bins of half an experiment second are 0.05 wall seconds wide.
_INPUTS = {
    "captured": frames_of(
        {"capture": "a", "from_node": 0, "to_node": 1, "time_ns": wall(0.02)},
        {"capture": "a", "from_node": 0, "to_node": 1, "time_ns": wall(0.15), "length": 50},
        {"capture": "a", "from_node": 0, "to_node": 1, "time_ns": wall(0.19), "length": 60},
        {"capture": "a", "from_node": 1, "to_node": 0, "time_ns": wall(0.15), "type": "RA"},
        {**_HOST, "direction": "from_router", "time_ns": wall(-0.05), "type": "HELLO"},
        {**_HOST, "direction": "to_router", "time_ns": wall(-0.02), "type": "TABLE", "length": 500},
        {**_HOST, "direction": "from_router", "time_ns": wall(-0.01), "type": "HELLO", "length": 70},
        {"capture": "a", "time_ns": wall(0.01), "type": None, "undecodable": "bad_type"},
    )
}


def test_link_bins_and_their_sums() -> None:
    columns = ("from_node", "type", "bin_s", "frames", "bytes", "frames_per_s", "bytes_per_s")
    bins = answer("link_bins", _INPUTS)
    good = bins.filter(pc.field("from_node").is_valid())
    assert rows_of(good, *columns) == [
        (0, "MSG", 0.0, 1, 100, 2.0, 200.0),
        (0, "MSG", 1.5, 2, 110, 4.0, 220.0),
        (1, "RA", 1.5, 1, 100, 2.0, 200.0),
    ]
    totals = answer("link_totals", _INPUTS).filter(pc.field("from_node") == 0)
    assert rows_of(totals, "type", "frames", "bytes") == [("MSG", 3, 210)]
    assert rows_of(answer("type_bins", _INPUTS), "type", "bin_s", "frames", "frames_per_s") == [
        ("MSG", 0.0, 1, 2.0),
        ("MSG", 1.5, 2, 4.0),
        ("RA", 1.5, 1, 2.0),
        ("undecodable", 0.0, 1, 2.0),
    ]


def test_capture_totals() -> None:
    totals = answer("capture_totals", _INPUTS)
    columns = ("capture", "type", "frames", "undecodable", "first_ns", "last_ns")
    assert rows_of(totals, *columns) == [
        ("a", "MSG", 3, 0, wall(0.02), wall(0.19)),
        ("a", "RA", 1, 0, wall(0.15), wall(0.15)),
        ("a", "undecodable", 1, 1, wall(0.01), wall(0.01)),
        ("h", "HELLO", 2, 0, wall(-0.05), wall(-0.01)),
        ("h", "TABLE", 1, 0, wall(-0.02), wall(-0.02)),
    ]


@pytest.mark.parametrize(
    ("bandwidth", "shares"), [(0.16, [0.1, 0, 0, 0.11, 0, 0, 0, 0.1]), (None, [None] * 8)]
)
def test_utilisation_is_per_wall_second_and_direction(
    bandwidth: float | None, shares: list[float | None]
) -> None:
    links = table_of("links", [(0, 0, 1, 1, bandwidth)])
    directions = table_of("directions", [(0, 0, 1), (0, 1, 0)])
    found = answer("link_utilisation", {**_INPUTS, "links": links, "directions": directions})
    # Three bins are of the run; the fourth has frames, and no row for the idle direction of another link.
    assert rows_of(found, "from_node", "to_node", "bin_s", "bytes", "bits_per_wall_s") == [
        (0, 1, 0.0, 100, pytest.approx(16_000)),
        (0, 1, 0.5, 0, 0),
        (0, 1, 1.0, 0, 0),
        (0, 1, 1.5, 110, pytest.approx(17_600)),
        (1, 0, 0.0, 0, 0),
        (1, 0, 0.5, 0, 0),
        (1, 0, 1.0, 0, 0),
        (1, 0, 1.5, 100, pytest.approx(16_000)),
    ]
    assert [share for *_, share in rows_of(found, "from_node", "bin_s", "utilisation")] == pytest.approx(
        shares
    )


def test_talkers_are_counted_on_host_links() -> None:
    found = answer("talkers", _INPUTS)
    columns = ("node", "type", "frames_sent", "bytes_sent", "frames_received", "bytes_received")
    assert rows_of(found, *columns) == [(0, "HELLO", 2, 170, 0, 0), (0, "TABLE", 0, 0, 1, 500)]


def test_health_of_captures_with_and_without_frames() -> None:
    files = pa.table(
        {
            "capture": ["a", "silent"],
            "frames_written": [5, 0],
            "defect": [None, "the file ends inside a record"],
        }
    )
    found = answer("captures", {**_INPUTS, "files": files})
    columns = (
        "capture",
        "frames_written",
        "frames",
        "bytes",
        "frames_undecodable",
        "first_s",
        "last_s",
        "defect",
    )
    assert rows_of(found, *columns) == [
        ("a", 5, 5, 410, 1, pytest.approx(0.1), pytest.approx(1.9), None),
        ("silent", 0, 0, 0, 0, None, None, "the file ends inside a record"),
    ]


def test_advertised_predicates_count_whole_bodies_on_links() -> None:
    advertisement = {"type": "RA", "issuer": 3, "predicate": "a < 1", "fragment": "whole", "total_length": 40}
    frames = frames_of(
        *({**advertisement, "link": link} for link in (0, 1, 2)),
        {**advertisement, "issuer": 4},
        {**advertisement, "type": "UR", "predicate": "b = 2", "fragment": "completing"},
        # The first fragment of that, a router's own link, and another type.
        {**advertisement, "type": "UR", "predicate": None, "fragment": "partial"},
        {**advertisement, "kind": "host", "link": None},
        {"type": "MSG", "fragment": "whole", "total_length": 9},
    )
    columns = ("type", "predicate", "issuers", "crossings", "body_bytes")
    assert rows_of(answer("advertised", {"captured": frames}), *columns) == [
        ("RA", "a < 1", 2, 4, 160),
        ("UR", "b = 2", 1, 1, 40),
    ]
