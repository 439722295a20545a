"""Registries of implementations by name."""

from __future__ import annotations

import pytest

from router.registry import Registry, UnknownNameError


def _layers() -> Registry[int]:
    layers = Registry[int]("layer")
    assert layers.register("spt", 1) == 1
    layers.register("rpf", 2)
    return layers


def test_a_registry_is_a_mapping_in_the_order_of_registration() -> None:
    layers = _layers()
    assert list(layers) == ["spt", "rpf"]
    assert dict(layers) == {"spt": 1, "rpf": 2}
    assert layers.get("flood") is None


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="layer 'spt' is registered already"):
        _layers().register("spt", 3)


@pytest.mark.parametrize("kind", [KeyError, ValueError, UnknownNameError])
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(kind: type[Exception]) -> None:
    layers = _layers()
    with pytest.raises(kind) as caught:
        layers["flood"]
    assert str(caught.value) == "unknown layer 'flood'; expected one of spt, rpf"
    with pytest.raises(kind):
        layers.unregister("flood")


def test_an_entry_can_be_removed() -> None:
    layers = _layers()
    layers.unregister("spt")
    assert list(layers) == ["rpf"]
