"""Every engine, with every optimisation on and off: what tests and benchmarks compare."""

from router.matching.engines import ENGINES

#: What an engine may be asked to leave out, one at a time and all together.
SWITCHES = ("bloom=off", "short_circuit=off", "single=off", "direct=off")
VARIANTS = (
    *sorted(set(ENGINES) - {"naive"}),
    *(f"counting:{switch}" for switch in ("rounds=1", "rounds=10", *SWITCHES)),
    f"counting:{','.join(SWITCHES)}",
)
