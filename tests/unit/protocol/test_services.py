"""A second service runs through router, socket, experiment file and simulator by registration alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from captures.accounting.verdict import HOLDS
from router.predicates import Message
from router.predicates.parser import parse_predicate
from router.protocol.context import Context
from router.protocol.events import Deliver, SendMessage, SetPredicate
from router.protocol.options import SERVICES, RouterOptions
from router.protocol.routing import RoutingTable
from router.protocol.services.attention import Upload
from router.protocol.services.attention.service import Attention
from router.protocol.services.exhaustive import Exhaustive, ExhaustiveSession
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import ExperimentError
from testbed.experiments.workload import Item
from testbed.experiments.workload.generate import generate
from testbed.support.errors import InputError
from tests.support.applications import application_events
from tests.support.attention_experiment import experiment
from tests.support.evidence import judged
from tests.support.one_router import set_up
from tests.support.simulated import simulated

NAME = "limited"
#: Messages that an application of the service gets.
QUOTA = 2


class _Limited(Exhaustive):
    """Each application gets the first messages that its predicate selects, and no more."""

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        super().__init__(context, routing)
        self._delivered: Counter[int] = Counter()

    def receivers(self, message: Message) -> tuple[int, ...]:
        apps = tuple(app for app in super().receivers(message) if self._delivered[app] < QUOTA)
        self._delivered.update(apps)
        return apps


@pytest.fixture(autouse=True)
def service() -> Iterator[None]:
    SERVICES.register(NAME, _Limited)
    yield
    SERVICES.unregister(NAME)


def test_the_service_chooses_who_gets_a_message() -> None:
    router = set_up(RouterOptions(service=NAME))
    for app, text in ((1, "x > 0"), (2, "x > 1")):
        router.handle(SetPredicate(app, parse_predicate(text)), 0.0)
    got = []
    for x in (1, 2, 3, 4):
        actions = router.handle(SendMessage(9, Message({"x": x})), 0.0)
        got.append(next((action.apps for action in actions if isinstance(action, Deliver)), ()))
    assert got == [(1,), (1, 2), (2,), ()]


def test_a_router_with_another_service_does_not_know_an_event() -> None:
    router = set_up(RouterOptions(service=NAME))
    assert router.handle(Upload(1, Message({"x": 1})), 0.0) == []
    assert "publish" not in router.session(1).commands()


_EXPERIMENT = f"""
duration_s = 8
topology = {{ generator = "line", nodes = 3 }}
service = {{ kind = "{NAME}" }}
events = [
    {{ at_s = 0, action = "set_predicate", node = 2, predicate = "x > 0" }},
    {{ at_s = 2, action = "send_message", node = 0, message = "x = 2" }},
    {{ at_s = 3, action = "send_message", node = 0, message = "x = 3" }},
    {{ at_s = 4, action = "send_message", node = 0, message = "x = 4" }},
    {{ at_s = 5, action = "send_message", node = 0, message = "x = 5" }},
]
"""


def test_an_experiment_names_it_and_the_simulator_runs_it(tmp_path: Path) -> None:
    path = tmp_path / "limited.toml"
    path.write_text(_EXPERIMENT)
    experiment = load_experiment(path, {"workload": "false"})
    assert experiment.service.kind == NAME
    lines = application_events(simulated(experiment, tmp_path).path)
    sent = [line["seq"] for line in lines if line["event"] == "send_message"]
    assert len(sent) == 4
    assert [line["seq"] for line in lines if line["event"] == "deliver"] == sent[:QUOTA]


def test_a_service_that_is_not_registered_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "unknown.toml"
    path.write_text(_EXPERIMENT.replace(NAME, "unknown"))
    with pytest.raises(ExperimentError, match=r'\[service\] kind: "unknown" is not valid; expected "exh'):
        load_experiment(path)
    with pytest.raises(ValueError, match='service: "unknown" is not valid; expected "exh'):
        RouterOptions(service="unknown")


def _items_of_table_1(tmp_path: Path) -> list[Item]:
    path = tmp_path / "table1.toml"
    path.write_text(
        f"""
        duration_s = 60
        topology = {{ generator = "ring", nodes = 4 }}
        service = {{ kind = "{NAME}" }}
        workload.attention = {{ events = 3, publications = 5, subscriptions = 2 }}
        """
    )
    return list(generate(load_experiment(path)).items)


def test_the_workload_of_table_1_takes_the_commands_that_a_service_has(tmp_path: Path) -> None:
    actions = Counter(item.action for item in _items_of_table_1(tmp_path))
    assert (actions["subscribe"], actions["send_message"]) == (2, 5)
    assert actions.keys() <= {"subscribe", "unsubscribe", "send_message"}


def test_a_service_without_its_commands_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExhaustiveSession, "commands", lambda _: {"quota": None})
    with pytest.raises(InputError, match=r'service "limited": cannot serve'):
        _items_of_table_1(tmp_path)


def test_a_service_that_extends_the_attention_limited_service_is_judged(tmp_path: Path) -> None:
    SERVICES.register("mine", type("Mine", (Attention,), {}))
    try:
        path = experiment(tmp_path / "mine.toml", "eon", 1)
        path.write_text(path.read_text().replace('kind = "attention"', 'kind = "mine"'))
        assert judged(simulated(path, tmp_path / "run")) == (HOLDS, [])
    finally:
        SERVICES.unregister("mine")
