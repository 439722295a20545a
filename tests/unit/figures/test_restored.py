"""The restored distributions of the authors' generator, and figure 10 drawn from them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from testbed.evaluation.figures.match import write_restored
from testbed.evaluation.figures.reproduction import FIGURES
from testbed.experiments.drawing.distributions import Distributions

WORDS = ("attr_names", "constr_names", "string_values")


def test_types_operators_and_values_have_equal_weights(tmp_path: Path) -> None:
    assert Distributions(write_restored(tmp_path))
    weights = {
        path.stem: Counter(line.split(" ")[0] for line in path.read_text().splitlines())
        for path in tmp_path.glob("*.dist")
        if path.stem not in WORDS
    }
    assert {len(each) for each in weights.values()} == {1}
    assert {name: each.total() for name, each in weights.items()} == {
        "types": 4,
        "string_operators": 7,
        "int_operators": 4,
        "double_operators": 4,
        "bool_operators": 2,
        "int_values": 100,
        "double_values": 196,
        "bool_values": 2,
    }


def test_names_have_the_released_weights(tmp_path: Path) -> None:
    """The i-th of 200 words has the weight floor(200 / i)."""
    for name in WORDS:
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
