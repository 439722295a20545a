"""Encoded traffic for the attacks, with its meaning, and the public distribution it is drawn from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from router.matching.common.columns import to_predicates
from router.predicates.encoded.encoder import Encoder, Hardening, StringHash
from router.predicates.encoded.encodings import Encoding
from router.predicates.encoded.model import Suite
from router.predicates.model import Filter, Message
from testbed.evaluation.attacks.model import Knowledge, Seen, Truth
from testbed.experiments.siena_ff.generate import draw_messages, draw_table
from testbed.experiments.siena_ff.parameters import MatchingWorkload

#: Filters of each subscriber.
_FILTERS_EACH = 5


@dataclass(frozen=True)
class Traffic:
    """Messages and the filters of subscribers, in the clear."""

    messages: Sequence[Message]
    filters: Sequence[tuple[int, Filter]]


def zipf_workload(messages: int, subscribers: int, words: int, seed: int) -> MatchingWorkload:
    """The slides' workload with a smaller dictionary, so that strings recur in hundreds of messages."""
    constraints = 2 * _FILTERS_EACH * subscribers
    return MatchingWorkload(
        constraints, subscribers, messages, seed, (1, 3), (5, 10), words, integers=min(100, words)
    )


def draw_traffic(workload: MatchingWorkload) -> Traffic:
    """Draws messages, and filters of the subscribers 1 to `interfaces`."""
    predicates = to_predicates(draw_table(workload))
    return Traffic(
        list(draw_messages(workload)),
        [(subscriber, filter_) for subscriber, own in predicates.items() for filter_ in own],
    )


def public_knowledge(workload: MatchingWorkload, encoding: Encoding, sample: int = 20_000) -> Knowledge:
    """The public distribution, from a sample with another seed."""
    drawn = draw_traffic(replace(workload, seed=workload.seed + 1_000_003, messages=sample))
    return knowledge_of(drawn, encoding)


def knowledge_of(traffic: Traffic, encoding: Encoding) -> Knowledge:
    """Counts the strings of traffic in the clear."""
    return Knowledge.of_sample(
        ((len(message), encoding.message_strings(message)) for message in traffic.messages),
        (encoding.filter_strings(filter_) for _, filter_ in traffic.filters),
    )


def encoded(
    traffic: Traffic, suite: Suite, encoding: Encoding, hardening: Hardening, seed: int
) -> tuple[Seen, Truth]:
    """Encodes traffic under a key; each subscriber has a secret of its own for the hardening."""
    source = random.Random(seed)
    key = source.randbytes(32)
    sender = Encoder(suite, key, encoding, hardening, source.randbytes(32), source)
    subscribers: dict[int, Encoder] = {}
    filters: dict[tuple[int, int], frozenset[bytes]] = {}
    for subscriber, filter_ in traffic.filters:
        own = subscribers.get(subscriber)
        if own is None:
            own = Encoder(suite, key, encoding, hardening, source.randbytes(32), source)
            subscribers[subscriber] = own
        filters[subscriber, own.filter(filter_).bits] = encoding.filter_strings(filter_)
    return (
        Seen(suite, [sender.message_bits(message) for message in traffic.messages], list(filters)),
        Truth(
            [encoding.message_strings(message) for message in traffic.messages],
            [len(message) for message in traffic.messages],
            list(filters.values()),
            StringHash(suite, key).bits_of,
        ),
    )
