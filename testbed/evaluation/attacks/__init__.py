"""Attacks on encoded traffic: the material of an attack and its result; encoded traffic to attack.

Threat model: a router that follows the protocol, reads every frame, holds no key, and knows the encoding and
the public distribution of names and values (slides, part IV: "privacy in the presence of an untrusted
network").
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from router.matching.columns import to_predicates
from router.predicates import Filter, Message
from router.predicates.encoded import Suite
from router.predicates.encoded.encoder import Encoder, Hardening, StringHash
from router.predicates.encoded.encodings import Encoding
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table


@dataclass(frozen=True)
class Seen:
    """The sets of bits that a router sees.

    Attributes:
        suite: the suite of all of them.
        messages: B_m of each message.
        filters: issuer and B_f of each filter that an issuer advertises, once.
    """

    suite: Suite
    messages: Sequence[int]
    filters: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class Truth:
    """The meaning of the sets of bits: the measure of success.

    Attributes:
        messages: S_m of each message of `Seen.messages`.
        attributes: the number of attributes of each.
        filters: S_f of each filter of `Seen.filters`; None: not known.
        bits_of: B(x) of a string, under the key.
    """

    messages: Sequence[frozenset[bytes]]
    attributes: Sequence[int]
    filters: Sequence[frozenset[bytes] | None]
    bits_of: Callable[[bytes], int]


@dataclass(frozen=True)
class Knowledge:
    """The public distribution: shares, estimated from a sample that the attacker draws.

    Attributes:
        message_strings: string -> share of messages that have it.
        filter_strings: string -> share among filters of one string.
        attributes: number of attributes -> share of messages.
        strings_an_attribute: mean number of strings for each attribute of a message.
    """

    message_strings: Mapping[bytes, float]
    filter_strings: Mapping[bytes, float]
    attributes: Mapping[int, float]
    strings_an_attribute: float


@dataclass(frozen=True)
class Outcome:
    """The result of an attack.

    Attributes:
        targets: the values to be identified; for guesses of sets, wrong guesses count as targets too.
        right: how many were identified.
        baseline: the share that a guess without the frames identifies.
    """

    targets: int
    right: int
    baseline: float

    @property
    def share(self) -> float:
        """The share that was identified; 0 without targets."""
        return self.right / self.targets if self.targets else 0.0


def by_frequency(strings: Mapping[bytes, float]) -> list[bytes]:
    """Strings from the most frequent on; equally frequent ones in the order of their bytes."""
    return sorted(strings, key=lambda string: (-strings[string], string))


#: Filters of each subscriber.
_FILTERS_EACH = 5
#: The seed of the sample of the public distribution is that of the traffic and this number.
OTHER_SEED = 1_000_003


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
    drawn = draw_traffic(replace(workload, seed=workload.seed + OTHER_SEED, messages=sample))
    return knowledge_of(drawn, encoding)


def knowledge_of(traffic: Traffic, encoding: Encoding) -> Knowledge:
    """Counts the strings of traffic in the clear."""
    sizes = Counter(map(len, traffic.messages))
    strings = Counter(each for message in traffic.messages for each in encoding.message_strings(message))
    own = (encoding.filter_strings(filter_) for _, filter_ in traffic.filters)
    single = Counter(string for of_filter in own if len(of_filter) == 1 for string in of_filter)
    total, attributes = sizes.total(), sum(map(len, traffic.messages))
    return Knowledge(
        {string: count / total for string, count in strings.items()},
        {string: count / single.total() for string, count in single.items()},
        {number: count / total for number, count in sizes.items()},
        strings.total() / max(attributes, 1),
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
        if subscriber not in subscribers:
            subscribers[subscriber] = Encoder(suite, key, encoding, hardening, source.randbytes(32), source)
        bits = subscribers[subscriber].filter(filter_).bits
        filters[subscriber, bits] = encoding.filter_strings(filter_)
    return (
        Seen(suite, [sender.message_bits(message) for message in traffic.messages], list(filters)),
        Truth(
            [encoding.message_strings(message) for message in traffic.messages],
            [len(message) for message in traffic.messages],
            list(filters.values()),
            StringHash(suite, key).bits_of,
        ),
    )
