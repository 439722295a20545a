"""Options: declarations of fields and parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from router.options import Option, Unit, option, options_of, parameters_of


@dataclass(frozen=True)
class _Section:
    needed: tuple[int, int] = field(metadata=option("A link."))
    window_s: float | None = field(
        default=None, metadata=option("A window.", low=0, above_low=True, unit=Unit.WALL_SECONDS)
    )
    count: int = field(default=3, metadata=option("A count.", low=1, high=9))
    internal: list[int] = field(default_factory=list)


def test_key_type_and_default_are_those_of_the_field() -> None:
    assert options_of(_Section) == (
        Option("needed", "pair", required=True, doc="A link."),
        Option("window_s", "number", 0, above_low=True, unit=Unit.WALL_SECONDS, doc="A window."),
        Option("count", "integer", 1, 9, default=3, doc="A count."),
    )


def test_key_type_and_default_are_those_of_the_parameter() -> None:
    def grow(n: int, name: str = "x", hidden: bool = False) -> None:
        raise NotImplementedError(n, name, hidden)

    assert parameters_of(grow, {"n": option("Nodes.", key="nodes"), "name": option("A name.")}) == {
        "n": Option("nodes", "integer", required=True, doc="Nodes."),
        "name": Option("name", "string", default="x", doc="A name."),
    }


def test_other_types_are_refused() -> None:
    @dataclass
    class Section:
        names: list[str] = field(metadata=option("Names."))

    with pytest.raises(TypeError, match="an option cannot be of type"):
        options_of(Section)


def test_choices_are_asked_at_each_check() -> None:
    names = ["a"]
    choice = Option("name", "string", choices=names)
    with pytest.raises(ValueError, match='"b" is not valid; expected "a"'):
        choice.convert("b")
    names.append("b")
    assert choice.convert("b") == "b"
    assert choice.expected == '"a" or "b"'
