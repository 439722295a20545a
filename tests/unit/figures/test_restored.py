"""The restored distributions of the authors' generator, and figure 10 drawn from them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from router.predicates import Operator, Type
from testbed.evaluation.figures.match import write_restored
from testbed.evaluation.figures.reproduction import FIGURES
from testbed.experiments.config import WorkloadOptions
from testbed.experiments.drawing.distributions import Distributions


def test_types_operators_and_values_have_equal_weights(tmp_path: Path) -> None:
    drawn, random = Distributions(write_restored(tmp_path)), Random(1)
    sizes = WorkloadOptions(filters_min=1, filters_max=1, constraints_min=1, constraints_max=1)
    constraints = [drawn.draw_predicate(random, sizes).filters[0].constraints[0] for _ in range(20_000)]
    types = Counter(each.type for each in constraints)
    assert types.keys() == set(Type)
    assert max(types.values()) < 1.1 * min(types.values())
    for kind, operators in (
        (Type.INTEGER, {Operator.EQ, Operator.GT, Operator.LT, Operator.NE}),
        (Type.DOUBLE, {Operator.EQ, Operator.GT, Operator.LT, Operator.NE}),
        (Type.BOOLEAN, {Operator.EQ, Operator.NE}),
    ):
        counts = Counter(each.operator for each in constraints if each.type is kind)
        assert counts.keys() == operators
        assert max(counts.values()) < 1.2 * min(counts.values())
    assert len({each.operator for each in constraints if each.type is Type.STRING}) == 7
    values = {kind: {each.value for each in constraints if each.type is kind} for kind in Type}
    assert values[Type.INTEGER] == set(range(100))
    assert values[Type.DOUBLE] == {1 + step / 4 for step in range(196)}


def test_names_have_the_released_weights(tmp_path: Path) -> None:
    """The i-th of 200 words has the weight floor(200 / i)."""
    for name in ("attr_names", "constr_names", "string_values"):
        lines = (write_restored(tmp_path) / f"{name}.dist").read_text().splitlines()
        weights, words = zip(*(line.split(" ") for line in lines), strict=True)
        assert [int(weight) for weight in weights[:5]] == [200, 100, 66, 50, 40]
        assert [int(weight) for weight in weights[-100:]] == [1] * 100
        assert len(set(words)) == 200
        assert list(words) != sorted(words)


@pytest.mark.parametrize("restored", [False, True])
def test_figure_10_is_counted_on_both_vocabularies(restored: bool) -> None:
    figure = FIGURES["match"]()
    (case,) = (each for each in figure.cases("small") if each.facts["restored"] is restored)
    found = figure.run(case, 1)
    assert found == figure.run(case, 1)
    assert found is not None
    assert 0 < found["none"] < 0.5 < found["middle"] + found["none"]
    assert sum(share for _, share in found["curve"]) == pytest.approx(1)
