"""The tables of a run as a whole, and of its topology."""

from __future__ import annotations

import pyarrow as pa

from captures.accounting.inputs import Inputs
from captures.tables.catalogue import TABLES


def run(inputs: Inputs) -> pa.Table:
    """The run as a whole."""
    clock = inputs.clock
    row = {
        "experiment": inputs.manifest.get("experiment"),
        "seed": inputs.manifest.get("seed"),
        "datapath": inputs.manifest["datapath"],
        "start_ns": clock.start_ns,
        "last_ns": inputs.log.last_ns,
        "last_s": inputs.last_s,
        "time_scale": inputs.time_scale,
        "width_s": inputs.bin_s,
        "clock": [
            {"start_ns": piece.start_ns, "experiment_s": piece.experiment_s, "rate": piece.rate}
            for piece in clock.pieces
        ],
    }
    return pa.Table.from_pylist([row], schema=TABLES["run"].schema)


def links(inputs: Inputs) -> pa.Table:
    """The links of the topology."""
    schema = TABLES["links"].schema
    properties = [name for name in schema.names if name != "link"]
    rows = [
        {"link": link.index, **{name: getattr(link, name) for name in properties}} for link in inputs.links
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def nodes(inputs: Inputs) -> pa.Table:
    """The nodes of the topology."""
    rows = [{"node": node.id, "x": node.x, "y": node.y, "name": node.name} for node in inputs.topology.nodes]
    return pa.Table.from_pylist(rows, schema=TABLES["nodes"].schema)
