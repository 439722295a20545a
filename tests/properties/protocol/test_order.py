"""Frames of a link overtake each other, of one type and of several: no receiver is lost (docs/adr/0032).

Mutations show which rules make the order needless: without one of them, and only with reordering, some are.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings

from router.protocol.broadcast import Branch
from router.protocol.counters import Drop
from router.protocol.options import SCHEMES, RouterOptions
from router.protocol.pull.requests import Reply, Requests
from router.protocol.schemes.identified import Identified
from router.wire.frames import Frame
from tests.support.adversary import first_wrong_delivery, random_predicate
from tests.support.fuzz import cases
from tests.support.network_cases import OPTIONS, SEEDS, play, table_errors
from tests.support.protocol_network import Network, random_graph
from tests.support.schemes import EXACT_SCHEMES

#: The schemes whose tables have predicates by interface, which RAs widen and URs replace.
_PULLING = ("pif", "pif-classes")


def _played(seed: int, scheme: str, reordering: bool, extra_links: int | None = None) -> Network:
    """Plays the case of a seed: predicates widen and narrow, and routers ask; frames move in between."""
    rng = random.Random(seed)
    nodes = rng.randint(2, 9)
    graph = random_graph(rng, nodes, rng.randrange(9) if extra_links is None else extra_links)
    options = RouterOptions(scheme=scheme)
    if scheme in _PULLING:
        options = replace(OPTIONS, scheme=scheme, ur_reuse=rng.random() < 0.5)
    network = Network(graph, options, seed)
    network.reordering = reordering
    network.new_epoch()
    few = [random_predicate(rng) for _ in range(3)]
    asks = 0.4 if scheme in _PULLING else 0.0
    steps = [(rng.randrange(nodes), None if rng.random() < asks else rng.choice(few)) for _ in range(14)]
    play(network, steps)
    network.settle()
    return network


def _missing(network: Network) -> list[str]:
    """The predicates that tables by interface lack."""
    return table_errors(network, exact=False) if network.options.scheme in _PULLING else []


def _wrong_delivery(seed: int, network: Network) -> str | None:
    """The first delivery that is missed, doubled or spurious."""
    return first_wrong_delivery(random.Random(seed), network, network.graph, (), network.options.hop_limit)


@pytest.mark.parametrize("scheme", EXACT_SCHEMES)
@settings(max_examples=cases(60), deadline=None)
@given(SEEDS)
def test_no_order_of_the_frames_of_a_link_loses_a_receiver(scheme: str, seed: int) -> None:
    network = _played(seed, scheme, reordering=True)
    assert (_missing(network), _wrong_delivery(seed, network)) == ([], None)


@pytest.mark.parametrize("scheme", [each for each in SCHEMES if each not in EXACT_SCHEMES])
@settings(max_examples=cases(60), deadline=None)
@given(SEEDS)
def test_nor_does_any_order_on_a_tree_with_the_filter_of_the_paper(scheme: str, seed: int) -> None:
    assert _wrong_delivery(seed, _played(seed, scheme, reordering=True, extra_links=0)) is None


def _without_ras_since_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """An issuer takes a UR as it is, without the RAs that came in while it waited."""
    monkeypatch.setattr(Requests, "advertised", lambda *_: None)


def _with_the_reply_of_any_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """An issuer takes the URs of SRs that it has given up."""
    reply = Requests.reply

    def any_reply(self: Requests, given: Reply, now: float) -> None:
        waits = self.outstanding.get(given.interface)
        reply(self, given if waits is None else replace(given, number=waits.number, epoch=waits.epoch), now)

    monkeypatch.setattr(Requests, "reply", any_reply)


def _with_advertisements_of_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """An identified RA replaces one of its issuer that is newer."""
    advertised = Identified.advertised

    def any_number(self: Identified, branch: Branch, frame: Frame) -> Drop | None:
        self._last.pop(frame.issuer, None)
        return advertised(self, branch, frame)

    monkeypatch.setattr(Identified, "advertised", any_number)


@pytest.mark.parametrize(
    ("scheme", "mutation"),
    [
        ("pif", _without_ras_since_the_request),
        ("pif-classes", _without_ras_since_the_request),
        ("pif", _with_the_reply_of_any_request),
        ("psf", _with_advertisements_of_any_number),
    ],
)
def test_without_a_rule_that_makes_it_needless_the_order_matters(
    monkeypatch: pytest.MonkeyPatch, scheme: str, mutation: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mutation(monkeypatch)

    def loses(seed: int, reordering: bool) -> bool:
        network = _played(seed, scheme, reordering)
        return bool(_missing(network)) if scheme in _PULLING else _wrong_delivery(seed, network) is not None

    assert not any(loses(seed, reordering=False) for seed in range(80))
    assert any(loses(seed, reordering=True) for seed in range(80))
