"""The index of a publication after every occasion, as docs/attention.md has it."""

from __future__ import annotations

from itertools import product

import pytest

from router.protocol.attention.events import Index
from router.protocol.attention.transitions import TABLE, Occasion, transition

_PPT, _DPT, _OPT = Index.PPT, Index.DPT, Index.OPT

#: Occasion, and its conditions in their order (1: holds, 0: does not, -: either) -> the name of the row, the
#: index and the flag DF afterwards.
_EXPECTED = {
    # local, pushed
    (Occasion.UPLOAD, "00"): ("U1", _PPT, False),
    (Occasion.UPLOAD, "10"): ("U2", _PPT, True),
    (Occasion.UPLOAD, "01"): ("U3", _OPT, False),
    (Occasion.UPLOAD, "11"): ("U4", _DPT, False),
    # dispatched
    (Occasion.SELECTED, "0"): ("P1", _OPT, False),
    (Occasion.SELECTED, "1"): ("P1", _DPT, False),
    # taken, pf, forwarded, addressed, en_route
    (Occasion.ARRIVAL, "1----"): ("T1", _DPT, False),
    (Occasion.ARRIVAL, "01-1-"): ("T3", _OPT, False),
    # All homes of the PUB were served before.
    (Occasion.ARRIVAL, "0100-"): ("T3", _OPT, False),
    (Occasion.ARRIVAL, "01101"): ("T2", _OPT, False),
    (Occasion.ARRIVAL, "01100"): ("T5", None, False),
    (Occasion.ARRIVAL, "001-1"): ("T4", _DPT, False),
    (Occasion.ARRIVAL, "001-0"): ("T5", None, False),
    (Occasion.ARRIVAL, "000--"): ("T6", None, False),
    # ppt, opt
    (Occasion.TAKEN, "1-"): ("L1", _PPT, True),
    (Occasion.TAKEN, "01"): ("L1", _DPT, False),
    (Occasion.TAKEN, "00"): ("L1", _DPT, False),
}


def _facts(conditions: str) -> list[tuple[bool, ...]]:
    """All that the conditions allow."""
    return list(product(*((False, True) if each == "-" else (each == "1",) for each in conditions)))


@pytest.mark.parametrize(("occasion", "conditions"), _EXPECTED)
def test_a_publication_is_afterwards_in_the_index_of_the_documentation(
    occasion: Occasion, conditions: str
) -> None:
    for facts in _facts(conditions):
        row = transition(occasion, *facts)
        assert (row.name, row.after, row.dispatched) == _EXPECTED[occasion, conditions], facts


def test_every_row_of_the_table_applies_and_every_case_is_expected_once() -> None:
    used = set()
    for occasion in Occasion:
        found = [facts for each, text in _EXPECTED if each is occasion for facts in _facts(text)]
        assert sorted(found) == list(product((False, True), repeat=len(occasion.value)))
        used |= {id(transition(occasion, *facts)) for facts in found}
    assert used == {id(row) for row in TABLE}
