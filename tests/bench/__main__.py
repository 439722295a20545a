"""`./run.sh bench [NAME[:SIZE,...] ...]`: runs the benchmarks named, or all.

Sizes (nodes) are for those that grow: `simulate:200,3200`, `ur_reuse:100`. Options after a single name are
the benchmark's own (`./run.sh bench match --help`).
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
    "match": "the matching engines beside the C++ original, and the papers' figures",
    "match_update": "changes of a forwarding table of 1,000,000 constraints",
    "forwarding": "a live router at saturation (root)",
    "simulate": "simulations of growing networks: events per second, memory per router",
    "ur_reuse": "SR and UR frames with and without reuse of URs, on both kinds of trees",
    "bring_up": "the emulated network beside bare Mininet (root)",
}
#: Those that take numbers of nodes.
SIZED = ("simulate", "ur_reuse")


def main(arguments: list[str]) -> int:
    count = next((i for i, argument in enumerate(arguments) if argument.startswith("-")), len(arguments))
    names, options = arguments[:count], arguments[count:]
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
    if options and len(names) != 1:
        print(f"bench: {options[0]}: options belong to one benchmark: NAME {options[0]} ...", file=sys.stderr)
        return 2
    for name, numbers in asked:
        print(f"== {name}: {BENCHMARKS[name]}", flush=True)
        module = import_module(f"tests.bench.{name}")
        if options and not hasattr(module, "configure"):
            print(f"bench: {name} has no options", file=sys.stderr)
            return 2
        run: Callable[..., None] = module.main
        run(*numbers, **(module.configure(options) if hasattr(module, "configure") else {}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
