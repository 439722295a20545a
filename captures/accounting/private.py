"""The precision of private matching: deliveries of routers to members, and why members discarded some.

A router delivers what matches the encoding. The member opens a message, evaluates its exact predicate, and
discards the rest by cause (`router.privacy.member.Discard`). A message crosses a link for a cause if the link
leads to a member that discarded the message for it, on the broadcast tree of the source, and to none that
kept it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from captures.accounting.baselines import message_epochs, paths_to, trees_of
from captures.accounting.inputs import Inputs

_Message = tuple[int, int]
_Receivers = Mapping[str | None, set[int]]
#: The causes whose crossings are counted apart, in the order in which they take links; then all others.
_CAUSES = ("operator", "hash")


def private_keys(inputs: Inputs, trees: pa.Table, seen: pa.Table) -> dict[str, Any]:
    """Returns the key `private` of summary.json for a private run.

    Args:
        trees: the table of this name.
        seen: source, seq, epoch and crossings of the messages that the captures of links show.
    """
    receivers: defaultdict[_Message, dict[str | None, set[int]]] = defaultdict(lambda: defaultdict(set))
    causes: Counter[str | None] = Counter()
    for row in (*inputs.log.deliveries.to_pylist(), *inputs.log.discarded.to_pylist()):
        cause = row.get("discard_cause")
        causes[cause] += 1
        receivers[row["source"], row["seq"]][cause].add(row["node"])
    delivered, kept = causes.total(), causes.pop(None, 0)
    crossed = _crossings(inputs, trees, seen, receivers) if inputs.sees_crossings else None
    return {
        "delivered": delivered,
        "kept": kept,
        "discarded": dict(sorted((str(cause), count) for cause, count in causes.items())),
        "precision": kept / delivered if delivered else None,
        **{f"{cause}_share": causes[cause] / delivered if delivered else None for cause in _CAUSES},
        "crossings": crossed,
        "unwanted_crossings": None if crossed is None else sum(crossed.values()) - crossed["kept"],
    }


def _crossings(
    inputs: Inputs, trees: pa.Table, seen: pa.Table, receivers: Mapping[_Message, _Receivers]
) -> dict[str, int]:
    """Returns the crossings of links by messages, by what they lead to.

    Args:
        seen: see `private_keys`.
        receivers: message -> the nodes of members that got it, by cause; None: they kept it.
    """
    tree_at, _ = trees_of(trees)
    epochs = message_epochs(inputs.log.sent, trees, seen)
    crossed: Counter[str] = Counter()
    for row in seen.to_pylist():
        message = row["source"], row["seq"]
        own: _Receivers = receivers.get(message, {})
        tree = tree_at.get((row["source"], epochs.get(message, -1)), {})
        paths: set[int] = set()
        for name in (None, *_CAUSES, *(cause for cause in own if cause not in (None, *_CAUSES))):
            further = paths_to(tree, own.get(name, ())) - paths
            crossed["kept" if name is None else name if name in _CAUSES else "other"] += len(further)
            paths |= further
        crossed["no_delivery"] += row["crossings"] - len(paths)
    return {name: crossed[name] for name in ("kept", *_CAUSES, "other", "no_delivery")}
