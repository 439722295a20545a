"""Searches for a network, predicates and an interleaving in which a message is lost, doubled or spurious.

Ends at the first counterexample, with its seed, or after some seconds. A case is a function of its seed
(`tests.support.adversary`): `--seed N --cases 1` plays one case.
"""

from __future__ import annotations

import sys
import time

from tests.support.adversary import attack


def main(seconds: int = 60, seed: int = 0, cases: int = 0) -> None:
    """Plays the cases `seed`, `seed + 1` and so on.

    Args:
        cases: so many at most; 0: no bound but the time.

    Raises:
        SystemExit: a counterexample was found (status 1).
    """
    began, played = time.monotonic(), 0
    while time.monotonic() - began < seconds and not (cases and played == cases):
        wrong = attack(seed + played)
        if wrong is not None:
            print(f"case {seed + played}: {wrong}")
            sys.exit(1)
        played += 1
    took = time.monotonic() - began
    print(f"{played:,} cases in {took:.0f} s, seeds {seed} to {seed + played - 1}: no counterexample")
