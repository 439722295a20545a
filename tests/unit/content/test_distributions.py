"""The files `*.dist` of the authors' workload generator."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from router.predicates import Constraint, Operator, Type
from testbed.evaluation.figures.match import write_restored
from testbed.evaluation.figures.reproduction import FIGURES
from testbed.experiments.config import WorkloadOptions
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import ExperimentError
from testbed.experiments.drawing.distributions import Distributions
from testbed.experiments.workload.generate import generate
from testbed.support.errors import InputError
from tests.support.cases import cases_beside

_FILES = {
    "attr_names": "3 alpha\n1 beta\n0 never\n",
    "constr_names": "1 alpha\n",
    "types": "1 i\n1 s\n0 d\n0 b\n",
    "int_operators": "1 >\n0 <\n",
    "int_values": "1 7\n",
    "string_operators": "1 =*\n",
    "string_values": "2 two words\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in _FILES.items():
        (tmp_path / f"{name}.dist").write_text(text)
    return tmp_path


def test_messages_and_predicates_have_what_the_files_have(folder: Path) -> None:
    distributions, random = Distributions(folder), Random(1)
    sizes = WorkloadOptions(filters_min=0, filters_max=2, attributes_min=1, attributes_max=5)
    names: Counter[str] = Counter()
    for _ in range(400):
        message = distributions.draw_message(random, sizes)
        names.update([next(iter(message))])
        assert set(message.values()) <= {7, "two words"}
        predicate = distributions.draw_predicate(random, sizes)
        assert len(list(predicate)) <= 2
        # There is one name, and the names of a filter differ.
        for filter_ in predicate:
            (constraint,) = filter_
            assert constraint in (
                Constraint("alpha", Type.INTEGER, Operator.GT, 7),
                Constraint("alpha", Type.STRING, Operator.PREFIX, "two words"),
            )
    # The first name is drawn by its weight: 3 of 4.
    assert names.keys() == {"alpha", "beta"}
    assert 270 < names["alpha"] < 330


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        *cases_beside(__file__)["faults"],
        ("attr_names", f"1 {'a' * 256}\n", "expected WEIGHT VALUE: attribute name of 256 bytes"),
        ("constr_names", f"1 {'a' * 256}\n", "expected WEIGHT VALUE: attribute name of 256 bytes"),
    ],
)
def test_faults_name_file_and_line(folder: Path, name: str, text: str, message: str) -> None:
    (folder / f"{name}.dist").write_text(text)
    with pytest.raises(InputError, match=message):
        Distributions(folder)


def test_an_experiment_draws_from_its_folder(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(
        'duration_s = 600\n[topology]\ngenerator = "ring"\nnodes = 4\n[workload]\ndistributions = "."\n'
    )
    items = generate(load_experiment(path)).items
    assert {name for item in items for name in item.attributes or ()} == {"alpha", "beta"}
    (folder / "types.dist").unlink()
    with pytest.raises(ExperimentError, match=r"\[workload\] distributions: .*types.dist: cannot be"):
        load_experiment(path)


# The restored distributions of the authors' generator, and figure 10 drawn from them.


WORDS = ("attr_names", "constr_names", "string_values")


def test_types_operators_and_values_have_equal_weights(tmp_path: Path) -> None:
    assert Distributions(write_restored(tmp_path))
    weights = {
        path.stem: Counter(line.split(" ")[0] for line in path.read_text().splitlines())
        for path in tmp_path.glob("*.dist")
        if path.stem not in WORDS
    }
    assert {len(each) for each in weights.values()} == {1}
    totals = cases_beside(__file__)["totals"]
    assert {name: each.total() for name, each in weights.items()} == totals


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
