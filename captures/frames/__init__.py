"""CBCB frames in captures, and the identity of a capture: the link or the host of the run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CaptureIdentity:
    """Which capture a file is: a link between `u` and `v` with its index, or the host link of `node`.

    `kind` "tunnel": the second capture of a link between machines, at its other end. `kind` None: of no run;
    ends and directions are not known.
    """

    name: str
    kind: str | None
    link: int | None = None
    u: int | None = None
    v: int | None = None
    node: int | None = None
