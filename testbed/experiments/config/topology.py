"""The [topology] and [links] sections: a file, a generator or declared links; defaults for links.

Also the values that the command line sets over those of the file, of any section, and the short form
`--topology waxman,100`.
"""

from __future__ import annotations

import atexit
import tomllib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from router.options import Option
from testbed.experiments.config import SECTIONS
from testbed.experiments.config.schema import Problems, read_fields, toml_value
from testbed.support.errors import InputError
from topos import Link, LinkProperties, Topology, TopologyError, loaders, unknown
from topos.build import check_names
from topos.generators import GENERATORS

#: The ways to give a topology, for errors.
TOPOLOGY_WAYS = 'one of file = "NAME", generator = "NAME" and [[topology.link]] tables'
_WAYS = ("file", "generator", "link")
#: The keys of a [topology] that is a file.
FILE_OPTIONS = (
    Option(
        "file",
        "string",
        required=True,
        doc="Topology file: .toml, .json, BRITE's .brite or .graphml; or the name of a shipped one: `att`,"
        " `dfn`, `geant2012` (Topology Zoo), `telstra` (Rocketfuel).",
    ),
    Option(
        "keep_properties",
        "boolean",
        default=False,
        doc="Links keep the bandwidths and delays of a BRITE or GraphML file; a note says if they do not.",
    ),
    Option(
        "largest",
        "boolean",
        default=False,
        doc="Of a GraphML file that is not connected, the greatest connected part; a note says so.",
    ),
)

#: The key of a [topology] that is generated.
GENERATOR = Option("generator", "string", choices=GENERATORS, required=True, doc="Generator of the topology.")


#: Files that were taken out of an archive: a worker of a cluster imports the testbed from one.
_unpacked = ExitStack()
atexit.register(_unpacked.close)


@cache
def shipped(*folder: str) -> dict[str, Path]:
    """The experiments that come with the testbed, or of the folder `topologies` those, by name, sorted."""
    found = files("testbed.experiments").joinpath("shipped", *folder).iterdir()
    entries = {Path(entry.name): entry for entry in found}
    names = sorted(name for name in entries if name.suffix == ".toml")
    return {name.stem: _unpacked.enter_context(as_file(entries[name])) for name in names}


def read_topology(
    problems: Problems, table: Mapping[str, object], folder: Path, seed: int
) -> Topology | None:
    """The topology that a [topology] table describes, or None if it has problems.

    Args:
        folder: where a relative `file` is looked up.
        seed: of the experiment; a random generator's default.
    """
    ways = [key for key in _WAYS if key in table]
    if len(ways) != 1:
        found = " and ".join(ways) if ways else "nothing"
        problems.add("topology", "", f"has {found}; expected {TOPOLOGY_WAYS}")
        return None
    names = table.get("names", {})
    topology = _read_way(problems, {key: table[key] for key in table if key != "names"}, folder, seed)
    if topology is None or names == {}:
        return topology
    return _make(problems, "names", lambda: _named(topology, names))


def _read_way(problems: Problems, table: Mapping[str, object], folder: Path, seed: int) -> Topology | None:
    """The topology without the names of [topology.names]."""
    before = len(problems)
    if "link" in table:
        return _make(problems, "", lambda: loaders.from_table("topology", table))
    if "file" in table:
        values = read_fields(problems, "topology", table, FILE_OPTIONS)
        if len(problems) > before:
            return None
        name = values.pop("file")
        path = shipped("topologies").get(name, folder / name)
        return _make(problems, "file", lambda: loaders.load(path, **values))
    name = table["generator"]
    generator = GENERATORS.get(name) if isinstance(name, str) else None
    if generator is None:
        problems.add("topology", "generator", unknown("generator", str(name), GENERATORS))
        return None
    parameters = {key: value for key, value in table.items() if key != "generator"}
    values = read_fields(problems, "topology", parameters, generator.options)
    if len(problems) > before:
        return None
    values.setdefault("seed", seed)
    return _make(problems, "", lambda: generator.generate(values))


def _make(problems: Problems, key: str, make: Callable[[], Topology]) -> Topology | None:
    try:
        return make()
    except TopologyError as error:
        problems.add("topology", key, str(error))
        return None


