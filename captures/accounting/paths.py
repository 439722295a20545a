"""The path of each message through the network: links crossed, hops and cost, repetitions, stretch."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.expressions import MESSAGE
from captures.accounting.registry import ALWAYS, step, summary, table

#: The lengths of a path to a router, taken and shortest.
LENGTHS = ("hops", "shortest_hops", "cost", "shortest_cost")
_WALKED = (
    "source bigint, seq bigint, node int, from_node int, link int, arrived_ns bigint, hops int, cost bigint"
)
#: The columns of `walk`.
WALKED = pa.schema(
    [
        *(("source", pa.int64()), ("seq", pa.int64()), ("node", pa.int32()), ("from_node", pa.int32())),
        *(("link", pa.int32()), ("arrived_ns", pa.int64()), ("hops", pa.int32()), ("cost", pa.int64())),
    ]
)


@table("repeated_frames", kept=ALWAYS)
def repeated(frames: DataFrame) -> DataFrame:
    """The MSG frames that crossed a link more than once in one direction: evidence of a loop."""
    return (
        frames.where("kind = 'link' and type = 'MSG'")
        .groupBy("link", "from_node", F.col("issuer").alias("source"), "seq", "fragment_index")
        .agg(F.count("*").alias("crossings"))
        .where("crossings > 1")
    )


@summary()
def repeated_total(repeated: DataFrame) -> DataFrame:
    """The key frames_repeated of summary.json: the crossings in `repeated` beyond the first of each."""
    return repeated.agg(F.coalesce(F.sum(F.expr("crossings - 1")), F.lit(0)).alias("frames_repeated"))


@step()
def crossings(frames: DataFrame, trees: DataFrame) -> DataFrame:
    """One row for each message on a link in one direction.

    Args:
        trees: the table `trees`; its `parent` is the neighbour from which a node accepts frames of a source.

    Columns: source, seq, epoch, link, from_node, to_node, first_ns, frames, bytes, on_tree (the receiver
    accepts the source's frames from from_node; null: no TABLE of that epoch was captured).
    """
    crossed = (
        frames.where("kind = 'link' and type = 'MSG' and undecodable is null")
        .groupBy(F.col("issuer").alias("source"), "seq", "epoch", "link", "from_node", "to_node")
        .agg(
            F.min("time_ns").alias("first_ns"),
            F.count("*").alias("frames"),
            F.sum("length").cast("bigint").alias("bytes"),
        )
    )
    parents = trees.select("epoch", F.col("node").alias("to_node"), "source", "parent")
    return (
        crossed.join(parents, ["epoch", "to_node", "source"], "left")
        .withColumn("on_tree", F.col("from_node") == F.col("parent"))
        .drop("parent")
    )


@table("arrivals", kept=ALWAYS)
def arrivals(crossings: DataFrame, links: DataFrame, shortest_paths: DataFrame, one_task: bool) -> DataFrame:
    """The messages at the routers that they reached over links, with their paths.

    Of a message that reached a router over several links, the crossing on the source's tree counts, else the
    first one.
    """
    best = F.struct(F.coalesce(~F.col("on_tree"), F.lit(False)), "first_ns", "from_node", "link")
    into = (
        crossings.where("to_node is not null and to_node <> source")
        .groupBy(*MESSAGE, F.col("to_node").alias("node"))
        .agg(F.min(best).alias("best"))
        .select(*MESSAGE, "node", "best.from_node", "best.link", "best.first_ns")
        .join(F.broadcast(links.select("link", F.col("cost").alias("link_cost"))), "link")
        .select(*MESSAGE, "node", "from_node", "link", F.col("first_ns").alias("arrived_ns"), "link_cost")
    )
    together = into if one_task else into.repartition(*MESSAGE)
    walked = together.mapInArrow(walk, _WALKED)
    return walked.join(shortest_paths, ["source", "node"], "left")


@summary("stretch")
def arrival_totals(arrivals: DataFrame) -> dict[str, float | None]:
    """The mean and the largest stretch, in hops and in cost; null without an arrival."""
    return stretch_totals(arrivals.groupBy(*LENGTHS).agg(F.count("*").alias("arrivals")).toArrow())


def stretch_totals(lengths: pa.Table) -> dict[str, float | None]:
    """The mean and the largest stretch; None without an arrival.

    Stretch is the length of the path taken over the length of the shortest path. The sum is exact, so that it
    depends neither on the engine nor on the order of the rows.

    Args:
        lengths: the columns `LENGTHS`, and `arrivals`, the number of arrivals with these lengths.
    """
    found: dict[str, float | None] = {}
    for what in ("hops", "cost"):
        rows = zip(
            *(lengths[name].to_pylist() for name in (what, f"shortest_{what}", "arrivals")), strict=True
        )
        shares = [(taken / shortest, n) for taken, shortest, n in rows if taken is not None and shortest]
        count = sum(n for _, n in shares)
        found[f"stretch_{what}_mean"] = math.fsum(share * n for share, n in shares) / count if count else None
        found[f"stretch_{what}_max"] = max((share for share, _ in shares), default=None)
    return found


def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows with hops and cost from the source to each (message, node).

    The batches hold all rows of their messages.

    Pointer doubling: each row points to the row by which its upstream node got the message. In each round, a
    row adds the sums of the row that it points to, and then points where that row points.
    """
    held = list(batches)
    if not held:
        return
    table = pa.Table.from_batches(held).combine_chunks()
    source, seq, node, upstream, cost = (
        table[name].to_numpy() for name in ("source", "seq", "node", "from_node", "link_cost")
    )
    # Messages as numbers, so that message and node make one key for sorting.
    together = np.lexsort((seq, source))
    begins = (np.diff(source[together], prepend=-1) != 0) | (np.diff(seq[together], prepend=0) != 0)
    message = np.empty(len(source), dtype=np.int64)
    message[together] = np.cumsum(begins)
    width = int(max(node.max(), upstream.max())) + 1
    key, upstream_key = message * width + node, message * width + upstream
    order = np.argsort(key)
    place = np.minimum(np.searchsorted(key[order], upstream_key), len(order) - 1)
    # Row -1 stands for the source, row -2 for a hop that no capture shows.
    pointer = np.where(key[order][place] == upstream_key, order[place], -2)
    pointer = np.where(upstream == source, -1, pointer)
    hops, costs = np.ones(len(node), dtype=np.int64), cost.astype(np.int64)
    for _ in range(max(1, int(width).bit_length())):
        open_rows = np.flatnonzero(pointer >= 0)
        if not len(open_rows):
            break
        ahead = pointer[open_rows]
        hops[open_rows], costs[open_rows] = hops[open_rows] + hops[ahead], costs[open_rows] + costs[ahead]
        pointer[open_rows] = pointer[ahead]
    # A path that does not end at the source is a loop, or has a gap.
    unknown = pointer != -1
    columns = [table[name].combine_chunks() for name in WALKED.names[:6]]
    columns += [
        pa.array(values, mask=unknown).cast(kind)
        for values, kind in ((hops, pa.int32()), (costs, pa.int64()))
    ]
    yield from pa.table(columns, schema=WALKED).to_batches()
