"""The keys of docs/reference/experiment-file.md, made from the options, the registries and the events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from captures.rundir.document import bullet, filled
from router.options import Option, options_of
from router.registry import Registry
from testbed.experiments.config import NAMED, SECTIONS, Experiment
from testbed.experiments.config.events import ACTION
from testbed.experiments.config.schema import toml_value
from testbed.experiments.config.topology import FILE_OPTIONS, GENERATOR
from testbed.experiments.events import Event

#: Sections whose first key names an entry of a registry, whose options are further keys of the section.
CHOICES = ("topology", "events", *(name for name, declared in SECTIONS.items() if declared in NAMED))


def keys_of(section: str) -> tuple[Option, ...]:
    """The keys of a section, whatever entry it names; "" is the top level."""
    if section == "topology":
        return (GENERATOR,)
    if section == "events":
        return (ACTION, *options_of(Event))
    return options_of(SECTIONS.get(section) or Experiment)


def entries_of(section: str) -> dict[str, tuple[Option, ...]]:
    """The further keys of a section, by the entry that it names."""
    own = keys_of(section)
    found: dict[str, tuple[Option, ...]] = {}
    for name, entry in own[0].choices.items() if section in CHOICES else ():  # type: ignore[attr-defined]
        options = getattr(entry, "options", entry)
        declared = options if isinstance(options, tuple) else options_of(options)
        found[name] = tuple(option for option in declared if option.key not in {each.key for each in own})
    return found


def any_of(entries: Mapping[str, Iterable[Option]]) -> list[Option]:
    """The keys of any entry, each once."""
    return list({option.key: option for options in entries.values() for option in options}.values())


def topology() -> str:
    return f"{listed(FILE_OPTIONS)}\n{_entries('topology')}"


def sections() -> str:
    """The sections that a dataclass declares, each under a heading."""
    parts = []
    for name, declared in SECTIONS.items():
        if declared is not None:
            parts += [f"## [{name}]", "", filled(sentence_of(declared, name)), ""]
            parts += [listed(keys_of(name), name in CHOICES)]
            parts += [_entries(name)] if name in CHOICES else []
    return "\n".join(parts)


def events() -> str:
    return f"{listed(keys_of('events'), chooses=True)}\n{_entries('events')}"


def _entries(section: str) -> str:
    choice, entries = keys_of(section)[0], entries_of(section)
    docs, further = docs_of(choice), any_of(entries)
    lines = [f"Names of `{choice.key}`, with their further keys:", ""]
    for name, options in entries.items():
        keys = "all" if options == tuple(further) else ", ".join(f"`{option.key}`" for option in options)
        lines.append(bullet(f"`{name}`{f' ({keys})' if keys else ''}: {docs[name]}"))
    return "\n".join([*lines, "", "Further keys:", "", listed(further)])


def sentence_of(options: type, section: str) -> str:
    """The docstring of a section, without its name."""
    text = (options.__doc__ or "").partition("Attributes:")[0]
    words = " ".join(text.split()).removeprefix(f"[{section}]: ")
    return words[:1].upper() + words[1:]


def listed(options: Iterable[Option], chooses: bool = False) -> str:
    """A list of keys; with `chooses`, the names that the first key takes are in a list of their own."""
    lines = []
    for number, option in enumerate(options):
        about = option.doc if chooses and number == 0 else meaning(option)
        lines.append(bullet(f"{_declared(option)}: {about}"))
    return "\n".join(lines) + "\n"


def meaning(option: Option) -> str:
    """The sentence about an option, and those about the entries of its registry."""
    return " ".join([option.doc, *(f"`{name}`: {doc}" for name, doc in docs_of(option).items())])


def docs_of(option: Option) -> Mapping[str, str]:
    """The sentences about the entries of the registry of an option."""
    return option.choices.docs if isinstance(option.choices, Registry) else {}


def described(option: Option) -> str:
    """The meaning, the values and the unit of a key, for a comment and for an editor."""
    return meaning(option) if docs_of(option) else f"{option.doc} ({values(option).replace('`', '')})"


def values(option: Option) -> str:
    if option.kind == "string" and option.choices:
        return ", ".join(f'`"{choice}"`' for choice in option.choices)
    words = option.expected.removeprefix("an ").removeprefix("a ").removesuffix(", at most 1e+09")
    words = words.replace(" from 0 to 1e+09", ", 0 or more").replace("string that is not empty", "text")
    if option.node and option.kind == "integer":
        words += ", or the name of a node"
    return f"{words}; {option.unit.value}" if option.unit.value else words


def _declared(option: Option) -> str:
    """A key, its default, and the values that neither its default nor its meaning, name or page says."""
    default = "" if option.default is None else f" = {toml_text(option.default)}"
    shown = values(option).removesuffix("; experiment seconds").removesuffix("; percent")
    if option.kind == "boolean" or docs_of(option):
        shown = ""
    return ", ".join(filter(None, (f"`{option.key}{default}`", "required" * option.required, shown)))


def toml_text(value: Any) -> str:
    """A value as TOML; whole numbers without a point, as people write them."""
    return toml_value(int(value) if isinstance(value, float) and value.is_integer() else value)
