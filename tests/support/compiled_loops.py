"""The loops of the readers of captures, compiled or as plain Python, whatever the amount of data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

#: The modules that choose.
_CHOOSERS = tuple(
    f"captures.{name}"
    for name in (
        "pcap.reader",
        "pcap.gather",
        "pcap.links",
        "pcap.internet",
        "frames.parts",
        "frames.decoder",
        "frames.traffic",
    )
)


@contextmanager
def loops(*, compiled: bool) -> Iterator[None]:
    """Makes all readers of this process use compiled loops, or none, while the context lasts."""
    modules = [import_module(name) for name in _CHOOSERS]
    before = [module.should_compile for module in modules]
    try:
        for module in modules:
            module.should_compile = lambda _size: compiled  # type: ignore[attr-defined]
        yield
    finally:
        for module, chooser in zip(modules, before, strict=True):
            module.should_compile = chooser  # type: ignore[attr-defined]
