"""The oracle of attention: records of subscriptions and publications as columns, millions in memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.experiments.workload.constraints import PredicateIndex
from testbed.results.oracle.history import Filters

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

#: The number of a round or a publication that no record mentions.
UNKNOWN = -1
#: Where a router had a publication that it delivered, as its records say: an application had just uploaded
#: it, in an index, or another router sent it. The oracle imports nothing of the router; a test compares them
#: with `router.protocol.services.attention.Origin`.
ORIGINS = ("upload", "ppt", "dpt", "opt", "remote")


@dataclass(slots=True)
class Round:
    """A lifetime of a subscription.

    Attributes:
        home, subscription: the subscription; `number` counts its rounds from 0.
        predicate: number of the predicate in `History`.
        begin_s: when it was registered, seconds of the routers' clock.
        ended_s: when the router ended it; None: no record of it.
        withdrawn: the application withdrew it.
    """

    home: int
    subscription: int
    number: int
    app: str
    predicate: int
    max: int
    begin_s: float
    lifetime_s: float
    freshness_s: float
    ended_s: float | None = None
    withdrawn: bool = False

    @property
    def deadline_s(self) -> float:
        return self.begin_s + self.lifetime_s

    @property
    def over_s(self) -> float:
        """When the lifetime was over: at the deadline, or when the application withdrew it before."""
        ended_s = self.ended_s if self.withdrawn else None
        return self.deadline_s if ended_s is None else min(self.deadline_s, ended_s)


@dataclass(frozen=True)
class History:
    """The records of a run; arrays have a row for each publication, or for each delivery.

    Attributes:
        rounds: in the order in which they began at each home.
        predicates: texts.
        selects: [contents, predicates]: whether a predicate selects publications of these attributes.
        source, seq, uploaded_s, content: of publications, in order of `uploaded_s`; `content` is a row of
            `selects`.
        round_of: of deliveries, position in `rounds`, or UNKNOWN.
        publication_of: of deliveries, position among the publications, or UNKNOWN.
        delivered_s, age_s: of deliveries: when the router decided, and the age that it knew.
        whence: of deliveries: where the router had the publication, place in `ORIGINS`.
        named: of deliveries: home, subscription, round, source, seq.
    """

    rounds: list[Round]
    predicates: list[str]
    selects: Booleans
    source: Integers
    seq: npt.NDArray[np.uint64]
    uploaded_s: Floats
    content: Integers
    round_of: Integers
    publication_of: Integers
    delivered_s: Floats
    age_s: Floats
    whence: npt.NDArray[np.int8]
    named: npt.NDArray[np.uint64]

    @property
    def known(self) -> Booleans:
        """Whether records name both round and publication, for each delivery."""
        known: Booleans = (self.round_of != UNKNOWN) & (self.publication_of != UNKNOWN)
        return known

    def deliveries_from(self) -> dict[str, int]:
        """Returns the deliveries by where the router had the publication."""
        counts = np.bincount(self.whence, minlength=len(ORIGINS)).tolist()
        return dict(zip(ORIGINS, counts, strict=True))

    def lifetimes(self) -> list[tuple[float, float, int, int]]:
        """Returns begin, end, predicate and home of each round, in order of time."""
        return sorted((each.begin_s, each.over_s, each.predicate, each.home) for each in self.rounds)

    def uploads(self) -> Iterator[tuple[float, int, list[int]]]:
        """Yields time, source and the selecting predicates of each publication, in order of time."""
        selecting = [np.flatnonzero(row).tolist() for row in self.selects]
        columns = self.uploaded_s.tolist(), self.source.tolist(), self.content.tolist()
        for at_s, source, content in zip(*columns, strict=True):
            yield at_s, source, selecting[content]


class Collector:
    """Takes records, those of a node in order of time, and makes a `History` of them.

    Args:
        filters_of: returns a predicate, given in the readable notation, as `[[[name, type, operator, value],
            ...], ...]`; raises ValueError if it is none.
    """

    def __init__(self, filters_of: Callable[[str], Filters]) -> None:
        self._filters_of = filters_of
        self._rounds: list[Round] = []
        self._position: dict[tuple[int, int, int], int] = {}
        #: Subscription -> position of its latest round.
        self._latest: dict[tuple[int, int], int] = {}
        self._predicates: dict[str, int] = {}
        self._contents: dict[tuple[tuple[str, str, Any], ...], int] = {}
        self._attributes: list[Mapping[str, Any]] = []
        self._source, self._seq, self._uploaded = array("q"), array("Q"), array("d")
        self._content = array("q")
        self._round_of, self._named = array("q"), array("Q")
        self._delivered, self._age, self._whence = array("d"), array("d"), array("b")

    def take(self, record: Mapping[str, Any]) -> None:
        """Takes a record of `router.records.attention`; other events are left out.

        Raises:
            OverflowError: a number of the record does not fit its column.
            ValueError: the record of a delivery has an unknown `whence`.
        """
        event = record["event"]
        if event == "upload":
            self._source.append(record["source"])
            self._seq.append(record["seq"])
            self._uploaded.append(record["at_s"])
            self._content.append(self._content_of(record["attributes"]))
        elif event == "deliver":
            home, subscription, number = record["node"], record["subscription"], record["round"]
            self._round_of.append(self._position.get((home, subscription, number), UNKNOWN))
            self._named.extend((home, subscription, number, record["source"], record["seq"]))
            self._delivered.append(record["at_s"])
            self._age.append(record["age_s"])
            if record["whence"] not in ORIGINS:
                raise ValueError(f"whence: {record['whence']!r}; expected {' or '.join(ORIGINS)}")
            self._whence.append(ORIGINS.index(record["whence"]))
        elif event in ("register", "refresh"):
            self._begin(record)
        elif event in ("outcome", "unregister"):
            self._end(record)

    def history(self) -> History:
        """Returns what was taken.

        Raises:
            ValueError: a predicate does not parse, or a publication has an attribute of no known type.
        """
        index = PredicateIndex(self._filters_of(text) for text in self._predicates)
        selects = np.zeros((len(self._attributes), len(self._predicates)), np.bool_)
        for row, attributes in enumerate(self._attributes):
            selects[row, list(index.matching(attributes))] = True
        uploaded = np.array(self._uploaded, np.float64)
        order = np.argsort(uploaded, kind="stable")
        source, seq = np.array(self._source, np.int64)[order], np.array(self._seq, np.uint64)[order]
        named = np.array(self._named, np.uint64).reshape(-1, 5)
        rows = {pair: row for row, pair in enumerate(zip(source.tolist(), seq.tolist(), strict=True))}
        pairs = zip(named[:, 3].tolist(), named[:, 4].tolist(), strict=True)
        return History(
            rounds=self._rounds,
            predicates=list(self._predicates),
            selects=selects,
            source=source,
            seq=seq,
            uploaded_s=uploaded[order],
            content=np.array(self._content, np.int64)[order],
            round_of=np.array(self._round_of, np.int64),
            publication_of=np.fromiter((rows.get(pair, UNKNOWN) for pair in pairs), np.int64, len(named)),
            delivered_s=np.array(self._delivered, np.float64),
            age_s=np.array(self._age, np.float64),
            whence=np.array(self._whence, np.int8),
            named=named,
        )

    def _content_of(self, attributes: Mapping[str, Any]) -> int:
        # In Python, unlike in messages, true is 1.
        key = tuple(sorted((name, type(value).__name__, value) for name, value in attributes.items()))
        found = self._contents.get(key)
        if found is None:
            found = self._contents[key] = len(self._contents)
            self._attributes.append(dict(attributes))
        return found

    def _begin(self, record: Mapping[str, Any]) -> None:
        home, subscription, number = record["node"], record["subscription"], record["round"]
        predicate = self._predicates.setdefault(record["predicate"], len(self._predicates))
        self._position[home, subscription, number] = self._latest[home, subscription] = len(self._rounds)
        self._rounds.append(
            Round(
                *(home, subscription, number, record["app"], predicate, record["max"], record["at_s"]),
                *(record["lifetime_s"], record["freshness_s"]),
            )
        )

    def _end(self, record: Mapping[str, Any]) -> None:
        home, subscription = record["node"], record["subscription"]
        number = record.get("round")
        position = (
            self._latest.get((home, subscription))
            if number is None
            else self._position.get((home, subscription, number))
        )
        if position is None:
            return
        found = self._rounds[position]
        if found.ended_s is None:
            found.ended_s = record["at_s"]
            found.withdrawn = record["event"] == "unregister" or record["outcome"] == "withdrawn"
