"""Options: declarations of fields and parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from router.options import Option, Unit, option, options_of, parameters_of
from router.registry import Registry, UnknownNameError


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


# Registries of implementations by name.


def _layers() -> Registry[int]:
    layers = Registry[int]("layer")
    assert layers.register("spt", 1) == 1
    layers.register("rpf", 2)
    return layers


def test_a_registry_is_a_mapping_in_the_order_of_registration() -> None:
    layers = _layers()
    assert list(layers) == ["spt", "rpf"]
    assert dict(layers) == {"spt": 1, "rpf": 2}
    with pytest.raises(ValueError, match="layer 'spt' is registered already"):
        layers.register("spt", 3)
    layers.unregister("spt")
    assert (list(layers), layers.get("spt")) == (["rpf"], None)


@pytest.mark.parametrize("kind", [KeyError, ValueError, UnknownNameError])
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(kind: type[Exception]) -> None:
    layers = _layers()
    with pytest.raises(kind) as caught:
        layers["flood"]
    assert str(caught.value) == "unknown layer 'flood'; expected one of spt, rpf"
    with pytest.raises(kind):
        layers.unregister("flood")
