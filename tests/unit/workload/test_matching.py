"""The synthetic matching workload: the drawn shares are those requested, and the file holds them."""

from __future__ import annotations

import io
import math
from collections import Counter
from itertools import islice, pairwise

import numpy as np
import pytest

from router.matching.columns import to_predicates
from router.predicates import Operator, Type
from testbed.cli.main import main
from testbed.experiments.siena_ff.generate import (
    INTEGER_OPERATORS,
    STRING_OPERATORS,
    MatchingWorkload,
    dictionary,
    draw_messages,
    draw_table,
    write_driver,
)
from testbed.experiments.siena_ff.reader import Reader
from testbed.support.errors import InputError

WORKLOAD = MatchingWorkload(constraints=200_000, interfaces=64, messages=20_000)


def close(found: float, asked: float, drawn: int) -> bool:
    """Whether a share measured over `drawn` draws is within five standard deviations of the one asked for."""
    return abs(found - asked) < 5 * math.sqrt(asked * (1 - asked) / drawn)


def test_the_dictionary_is_different_words_and_a_smaller_one_its_beginning() -> None:
    words = dictionary(1000)
    assert len(set(words)) == 1000
    assert dictionary(50) == words[:50]
    assert all(word.isidentifier() for word in words)


def test_a_table_has_the_constraints_filters_and_interfaces_asked_for() -> None:
    table = draw_table(WORKLOAD)
    sizes = np.diff(table.start)
    assert table.start[0] == 0
    assert table.start[-1] == len(table.name) == len(table.value) == 200_000
    assert set(sizes[:-1].tolist()) == {1, 2, 3, 4, 5, 6}
    for size in range(1, 7):
        assert close(np.mean(sizes == size), 1 / 6, len(sizes))
    per_interface = Counter(table.interface.tolist())
    assert sorted(per_interface) == list(range(1, 65))
    assert max(per_interface.values()) - min(per_interface.values()) <= 1
    assert (np.diff(table.interface) >= 0).all()


def test_types_operators_and_values_are_drawn_as_asked() -> None:
    table = draw_table(WORKLOAD)
    string = table.type == Type.STRING
    assert close(string.mean(), 0.5, len(string))
    assert set(table.type.tolist()) == {Type.STRING, Type.INTEGER}
    for weights, of_type in ((STRING_OPERATORS, string), (INTEGER_OPERATORS, ~string)):
        operators = table.operator[of_type]
        for operator, percent in weights.items():
            assert close(np.mean(operators == operator), percent / 100, len(operators))
    integers = table.value[~string]
    assert integers.min() == 0
    assert integers.max() == 99
    for value in (0, 50, 99):
        assert close(np.mean(integers == value), 0.01, len(integers))
    harmonic = sum(1 / rank for rank in range(1, 1001))
    first_names = table.name[table.start[:-1]]
    for ranks in (table.value[string], first_names):
        for rank in (0, 1, 9, 99, 999):
            assert close(np.mean(ranks == rank), 1 / (rank + 1) / harmonic, len(ranks))


def test_names_are_different_within_a_filter_and_a_message() -> None:
    table = draw_table(WORKLOAD)
    for begin, end in islice(pairwise(table.start.tolist()), 5000):
        assert len(set(table.name[begin:end].tolist())) == end - begin
    sizes = Counter(len(message) for message in draw_messages(WORKLOAD))
    assert sorted(sizes) == [5, 6, 7, 8, 9, 10]
    assert sum(sizes.values()) == 20_000
    for count in sizes.values():
        assert close(count / 20_000, 1 / 6, 20_000)


def test_messages_have_the_types_and_names_asked_for() -> None:
    messages = list(draw_messages(WORKLOAD))
    values = [value for message in messages for value in message.values()]
    assert close(sum(isinstance(value, str) for value in values) / len(values), 0.5, len(values))
    first = Counter(next(iter(message)) for message in messages)
    harmonic = sum(1 / rank for rank in range(1, 1001))
    for rank in (0, 4, 49):
        assert close(first[dictionary(1000)[rank]] / 20_000, 1 / (rank + 1) / harmonic, 20_000)


def test_a_seed_gives_one_table_and_other_options_are_obeyed() -> None:
    small = MatchingWorkload(
        constraints=300,
        interfaces=7,
        messages=20,
        filter_constraints=(2, 3),
        message_attributes=(1, 4),
        words=10,
        zipf=0,
        strings_percent=100,
        string_operators={Operator.ANY: 1},
    )
    first, second = draw_table(small), draw_table(small)
    for column in ("interface", "start", "name", "type", "operator", "value"):
        assert (getattr(first, column) == getattr(second, column)).all()
    assert list(draw_messages(small)) == list(draw_messages(small))
    assert set(np.diff(first.start)[:-1].tolist()) == {2, 3}
    assert set(first.operator.tolist()) == {Operator.ANY}
    assert not first.value.any()
    assert len(set(first.name.tolist())) == 10
    messages = list(draw_messages(MatchingWorkload(messages=10)))
    assert list(draw_messages(MatchingWorkload(constraints=50, interfaces=3, messages=10))) == messages
    assert list(draw_messages(MatchingWorkload(messages=10, seed=2))) != messages


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"constraints": 6_000_000}, "constraints: 6000000 is not valid; expected an integer from 1 to 5e"),
        ({"constraints": 20, "interfaces": 19}, "20 constraints make"),
        ({"messages": 10**23}, "messages: 100000000000000000000000 is not valid"),
        ({"words": 8}, "message_attributes: 10 different names, but the dictionary has 8 words"),
        ({"filter_constraints": (0, 2)}, "filter_constraints: 0-2; expected 1 or more"),
        ({"strings_percent": 101}, "strings_percent: 101 is not valid; expected a number from 0 to 100"),
        ({"integer_operators": {Operator.PREFIX: 1}}, "prefix is for strings only"),
        ({"string_operators": {Operator.EQ: 0}}, "string_operators: expected finite weights"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        draw_table(MatchingWorkload(**parameters))  # type: ignore[arg-type]


def test_the_file_holds_the_table_and_the_messages() -> None:
    workload = MatchingWorkload(constraints=40, interfaces=3, messages=3)
    table, messages = draw_table(workload), list(draw_messages(workload))
    driver = io.StringIO()
    write_driver(table, messages, driver, lambda _: None)
    read = list(Reader([driver.getvalue()], "driver").statements())
    written = {each.interface: each.filters for each in read if each.keyword == "ifconfig"}
    assert written == {number: each.filters for number, each in to_predicates(table).items()}
    assert [each.keyword for each in read] == ["ifconfig"] * 3 + ["consolidate"] + ["select"] * 3
    assert [each.message for each in read if each.keyword == "select"] == messages


def test_the_command_writes_to_a_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("workload") / "table.sff"
    options = ["--constraints", "30", "--interfaces", "2", "--messages", "4", "-o", str(path)]
    assert main(["workload", "match", *options]) == 0
    lines = path.read_text().splitlines()
    assert lines[0].startswith("ifconfig 1 ")
    assert sum(line.startswith("select ") for line in lines) == 4
    assert main(["workload", "match", "--constraints", "1", "-o", str(path)]) == 2