def _named(topology: Topology, names: object) -> Topology:
    """The topology, with the names of a table number -> name in place of its own.

    Raises:
        TopologyError: there is no such node, a name is no name, or two nodes have one.
    """
    if not isinstance(names, Mapping):
        raise TopologyError('expected a table of numbers and names, such as { 3 = "Berlin" }')
    nodes = list(topology.nodes)
    for key, name in names.items():
        number = int(key) if key.isascii() and key.isdigit() else -1
        if not 0 <= number < len(nodes):
            raise TopologyError(f"there is no node {key}; expected 0 to {len(nodes) - 1}")
        nodes[number] = replace(nodes[number], name=loaders.node_name(f"node {key}", name))
    check_names(nodes)
    return replace(topology, nodes=tuple(nodes))


def with_link_defaults(topology: Topology, defaults: LinkProperties) -> Topology:
    """The topology, where links take from `defaults` the properties that they do not declare."""

    def complete(link: Link) -> Link:
        missing = {key: value for key, value in vars(defaults).items() if getattr(link, key) is None}
        return replace(link, **missing)

    return replace(topology, links=tuple(map(complete, topology.links)))


def parse_topology_argument(argument: str, folder: Path = Path()) -> dict[str, str]:
    """The overrides that a `--topology` argument stands for.

    A file name with a known suffix (taken relative to `folder`, the working directory), the name of a shipped
    topology, or a generator with its parameters, by position or name: "ring,5", "waxman,100,beta=0.3".

    Raises:
        InputError: neither.
    """
    if argument in shipped("topologies"):
        return {"topology.file": toml_value(argument)}
    if argument.lower().endswith(loaders.SUFFIXES):
        return {"topology.file": toml_value(str((folder / argument).resolve()))}
    name, *parameters = (part.strip() for part in argument.split(","))
    generator = GENERATORS.get(name)
    if generator is None:
        named = unknown("generator or shipped topology", name, [*GENERATORS, *shipped("topologies")])
        raise InputError(f"topology {argument!r}: {named} (or a file: {', '.join(loaders.SUFFIXES)})")
    keys = [option.key for option in generator.options]
    overrides: dict[str, str] = {"topology.generator": toml_value(name)}
    for position, parameter in enumerate(parameters):
        key, equals, value = parameter.partition("=")
        if not equals:
            if position >= len(keys):
                raise InputError(
                    f"topology {argument!r}: too many parameters; expected {name},{','.join(keys)}"
                )
            key, value = keys[position], parameter
        elif key not in keys:
            raise InputError(f"topology {argument!r}: {unknown('parameter', key, keys)}")
        if not value:
            raise InputError(f"topology {argument!r}: {key} is empty; expected a value")
        if f"topology.{key}" in overrides:
            raise InputError(f"topology {argument!r}: {key} is given twice")
        overrides[f"topology.{key}"] = value
    return overrides


def parse_value(text: str) -> Any:
    """A value as TOML reads it; what is not a single TOML value is a string: `ring`, `a/b.brite`."""
    try:
        document = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    # A text with a line break could smuggle in further keys.
    return document["value"] if document.keys() == {"value"} else text


def apply_overrides(
    problems: Problems, document: Mapping[str, Any], overrides: Mapping[str, str]
) -> dict[str, Any]:
    """The document with each override set: "key" at the top level, or "section.key".

    A section that the file does not have, or has as `false`, is made. A file, or another generator, has its
    own parameters: the keys of [topology] are dropped.
    """
    values = {dotted: parse_value(text) for dotted, text in overrides.items()}
    result = {**document, **{key: value for key, value in values.items() if "." not in key}}
    topology = result.get("topology")
    if isinstance(topology, dict):
        generator = topology.get("generator")
        if "topology.file" in values or values.get("topology.generator", generator) != generator:
            result["topology"] = {}
    for dotted, value in values.items():
        section, dot, key = dotted.rpartition(".")
        if not dot:
            continue
        if not key or ("." in section and section not in SECTIONS):
            problems.add("", dotted, "expected KEY=VALUE or SECTION.KEY=VALUE")
            continue
        table = result
        for part in section.split("."):
            inner = table.get(part) or {}
            if not isinstance(inner, dict):
                text = "is not a section of keys; expected an override of another key"
                problems.add("", section, text)
                break
            table[part] = dict(inner)
            table = table[part]
        else:
            table[key] = value
    return result
