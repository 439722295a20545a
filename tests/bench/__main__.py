"""`./run.sh bench [NAME[:SIZE,...] ...]`: runs the benchmarks named, or all.

Sizes (nodes) are for those that grow: `simulate:200,3200`, `ur_reuse:100`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module

#: Name -> what it measures.
BENCHMARKS = {
    "algebra": "predicates that grow to 10,000 filters",
    "codec": "the struct codec beside Scapy",
    "matching": "the matching engines",
    "simulate": "simulations of growing networks: events per second, memory per router",
    "ur_reuse": "SR and UR frames with and without reuse of URs, on both kinds of trees",
    "bring_up": "the emulated network beside bare Mininet (root)",
}
#: Those that take numbers of nodes.
SIZED = ("simulate", "ur_reuse")


def main(names: list[str]) -> int:
    asked: list[tuple[str, list[int]]] = []
    for argument in names or BENCHMARKS:
        name, _, sizes = argument.partition(":")
        if name not in BENCHMARKS:
            known = ", ".join(f"{name} ({what})" for name, what in BENCHMARKS.items())
            print(f"bench: unknown benchmark {name!r}; expected one of {known}", file=sys.stderr)
            return 2
        if sizes and (name not in SIZED or not re.fullmatch(r"\d+(,\d+)*", sizes)):
            print(
                f"bench: {argument}: expected sizes as in simulate:200,400, for {' or '.join(SIZED)}",
                file=sys.stderr,
            )
            return 2
        asked.append((name, [int(size) for size in sizes.split(",") if size]))
    for name, sizes in asked:
        print(f"== {name}: {BENCHMARKS[name]}", flush=True)
        run: Callable[..., None] = import_module(f"tests.bench.{name}").main
        run(*sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
