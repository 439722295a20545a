"""The random workload of an experiment (protocol paper, section 4.1)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from random import Random

from router.predicates.parser import parse_predicate
from router.predicates.printer import format_predicate, predicate_to_json
from testbed.experiments.config import Experiment, WorkloadOptions
from testbed.experiments.config.load import contents_of
from testbed.experiments.events import APPLICATION, ApplicationEvent, NamesInForce, Place
from testbed.experiments.workload import Generated, Item, Workload
from testbed.experiments.workload.attention import REQUESTS, Demand
from testbed.experiments.workload.constraints import PredicateIndex
from testbed.experiments.workload.given import given_items
from testbed.support.errors import InputError


def generate(experiment: Experiment) -> Workload:
    """Generates the workload of an experiment: random senders and receivers, and the experiment's events.

    Senders and receivers are drawn at random (the percentage of the nodes, rounded half up, and at least one
    if it is above zero). A sender is a Poisson process from `first_message_s` on. A receiver sets a predicate
    at `first_predicate_s` and, if it is among those that change, further predicates at the times of a Poisson
    process from then on. Events at link level are not part of a workload. With [workload.attention], the
    workload of table 1 takes the place of senders and receivers
    (`testbed.experiments.workload.attention`); so do the requests of a trace or of a generator
    (`testbed.experiments.workload.given`), of which those after the end are left out.

    The result depends on the experiment alone. Every purpose has a separate random stream, made from the seed
    and a label, so that, for example, a higher message rate does not draw other receivers or predicates.

    Raises:
        InputError: a trace or a generator cannot be used; names file and line, or generator and item; or the
            service lacks the commands for the requests of [workload.attention].
    """
    items = [
        Item(event.at_s, event.node, event.action, **event.content(), app=event.app)
        for event in experiment.events
        if isinstance(event, ApplicationEvent) and event.at_s <= experiment.duration_s
    ]
    if experiment.attention is not None:
        return _attention(experiment, items)
    senders: list[int] = []
    receivers: list[int] = []
    options = experiment.workload
    given = given_items(experiment, _stream(experiment.seed, "generator"))
    if given is not None:
        items.extend(item for item in given if item.at_s <= experiment.duration_s)
        senders = sorted({item.node for item in items if item.attributes is not None})
        receivers = sorted({item.node for item in items if item.predicate is not None})
    elif options is not None:
        nodes = [node.id for node in experiment.topology.nodes]
        senders = _draw_share(_stream(experiment.seed, "senders"), nodes, options.senders_percent)
        receivers = _draw_share(_stream(experiment.seed, "receivers"), nodes, options.receivers_percent)
        items.extend(_drawn(experiment, options, senders, receivers))
    # Of items at equal times, predicates precede messages. The sort is stable: an event of the experiment
    # precedes a drawn item of its node.
    items.sort(key=lambda item: (item.at_s, item.attributes is not None, item.node))
    if given is not None:
        _check_names(experiment, items)
    return Workload(tuple(items), tuple(sorted(senders)), tuple(sorted(receivers)))


def _check_names(experiment: Experiment, items: list[Item]) -> None:
    """Checks the names of subscriptions of requests that were not drawn, in their order.

    Raises:
        InputError: a name is taken twice, or given back while it is not in force.
    """
    assert experiment.workload is not None
    place = experiment.workload.trace or f"workload.generator: {experiment.workload.generator}"
    names = NamesInForce()
    for item in items:
        if problem := names.follow(item.event, item.place, item.subscription, item.at_s):
            raise InputError(f"{place}: subscription: {problem}")


def _attention(experiment: Experiment, events: list[Item]) -> Workload:
    """The workload of [workload.attention], generated as it is read, and the events of the experiment."""
    demand = Demand.of(experiment)
    served = set(experiment.commands)
    for commands in REQUESTS:
        if served.issuperset(commands):
            break
    else:
        expected = " or ".join(", ".join(needed) for needed in REQUESTS)
        raise InputError(
            f'service "{experiment.service.kind}": cannot serve [workload.attention]; expected the commands '
            f"{expected}"
        )
    events.sort(key=_order)

    def items() -> Iterator[Item]:
        return heapq.merge(events, REQUESTS[commands](demand), demand.published(commands[-1]), key=_order)

    nodes = tuple(node.id for node in experiment.topology.nodes)
    return Workload(Generated(items), nodes, tuple(sorted({each.node for each in demand.subscriptions})))


def _order(item: Item) -> tuple[float, bool]:
    return item.at_s, item.attributes is not None


def match_distribution(workload: Workload) -> list[float]:
    """Returns, for each message in order, the share of the predicates in force that select it (0..1).

    The measure of figure 10 of the protocol paper. Messages sent while no predicate is in force are left out.

    Raises:
        router.predicates.parser.ParseError: a predicate does not parse.
    """
    return [len(selecting) / asking for _, selecting, asking in selected(workload) if asking]


def selected(workload: Workload) -> Iterator[tuple[Item, list[Place], int]]:
    """Follows the predicates in force from message to message.

    Yields:
        Each message in order, the applications whose predicates select it, and how many applications have had
        a predicate.

    Raises:
        router.predicates.parser.ParseError: a predicate does not parse.
    """
    texts = sorted({item.predicate for item in workload.items if item.predicate is not None})
    number_of = {text: number for number, text in enumerate(texts)}
    index = PredicateIndex(predicate_to_json(parse_predicate(text)) for text in texts)
    in_force: dict[Place, dict[str | None, int]] = {}
    for item in workload.items:
        if item.max is not None:
            continue  # The item does not say when such a subscription is full.
        if item.predicate is not None:
            in_force.setdefault(item.place, {})[item.subscription] = number_of[item.predicate]
        elif item.subscription is not None:
            in_force.get(item.place, {}).pop(item.subscription, None)
        elif item.attributes is not None:
            matching = index.matching(item.attributes)
            selecting = [place for place, own in in_force.items() if not matching.isdisjoint(own.values())]
            yield item, selecting, len(in_force)


def _stream(seed: int, label: str) -> Random:
    # A string seeds by its SHA-512, which is equal on every Python; the hash of a tuple is not.
    return Random(f"{seed}/{label}")


def _draw_share(random: Random, nodes: list[int], percent: float) -> list[int]:
    """Draws a share of the nodes; a larger percentage of equal nodes contains the smaller share."""
    count = min(len(nodes), max(int(len(nodes) * percent / 100 + 0.5), 1 if percent > 0 else 0))
    shuffled = sorted(nodes)
    random.shuffle(shuffled)
    return sorted(shuffled[:count])


def _poisson(random: Random, rate: float, start_s: float, end_s: float) -> Iterator[float]:
    """Draws the times of a Poisson process of `rate` per second in (start_s, end_s), to the microsecond."""
    if rate <= 0:
        return
    at_s = start_s + random.expovariate(rate)
    while at_s < end_s:
        yield round(at_s, 6)
        at_s += random.expovariate(rate)


def _drawn(
    experiment: Experiment, options: WorkloadOptions, senders: list[int], receivers: list[int]
) -> Iterator[Item]:
    seed, end_s, first_s = experiment.seed, experiment.duration_s, options.first_predicate_s
    changing = _draw_share(_stream(seed, "changing"), receivers, options.changing_receivers_percent)
    contents = contents_of(options)
    for number in range(options.applications_per_node):
        # The first application of a node has the name and the streams of an only one.
        app, suffix = (f"{APPLICATION}-{number + 1}", f"/{number}") if number else (APPLICATION, "")
        for node in receivers:
            texts, times = _stream(seed, f"predicates of {node}{suffix}"), [first_s]
            if node in changing:
                random = _stream(seed, f"changes of {node}{suffix}")
                times += _poisson(random, 1 / options.predicate_change_interval_s, first_s, end_s)
            for at_s in times:
                predicate = format_predicate(contents.draw_predicate(texts, options))
                yield Item(at_s, node, "set_predicate", predicate=predicate, app=app)
        for node in senders:
            texts = _stream(seed, f"messages of {node}{suffix}")
            random = _stream(seed, f"sending times of {node}{suffix}")
            for at_s in _poisson(random, options.messages_per_minute / 60, options.first_message_s, end_s):
                message = contents.draw_message(texts, options)
                yield Item(at_s, node, "send_message", attributes=message, app=app)
