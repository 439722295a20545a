"""Captures: their lifecycle, their decoding, Spark accounting and reconciliation."""

from __future__ import annotations

from typing import Any


def open(paths: Any, view: str = "packets", columns: Any = None, **options: object) -> Any:
    """Opens captures as a `pyarrow.RecordBatchReader` (`captures.datasource.opening.open_captures`)."""
    from captures.datasource.opening import open_captures

    return open_captures(paths, view, columns, **options)
