"""The times that the timers of a router run: as set, or drawn with the set time as their mean."""

from __future__ import annotations

import random

from router.protocol.options import RouterOptions


def time_drawn(options: RouterOptions, rng: random.Random, time_s: float) -> float:
    """Returns how long a timer of `time_s` seconds runs this time.

    Source: the timers of CBCBSIM 1.0.2 (`rand_poisson_delta`) are exponential, with the given time as mean.
    """
    if options.timers == "fixed" or time_s == 0:
        return time_s
    return rng.expovariate(1 / time_s)


def first_time_drawn(options: RouterOptions, rng: random.Random, period_s: float) -> float:
    """Returns the time to the first tick of a periodic timer, at random.

    Routers that were set up together should not speak together.
    """
    if options.timers == "fixed":
        return rng.random() * period_s
    return time_drawn(options, rng, period_s)
