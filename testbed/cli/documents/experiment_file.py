"""The tables of docs/reference/experiment-file.md, made from the options, the registries and the events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from router.options import Option, Unit, options_of
from router.registry import Registry
from testbed.experiments.config import NAMED, SECTIONS, Experiment
from testbed.experiments.config.events import ACTION
from testbed.experiments.config.schema import toml_value
from testbed.experiments.config.topology import FILE_OPTIONS, GENERATOR
from testbed.experiments.events import Event

#: Section -> the key that names an entry of a registry, whose options are further keys of the section.
CHOICES: Mapping[str, Option] = {
    "topology": GENERATOR,
    "events": ACTION,
    **{name: options_of(cls)[0] for name, cls in SECTIONS.items() if cls and cls in NAMED},
}


def keys_of(section: str) -> tuple[Option, ...]:
    """The keys of a section, whatever entry it names; "" is the top level."""
    if section == "topology":
        return (GENERATOR,)
    if section == "events":
        return (ACTION, *options_of(Event))
    return options_of(SECTIONS.get(section) or Experiment)


def entries_of(section: str) -> dict[str, tuple[Option, ...]]:
    """The further keys of a section, by the entry that it names."""
    found: dict[str, tuple[Option, ...]] = {}
    known = {option.key for option in keys_of(section)}
    for name, entry in registry_of(section).items():
        options = getattr(entry, "options", entry)
        declared = options if isinstance(options, tuple) else options_of(options)
        found[name] = tuple(option for option in declared if option.key not in known)
    return found


def registry_of(section: str) -> Registry[Any]:
    """The registry of the entries of a section of `CHOICES`."""
    registry = CHOICES[section].choices
    assert isinstance(registry, Registry)
    return registry


def any_of(entries: Mapping[str, Iterable[Option]]) -> list[Option]:
    """The keys of any entry, each once."""
    return list({option.key: option for options in entries.values() for option in options}.values())


def topology() -> str:
    return table(FILE_OPTIONS) + _entries("topology")


def sections() -> str:
    """The sections that a dataclass declares, each under a heading."""
    parts = []
    for name, declared in SECTIONS.items():
        if declared is not None:
            parts += [f"## [{name}]\n\n{sentence_of(declared, name)}\n\n{table(keys_of(name))}"]
            parts += [_entries(name)] if name in CHOICES else []
    return "\n".join(parts)


def events() -> str:
    return table(keys_of("events")) + _entries("events")


def _entries(section: str) -> str:
    entries, docs = entries_of(section), registry_of(section).docs
    further = any_of(entries)
    lines = ["", f"| {CHOICES[section].key} | meaning | further keys |", "|---|---|---|"]
    for name, options in entries.items():
        keys = "all" if options == tuple(further) else ", ".join(f"`{option.key}`" for option in options)
        lines.append(f"| `{name}` | {docs[name]} | {keys} |")
    return "\n".join([*lines, "", table(further)])


def sentence_of(options: type, section: str) -> str:
    """The docstring of a section, without its name."""
    text = (options.__doc__ or "").partition("Attributes:")[0]
    words = " ".join(text.split()).removeprefix(f"[{section}]: ")
    return words[:1].upper() + words[1:]


def table(options: Iterable[Option]) -> str:
    lines = ["| key | values | default | meaning |", "|---|---|---|---|"]
    for option in options:
        # Those of the entries of a section are in a table of their own.
        text = option.doc if option in CHOICES.values() else meaning(option)
        lines.append(f"| `{option.key}` | {values(option)} | {_default(option)} | {text} |")
    return "\n".join(lines) + "\n"


def meaning(option: Option) -> str:
    """The sentence about an option, and those about the entries of its registry."""
    if not isinstance(option.choices, Registry):
        return option.doc
    return " ".join([option.doc, *(f"`{name}`: {doc}" for name, doc in option.choices.docs.items())])


def described(option: Option) -> str:
    """The meaning, the values and the unit of a key, for a comment and for an editor."""
    if isinstance(option.choices, Registry):
        return meaning(option)
    words, unit = values(option).replace("`", ""), option.unit.value
    return f"{option.doc} ({words}{'' if unit in words else f'; {unit}'})"


def values(option: Option) -> str:
    if option in (GENERATOR, ACTION):
        return "a name below"
    if option.kind == "string" and option.choices:
        return ", ".join(f'`"{choice}"`' for choice in option.choices)
    words = option.expected.removeprefix("an ").removeprefix("a ").removesuffix(", at most 1e+09")
    words = words.replace(" from 0 to 1e+09", ", 0 or more").replace("string that is not empty", "text")
    if option.node and option.kind == "integer":
        words += ", or the name of a node"
    unit = unit_of(option)
    return f"{words}; {unit}" if unit else words


def _default(option: Option) -> str:
    if option.required:
        return "required"
    return "" if option.default is None else f"`{toml_text(option.default)}`"


def unit_of(option: Option) -> str:
    """The unit as a page names it; none where the key says it, or the head of the page."""
    named = (Unit.NONE, Unit.PERCENT, Unit.PER_MINUTE, Unit.EXPERIMENT_SECONDS)
    return "" if option.unit in named else option.unit.value


def toml_text(value: Any) -> str:
    """A value as TOML; whole numbers without a point, as people write them."""
    return toml_value(int(value) if isinstance(value, float) and value.is_integer() else value)
