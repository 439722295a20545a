"""The index of a publication after every trigger, as docs/explanation/attention.md has it."""

from __future__ import annotations

from itertools import product

import pytest

from router.protocol.services.attention.dissemination import TRANSITIONS, Trigger, transition
from router.protocol.services.attention.events import Index

_PPT, _DPT, _OPT = Index.PPT, Index.DPT, Index.OPT

#: Trigger, and its conditions in their order (1: holds, 0: does not, -: either) -> the name of the row, the
#: index and the flag DF afterwards.
_EXPECTED = {
    # local, pushed
    (Trigger.UPLOAD, "00"): ("U1", _PPT, False),
    (Trigger.UPLOAD, "10"): ("U2", _PPT, True),
    (Trigger.UPLOAD, "01"): ("U3", _OPT, False),
    (Trigger.UPLOAD, "11"): ("U4", _DPT, False),
    # dispatched
    (Trigger.SELECTED, "0"): ("P1", _OPT, False),
    (Trigger.SELECTED, "1"): ("P1", _DPT, False),
    # taken, pf, forwarded, addressed, en_route
    (Trigger.ARRIVAL, "1----"): ("T1", _DPT, False),
    (Trigger.ARRIVAL, "01-1-"): ("T3", _OPT, False),
    # All homes of the PUB were served before.
    (Trigger.ARRIVAL, "0100-"): ("T3", _OPT, False),
    (Trigger.ARRIVAL, "01101"): ("T2", _OPT, False),
    (Trigger.ARRIVAL, "01100"): ("T5", None, False),
    (Trigger.ARRIVAL, "001-1"): ("T4", _DPT, False),
    (Trigger.ARRIVAL, "001-0"): ("T5", None, False),
    (Trigger.ARRIVAL, "000--"): ("T6", None, False),
    # ppt
    (Trigger.TAKEN, "1"): ("L1", _PPT, True),
    (Trigger.TAKEN, "0"): ("L1", _DPT, False),
}


def _facts(conditions: str) -> list[tuple[bool, ...]]:
    """All that the conditions allow."""
    return list(product(*((False, True) if each == "-" else (each == "1",) for each in conditions)))


@pytest.mark.parametrize(("trigger", "conditions"), _EXPECTED)
def test_a_publication_is_afterwards_in_the_index_of_the_documentation(
    trigger: Trigger, conditions: str
) -> None:
    for facts in _facts(conditions):
        row = transition(trigger, *facts)
        assert (row.name, row.after, row.dispatched) == _EXPECTED[trigger, conditions], facts


def test_every_row_of_the_table_applies_and_every_case_is_expected_once() -> None:
    used = set()
    for trigger in Trigger:
        found = [facts for each, text in _EXPECTED if each is trigger for facts in _facts(text)]
        assert sorted(found) == list(product((False, True), repeat=len(trigger.value)))
        used |= {id(transition(trigger, *facts)) for facts in found}
    assert used == {id(row) for row in TRANSITIONS}
