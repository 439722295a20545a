"""The keys of docs/reference/experiment-file.md, and JSON Schemas (draft 7) of experiment, topology and sweep
files, for editors: both made from the options, the registries and the events.

No schema refuses a valid file: where packages extend a registry, a section may name an entry that is not
known, and then has any keys. A schema cannot say that keys limit each other, or which nodes there are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from captures.rundir.document import bullet, filled
from router.options import FILE_NAME, Option, options_of
from router.registry import Registry
from testbed.evaluation.sweeps.spec import OPTIONS, Plot
from testbed.experiments.config import NAMED, SECTIONS, Experiment
from testbed.experiments.config.events import ACTION
from testbed.experiments.config.schema import toml_value
from testbed.experiments.config.topology import FILE_OPTIONS, GENERATOR
from testbed.experiments.events import Event
from topos import PROPERTIES
from topos.loaders import LINK_OPTIONS, NODE_OPTIONS

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
    """The keys of any entry, each once; as of an entry that can do without the key, where there is one."""
    every = [option for options in entries.values() for option in options]
    found = {option.key: option for option in every}
    return list((found | {option.key: option for option in every if not option.required}).values())


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
    listed_here = listed(option for option in further if option.key not in PROPERTIES)  # [links] has them
    return "\n".join([*lines, "", "Further keys:", "", listed_here])


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


Schema = dict[str, Any]
_TEXT: Schema = {"type": "string", "minLength": 1}
_NODE: Schema = {"type": ["integer", "string"], "minimum": 0, "minLength": 1}
#: Names of nodes by their numbers.
_NAMES: Schema = {"type": "object", "propertyNames": {"pattern": "^[0-9]+$"}, "additionalProperties": _TEXT}


def schema_text(make: Callable[[], Schema]) -> str:
    """The file of a schema."""
    return json.dumps(make(), indent=1, ensure_ascii=False) + "\n"


def experiment_schema() -> Schema:
    found = _table(keys_of(""), topology=_topology())
    for name, declared in SECTIONS.items():
        if declared is not None:
            section = _named(name) if name in CHOICES else _table(keys_of(name))
            found["properties"][name] = {"description": sentence_of(declared, name)} | section
    found["properties"]["events"] = _list(_named("events"))
    found["required"].append("topology")
    # The two workloads exclude each other; `false` is none.
    workload = found["properties"]["workload"]
    workload["properties"]["attention"] = found["properties"].pop("workload.attention")
    workload |= {"type": ["object", "boolean"], "not": {"const": True}}
    workload |= {"if": {"required": ["attention"]}, "then": {"maxProperties": 1}}
    return _document("Experiment", found)


def sweep_schema() -> Schema:
    plot = _table(options_of(Plot), label={"type": "object", "additionalProperties": {"type": "string"}})
    plot["properties"]["x_ticks"] = _list({"type": "number"})
    seeds = _list({"type": "integer", "minimum": 0}, minItems=1, uniqueItems=True)
    seeds |= {"type": ["integer", "array"], "minimum": 1, "description": "Seeds, or how many, from 1 on."}
    values = _values()
    single = {key: {"$ref": f"#/definitions/{key}"} for key in values}
    several = {key: _list(value, minItems=1, uniqueItems=True) for key, value in single.items()}
    keys = {"seeds": seeds, "set": _overrides(single), "grid": _overrides(several), "plot": _list(plot)}
    return _document("Sweep", _table(OPTIONS, **keys) | {"definitions": values})


def _document(title: str, schema: Schema) -> Schema:
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": title} | schema


def _topology() -> Schema:
    """The schema of [topology]: a file, a generator with its keys, or tables."""
    ways = {"file": _table(FILE_OPTIONS, names=_NAMES), "link": _declared_topology()}
    ways["link"]["properties"]["names"] = _NAMES
    found = _named("topology", names=_NAMES)
    found["oneOf"] = [{"required": [way]} for way in ("file", "link", *found.pop("required"))]
    for way, table in ways.items():
        found["properties"] |= table["properties"]
        found["allOf"].append({"if": {"required": [way]}, "then": table})
    return found


def _declared_topology() -> Schema:
    """The schema of a topology that tables declare."""
    node = _table(NODE_OPTIONS)
    del node["required"]  # without any id, the order of the tables gives it
    return _table((), name={"type": "string"}, link=_list(_table(LINK_OPTIONS)), node=_list(node))


def _named(section: str, **more: Schema) -> Schema:
    """The schema of a section that names an entry of an open registry, which gives it further keys."""
    own, choice, entries = keys_of(section), keys_of(section)[0], entries_of(section)
    # An entry of a package may have one of the keys with other values.
    remarks = {option.key: {"description": described(option)} for option in any_of(entries)}
    found = _table(own, **more, **remarks) | {"additionalProperties": True, "allOf": []}
    for name, options in entries.items():
        chosen: Schema = {"properties": {choice.key: {"const": name}}}
        if name != choice.default:
            chosen["required"] = [choice.key]
        found["allOf"].append({"if": chosen, "then": _table((*own, *options), _rules, **more)})
    return found


def _values() -> dict[str, Schema]:
    """The schemas of the values of an experiment that a sweep may set, by dotted key."""
    values: dict[str, Schema] = {"topology": {"type": ["string", "number"]}, "workload": {"enum": [False]}}
    values |= {option.key: _value(option) for option in keys_of("") if option.key != "seed"}
    values |= {f"topology.{option.key}": _value(option) for option in FILE_OPTIONS}
    for name in SECTIONS:
        if name != "events":
            values |= {f"{name}.{option.key}": _value(option) for option in keys_of(name)}
    return values


def _overrides(values: Mapping[str, Schema]) -> Schema:
    """The schema of keys of an experiment, each as `"section.key"` or in tables."""
    # Entries of packages have keys of their own.
    return _nested(values) | {"patternProperties": {rf"^({'|'.join(CHOICES)})\.": True}}


def _nested(values: Mapping[str, Schema], is_open: bool = False) -> Schema:
    found: Schema = dict(values)
    for head in dict.fromkeys(key.partition(".")[0] for key in values if "." in key):
        inner = {key.removeprefix(f"{head}."): values[key] for key in values if key.startswith(f"{head}.")}
        table = _nested(inner, head in CHOICES)
        found[head] = {"anyOf": [values[head], table]} if head in values else table
    return {"type": "object", "properties": found, "additionalProperties": is_open}


def _table(
    options: Sequence[Option], value: Callable[[Option], Schema] | None = None, /, **more: Schema
) -> Schema:
    properties = {option.key: (value or _value)(option) for option in options} | more
    required = [option.key for option in options if option.required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _list(items: Schema, **rules: Any) -> Schema:
    return {"type": "array", "items": items, **rules}


def _value(option: Option) -> Schema:
    found = {"description": described(option)}
    if option.default is not None:
        found["default"] = option.default
    return found | _rules(option)


def _rules(option: Option) -> Schema:
    """The values that an option takes, as `Option.convert` checks them."""
    if option.kind == "boolean":
        return {"type": "boolean"}
    if option.kind == "pair":
        return _list(_NODE, minItems=2, maxItems=2)
    if option.file_name:
        return {"type": "string", "pattern": f"^{FILE_NAME}$"}
    if option.kind == "string":
        if not option.choices:
            return _TEXT
        known = {"enum": list(option.choices)}
        is_open = isinstance(option.choices, Registry) and option.choices.open
        return {"anyOf": [known, _TEXT]} if is_open else known
    bounds = {"exclusiveMinimum" if option.above_low else "minimum": option.low, "maximum": option.high}
    rules = {"type": option.kind} | {key: bound for key, bound in bounds.items() if bound is not None}
    if option.word:
        return {"anyOf": [rules, {"const": option.word}]}
    return rules | _NODE if option.node else rules


#: Name of a file, without `.json` -> its schema.
SCHEMAS: Mapping[str, Callable[[], Schema]] = {
    "experiment": experiment_schema,
    "topology": lambda: _document("Topology", _declared_topology()),
    "sweep": sweep_schema,
}
