"""Workload files of the authors' simulator: read as experiments, and written."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from testbed.cli.main import main
from testbed.experiments.config.cbcbsim import is_script, read_script
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.config.schema import ExperimentError
from testbed.experiments.events import SendMessage, SetPredicate
from testbed.experiments.workload import Item
from testbed.experiments.workload.generate import generate
from testbed.experiments.workload.script import write_script
from testbed.support.errors import InputError
from tests.support.cases import cases_beside
from topos import LinkSpec, Node
from topos.build import build

_FILE = Path(__file__).with_name("trial.wl").read_text()


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trial.wl"
    path.write_text(text)
    return path


def test_a_workload_file_is_an_experiment(tmp_path: Path) -> None:
    experiment = load_experiment(_written(tmp_path, _FILE))
    assert experiment.name == "trial"
    assert experiment.duration_s == 20
    assert experiment.workload is None
    places = [Node(0, 455.0, 282.0), Node(1, 310.0, 90.0), Node(2, -5.0, 3.5)]
    assert experiment.topology == build("trial", places, [LinkSpec(0, 1, 8), LinkSpec(1, 2, 4)])
    # The last message is later than the end.
    assert experiment.events == (
        SetPredicate(0.0, 2, 'a < 10 or b = "x" and c any integer'),
        SetPredicate(0.5, 0, "none"),
        SendMessage(5.0, 0, 'a = 9, b = "x"'),
    )


def test_the_workload_ends_with_its_last_item_unless_the_file_has_a_length() -> None:
    assert read_script("t", "time_unit 2; node 0 0 0 send_message 0 7;")["duration_s"] == 14


def test_toml_is_no_workload_file() -> None:
    assert [is_script(text) for text in ("node = 3\n", "[links]\n", "/* x */ node 0 1 2,", "link 0 1")] == [
        *(False, False, True, True)
    ]


@pytest.mark.parametrize(("text", "message"), cases_beside(__file__)["faults"])
def test_faults_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = _written(tmp_path, text)
    with pytest.raises(ExperimentError, match=message) as caught:
        load_experiment(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("name", ["ring5", "default"])
def test_a_generated_workload_survives_the_form(tmp_path: Path, name: str) -> None:
    experiment = load_experiment(find_experiment(name))
    items = generate(experiment).items
    out = io.StringIO()
    write_script(experiment.topology, experiment.duration_s, items, out)
    again = load_experiment(_written(tmp_path, out.getvalue()))
    assert [item.line for item in generate(again).items] == [item.line for item in items]
    assert again.duration_s == experiment.duration_s
    assert again.topology.links == experiment.topology.links


_values = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_texts = st.text(max_size=8)


@given(st.dictionaries(_texts.filter(bool), _values | _texts, max_size=4))
def test_every_message_survives_the_form(attributes: dict[str, object]) -> None:
    line = build("line", [Node(0)], [])
    item = Item(1.0, 0, "send_message", attributes=attributes)  # type: ignore[arg-type]
    out = io.StringIO()
    write_script(line, 2.0, [item], out)
    (event,) = read_script("line", out.getvalue())["events"]
    assert SendMessage(1.0, 0, event["message"]).content()["attributes"] == attributes


@pytest.mark.parametrize(
    "item",
    [
        Item(1.0, 0, "unsubscribe", subscription="s"),
        Item(1.0, 0, "publish", attributes={"a": 1}),
        Item(1.0, 0, "subscribe", subscription="s", predicate="a > 1"),
    ],
    ids=lambda item: item.action,
)
def test_the_form_has_no_subscriptions_and_publications(item: Item) -> None:
    with pytest.raises(InputError, match=rf"{item.action} at node 0 at 1 s: the simulator's form has"):
        write_script(build("line", [Node(0)], []), 2.0, [item], io.StringIO())


@pytest.mark.parametrize("content", [{"predicate": "a > 1"}, {"attributes": {"a": 1}}], ids=str)
def test_a_second_application_of_a_node_is_refused(content: dict[str, Any]) -> None:
    """The reader would take its predicate for a change of the first one's."""
    action = "set_predicate" if "predicate" in content else "send_message"
    item = Item(1.0, 3, action, app="workload-2", **content)
    expected = f"{action} of application 'workload-2' at node 3 at 1 s: the simulator's form has one"
    with pytest.raises(InputError, match=expected):
        write_script(build("line", [Node(0)], []), 2.0, [item], io.StringIO())


def test_what_the_form_has_no_place_for_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "generate", str(Path(__file__).with_name("berne.toml"))]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        f"left out, since the file has no place for it: {each}"
        for each in ("2 events link_down", "1 event link_up", "names of nodes", "delay_ms of links")
    ]
    assert "send_message 0 1000000 a = 2 ;" in out.splitlines()


def test_a_workload_without_a_form_leaves_no_file(tmp_path: Path) -> None:
    assert main(["workload", "generate", "diallo-small", "-o", str(tmp_path / "file")]) == 2
    assert not any(tmp_path.iterdir())
