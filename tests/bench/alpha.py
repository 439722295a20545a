"""The time to draw random conjunctions and to drop those that another one covers, on one core."""

from __future__ import annotations

import time

import numpy as np

from testbed.alpha import conjunctions


def main(count: int = 1_000_000) -> None:
    print("names | distribution | conjunctions | drawn | alpha | reduced")
    for names in (50, 500):
        for zipf in (False, True):
            begin = time.process_time()
            drawn = conjunctions.draw(count, names, np.random.default_rng(1), zipf=zipf)
            ready = time.process_time()
            alpha = conjunctions.alpha(drawn)
            end = time.process_time()
            kind = "Zipf" if zipf else "uniform"
            print(
                f"{names} | {kind} | {count:,} | {ready - begin:.1f} s | {alpha:.3f} | {end - ready:.1f} s",
                flush=True,
            )
