"""Virtual time: order of events, and deadlines that are floats."""

from __future__ import annotations

import pytest

from testbed.sim import NS, WALL, Agenda


def test_events_happen_in_order_of_time_and_then_of_being_put_down() -> None:
    agenda = Agenda()
    happened: list[tuple[int, str]] = []

    def note(name: str) -> None:
        happened.append((agenda.now, name))

    agenda.at(20, note, "third")
    agenda.at(10, note, "first")
    agenda.at(10, note, "second")
    while agenda.next_ns is not None:
        agenda.step()
    assert happened == [(10, "first"), (10, "second"), (20, "third")]
    assert agenda.done == 3


@pytest.mark.parametrize("deadline", [0.0, 0.1, 1 / 3, 1e-9, 12345.678901234567, 0.30000000000000004])
def test_a_core_that_is_woken_at_its_deadline_sees_that_it_has_come(deadline: float) -> None:
    at_ns = WALL.time_of(deadline)
    assert at_ns / NS >= deadline
    assert (at_ns - 1) / NS <= deadline + 1e-9


def test_running_up_to_a_time_makes_what_is_due_happen_and_lets_it_come() -> None:
    agenda = Agenda()
    seen: list[tuple[int, int]] = []
    for at_ns in (30, 10, 20, 40):
        agenda.at(at_ns, lambda at_ns=at_ns: seen.append((at_ns, agenda.now)))
    assert agenda.run(35, most=2), "one more is due"
    assert seen == [(10, 10), (20, 20)]
    assert not agenda.run(35, most=9)
    assert seen == [(10, 10), (20, 20), (30, 30)]
    assert agenda.now == 35
    assert agenda.next_ns == 40
    assert agenda.done == 3
