"""The pool of filters gives the same numbers in every process, whatever its hashes of texts."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.paths import ROOT

#: Texts come and go until filters have been removed several times. Prints, of each turn, the numbers of the
#: filters, and how often some were removed.
_CHURN = """
import hashlib, random
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.covering.pool import FilterPool
from router.predicates import Constraint, Filter, Operator, Predicate, Type

rng = random.Random(1)
class CountedPool(FilterPool):
    sweeps = 0

    def sweep(self):
        self.sweeps += 1
        super().sweep()

pool = CountedPool()
turns = []
held = []
for turn in range(180):
    operators = rng.choices((Operator.SUBSTRING, Operator.SUFFIX, Operator.EQ), k=40)
    texts = ["".join(rng.choices("abcdef", k=rng.randrange(6, 30))) for _ in operators]
    constraints = map(Constraint, "s" * 40, [Type.STRING] * 40, operators, texts)
    predicate = Predicate(tuple(Filter((each,)) for each in constraints))
    numbers = pool.numbers(predicate)
    held.append(PredicateBuilder(predicate, pool=pool))
    if turn % 3:
        held.pop(0)
    turns.append((numbers, pool.sweeps, len(pool), held[-1].members))
print(turns[-1][1])
print(hashlib.sha256(repr(turns).encode()).hexdigest())
"""


def _run(hash_seed: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
    return subprocess.check_output([sys.executable, "-c", _CHURN], env=environment, text=True).split()


def test_a_sweep_does_not_depend_on_the_hashes_of_texts() -> None:
    sweeps, digest = _run("1")
    assert int(sweeps) >= 2
    assert _run("2")[1] == digest
