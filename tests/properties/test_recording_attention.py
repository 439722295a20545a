"""The replay of a recording gives the router of the attention-limited service that made it."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from router.protocol.events import Action, Event
from router.protocol.options import RouterOptions
from router.protocol.services.attention.dissemination import AttentionOptions, FanOut, Scheduler, StrategyName
from router.recording.file import Origin, Recorder, Recording
from router.recording.replay import check
from tests.support.attention_network import AttentionNetwork, play
from tests.support.protocol_network import Graph, random_graph

_OPTIONS = st.builds(
    AttentionOptions,
    strategy=st.sampled_from(get_args(StrategyName)),
    remote=st.sampled_from(["pending", "all"]),
    fan_out=st.sampled_from(get_args(FanOut)),
    cache_publications=st.sampled_from([1, 1000]),
    en_route=st.booleans(),
    flushing=st.sampled_from(["off", "neighbour"]),
    pace_mbps=st.sampled_from([None, 0.01]),
    scheduler=st.sampled_from(get_args(Scheduler)),
    top_up_s=st.sampled_from([None, 0.3]),
    record_caches=st.booleans(),
)


class _RecordedNetwork(AttentionNetwork):
    """A network whose routers are recorded in `folder`."""

    def __init__(self, graph: Graph, options: AttentionOptions, seed: int, folder: Path) -> None:
        self.options = RouterOptions(service="attention", service_options=options)
        self.recorders = {
            node: Recorder(folder / f"r{node}.rec", Origin(node, self.options, "naive", seed, 1))
            for node in sorted(graph)
        }
        super().__init__(graph, options, seed)

    def handle(self, node: int, event: Event) -> list[Action]:
        self.recorders[node].event(event, self.now)
        actions = super().handle(node, event)
        self.recorders[node].actions(event, actions)
        return actions


@settings(max_examples=25, deadline=None)
@given(_OPTIONS, st.integers(0, 2**32))
def test_a_replay_answers_as_the_router_did(options: AttentionOptions, seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        network = _RecordedNetwork(random_graph(rng, 5, 2), options, seed, folder)
        network.reordering, network.loss, network.duplication = True, 0.1, 0.1
        play(network, rng, 50)
        for recorder in network.recorders.values():
            recorder.end()
            recorder.close()
        for node, router in network.routers.items():
            path = folder / f"r{node}.rec"
            assert Recording(path).origin.options == network.options
            replayed = check(path)
            assert (replayed.difference, replayed.cut) == (None, None)
            assert replayed.router.counters == router.counters
