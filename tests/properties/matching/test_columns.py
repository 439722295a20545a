"""Tables survive the way into columns and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.matching.columns import ColumnsBuilder, to_predicates
from router.predicates.model import EVERYTHING, Filter, Predicate
from tests.support.matching_columns import to_columns
from tests.support.predicate_worlds import MIXED, predicates


@given(st.dictionaries(st.integers(0, 5), predicates("xy", MIXED), max_size=4))
def test_columns_hold_a_table_as_it_is(table: dict[int, Predicate]) -> None:
    columns = to_columns(table)
    assert to_predicates(columns) == {i: predicate for i, predicate in table.items() if predicate}
    assert columns.filters == sum(map(len, table.values()))
    assert columns.constraints == sum(len(filter_) for predicate in table.values() for filter_ in predicate)
    assert (np.diff(columns.interface) >= 0).all()


def test_filters_without_constraints_have_columns_too() -> None:
    columns = to_columns({2: EVERYTHING, 1: EVERYTHING})
    assert columns.start.tolist() == [0, 0, 0]
    assert to_predicates(columns) == {1: EVERYTHING, 2: EVERYTHING}


def test_interfaces_come_in_ascending_order() -> None:
    builder = ColumnsBuilder()
    builder.add(3, Filter())
    with pytest.raises(ValueError, match="interface 2 after 3; expected ascending order"):
        builder.add(2, Filter())
