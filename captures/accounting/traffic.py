"""Frames and bytes: by link, direction, type and time; by router; by capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from captures.accounting.reconcile import Total
from captures.frames.columns import TYPES
from captures.rundir.capture_list import CapturedFile

#: The columns of `directions`.
DIRECTIONS = pa.schema([(name, pa.int32()) for name in ("link", "from_node", "to_node")])
CONTROL_TYPES = ("RA", "SR", "UR")


def link_directions(captures: Iterable[CapturedFile]) -> pa.Table:
    """Returns the directions of the captured links, with the columns of `DIRECTIONS`."""
    ends = [(each.identity.link, each.identity.u, each.identity.v) for each in captures]
    rows = [(link, *pair) for link, u, v in ends if link is not None for pair in ((u, v), (v, u))]
    names = DIRECTIONS.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=DIRECTIONS)


def frames_by_type(totals: Iterable[Total]) -> dict[str, Any]:
    """Frames and bytes by type, on links and on host links; the share of control frames on links."""
    by: dict[str, Counter[str]] = {
        key: Counter()
        for key in (
            "frames_by_type",
            "bytes_by_type",
            "frames_by_type_host_links",
            "bytes_by_type_host_links",
        )
    }
    captured = undecodable = 0
    for row in totals:
        where = "" if row.kind == "link" else "_host_links"
        by[f"frames_by_type{where}"][row.type] += row.frames
        by[f"bytes_by_type{where}"][row.type] += row.bytes
        captured += row.frames
        undecodable += row.undecodable
    return {
        **{key: every_type(counts, key.endswith("host_links")) for key, counts in by.items()},
        "frames_captured": captured,
        "frames_undecodable": undecodable,
        "control_share": control_share(by["frames_by_type"]),
    }


def control_share(on_links: Mapping[str, int]) -> float | None:
    """Returns the share of control frames among frames on links, by their types; None: no frame."""
    control = sum(on_links.get(kind, 0) for kind in CONTROL_TYPES)
    protocol = control + on_links.get("MSG", 0)
    return control / protocol if protocol else None


def every_type(counts: Mapping[str, int], host_links: bool) -> dict[str, int]:
    """Returns counts by type, 0 for types without frames.

    Frames of the controller cross host links alone.
    """
    usual = TYPES.values() if host_links else ["MSG", *CONTROL_TYPES]
    return {kind: counts.get(kind, 0) for kind in sorted({*usual, *(k for k, n in counts.items() if n)})}
