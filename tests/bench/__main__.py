"""`./run.sh bench [NAME ...]`: runs the benchmarks named, or all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

#: Name -> what it measures.
BENCHMARKS = {
    "algebra": "predicates that grow to 10,000 filters",
    "codec": "the struct codec beside Scapy",
    "matching": "the matching engines",
    "recording": "what recording costs a router",
    "bring_up": "the emulated network beside bare Mininet (root)",
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        known = ", ".join(f"{name} ({what})" for name, what in BENCHMARKS.items())
        print(f"bench: unknown benchmark {unknown[0]!r}; expected one of {known}", file=sys.stderr)
        return 2
    for name in names or BENCHMARKS:
        print(f"== {name}: {BENCHMARKS[name]}", flush=True)
        run: Callable[[], None] = import_module(f"tests.bench.{name}").main
        run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
