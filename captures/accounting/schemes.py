"""The memory of a routing scheme, counted, and its delivery function against the minimal one.

Slides on routing, part III: M(scheme) is the sum over routers of the memory for their functions Init, Hdr and
Fwd. The predicates are counted in the routing tables at the end of the run, in filters, constraints and bytes
as they are sent; broadcast and unicast state and the predicates that are kept beside the forwarding state are
counted apart, since the slides count forwarding state alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

import pyarrow as pa

from captures.accounting.inputs import Inputs
from captures.accounting.log_tables import as_table
from captures.rundir.files import RunFolderError
from captures.rundir.routing_tables import ROUTING_TABLES, TableRow, by_predicate
from router.predicates import Predicate
from router.predicates.encoded import BloomPredicate
from router.wire import private
from router.wire.predicate import encode_predicate

#: Forwarding state for the sources that sent messages in the run; `forwarding` is for all sources.
SENDERS = "forwarding_senders"
_SCHEMA = pa.schema(
    [("node", pa.int32()), ("part", pa.string()), ("unit", pa.string()), ("value", pa.int64())]
)


class Size(NamedTuple):
    """The size of a predicate.

    Attributes:
        bytes: of its FILTER TLVs (docs/reference/wire-format.md).
    """

    filters: int
    constraints: int
    bytes: int


def size_of(predicate: Predicate) -> Size:
    if isinstance(predicate, BloomPredicate):
        return Size(len(predicate), 0, len(private.encode_predicate(predicate)))
    return Size(len(predicate), sum(map(len, predicate)), len(encode_predicate(predicate)))


def scheme_name(inputs: Inputs) -> str:
    """The routing scheme of the experiment."""
    return str(inputs.experiment.get("routing", {}).get("scheme", ""))


def held(inputs: Inputs) -> pa.Table:
    """The predicates in the routing tables and the next hops, by node, part and unit.

    Raises:
        RunFolderError: a predicate of the tables is malformed.
    """
    senders = frozenset(inputs.senders)
    nodes = len(inputs.topology.nodes)
    degree = Counter(end for link in inputs.topology.links for end in (link.u, link.v))
    hop_bits = (max(degree.values(), default=1) - 1).bit_length()
    rows: list[tuple[int, str, str, int]] = []
    size_of_row = by_predicate(size_of)
    for node, entries in ROUTING_TABLES.read(inputs.run).items():
        total: Counter[tuple[str, str]] = Counter()
        for entry in entries:
            try:
                size = size_of_row(entry)
            except ValueError as error:
                raise RunFolderError(f"{inputs.run.routing_tables}: node {node}: {error}") from error
            for part, copies in _parts(entry, senders):
                for unit, value in size._asdict().items():
                    total[part, unit] += copies * value
        rows += [(node, part, unit, value) for (part, unit), value in total.items()]
        rows.append((node, "unicast", "bits", (nodes - 1) * hop_bits))
        counters = inputs.router_counters.get(node, {})
        if "engine_bytes" in counters:
            rows.append((node, "engine", "bytes", counters["engine_bytes"]))
    return as_table(rows, _SCHEMA)


def _parts(entry: TableRow, senders: Collection[int]) -> Iterator[tuple[str, int]]:
    """The parts that an entry counts in, and how often."""
    part, sources = entry.get("part", "forwarding"), entry.get("sources")
    if part != "forwarding":
        yield part, 1
        return
    if sources is None:
        yield part, 1
        yield SENDERS, 1
        return
    sending = sum(source in senders for source in sources)
    copies = entry.get("copies", False)
    yield part, len(sources) if copies else 1
    yield SENDERS, sending if copies else min(sending, 1)
