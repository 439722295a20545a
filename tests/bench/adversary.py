"""Searches for a network, predicates and an interleaving in which a message is lost, doubled or spurious.

Ends at the first counterexample, with its seed, or after some seconds. A case is a function of its seed and
its scheme (`tests.support.adversary`): `--seed N --cases 1` plays one case. TABLEs and COMMITs come in any
order; the frames of a link overtake each other in half of the cases.
"""

from __future__ import annotations

import sys
import time

from tests.support.adversary import attack


def main(seconds: int = 60, seed: int = 0, cases: int = 0, scheme: str = "pif") -> None:
    """Plays the cases `seed`, `seed + 1` and so on.

    Args:
        cases: so many at most; 0: no bound but the time.
        scheme: of the routers, of `tests.support.schemes.EXACT_SCHEMES`.

    Raises:
        SystemExit: a counterexample was found (status 1).
    """
    began, played = time.monotonic(), 0
    while time.monotonic() - began < seconds and not (cases and played == cases):
        wrong = attack(seed + played, scheme)
        if wrong is not None:
            print(f"{scheme}, case {seed + played}: {wrong}")
            sys.exit(1)
        played += 1
    took = time.monotonic() - began
    print(
        f"{scheme}: {played:,} cases in {took:.0f} s, seeds {seed} to {seed + played - 1}: no counterexample"
    )
