"""Dataclasses as JSON objects: accepted and refused values."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from router.json_objects import Decoder, read_object
from router.options import option


@dataclass(frozen=True)
class _Inner:
    period_s: float = field(default=1.0, metadata=option("A period.", low=0, above_low=True))
    on: bool = True


@dataclass(frozen=True)
class _Outer:
    node: int
    file: Path
    place: str | int | None
    inner: _Inner = field(default_factory=_Inner)
    number: complex = 0j

    def __post_init__(self) -> None:
        if self.node > 9:
            raise ValueError(f"node: {self.node} is above 9")


_DECODERS: dict[type, Decoder] = {complex: Decoder(complex, "a complex number")}
_GOOD = {"node": 3, "file": "a/b", "place": None}


def test_values_have_the_types_of_the_fields() -> None:
    found = read_object(_Outer, {**_GOOD, "place": 7, "inner": {"period_s": 2}, "number": "1+2j"}, _DECODERS)
    assert found == _Outer(3, Path("a/b"), 7, _Inner(2.0), 1 + 2j)
    assert type(found.inner.period_s) is float


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"node": "3"}, r"^node: expected int, got '3'$"),
        ({"node": True}, r"^node: expected int, got True$"),
        ({"node": 10}, r"^node: 10 is above 9$"),
        ({"file": 3}, r"^file: expected a path, got 3$"),
        ({"place": 1.5}, r"^place: expected str or int or null, got 1\.5$"),
        ({"colour": 1}, r"^colour: no such field; expected node, file, place, inner, number$"),
        ({"inner": 3}, r"^inner: expected an object, got int$"),
        ({"inner": {"off": True}}, r"^inner: off: no such field; expected period_s, on$"),
        ({"inner": {"on": 1}}, r"^inner: on: expected bool, got 1$"),
        ({"inner": {"period_s": 0}}, r"^inner: period_s: 0 is not valid; expected a number above 0$"),
        ({"number": 4}, r"^number: expected a complex number, got 4$"),
        ({"number": "i"}, r"^number: "),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        read_object(_Outer, {**_GOOD, **change}, _DECODERS)


def test_a_missing_field_is_named_with_its_type() -> None:
    with pytest.raises(ValueError, match=r"^place: missing; expected str or int or null$"):
        read_object(_Outer, {"node": 3, "file": "a"})
