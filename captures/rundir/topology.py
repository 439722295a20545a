"""The topology of a run."""

from __future__ import annotations

from dataclasses import fields

from captures.rundir.files import RunFolderError, read_text
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile
from topos.loaders import from_json, to_json
from topos.model import Link, Node, Topology, TopologyError

FILE = RunFile(
    lambda run: [run.topology],
    "The network: `name`, `nodes` (objects with {}) and `links` (objects with {}), with the meaning that "
    "`topos.model` gives them.".format(
        *(", ".join(f"`{each.name}`" for each in fields(kind)) for kind in (Node, Link))
    ),
)


def read_topology(run: RunLayout) -> Topology:
    """Reads the topology.

    Raises:
        RunFolderError: the file is missing or is no valid topology.
    """
    text = read_text(run.topology)
    try:
        return from_json(text)
    except TopologyError as error:
        raise RunFolderError(f"{run.topology}: {error}") from error
    except RecursionError as error:
        raise RunFolderError(f"{run.topology}: is nested too deeply") from error


def write_topology(run: RunLayout, topology: Topology) -> None:
    """Writes the topology.

    Raises:
        OSError: the file cannot be written.
    """
    run.topology.write_text(to_json(topology), encoding="utf-8")
