"""`./run.sh bench [NAME ...]`: runs the benchmarks named, or all.

Options after a single name are the benchmark's own (`./run.sh bench match --help`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

#: Name -> what it measures.
BENCHMARKS = {
    "algebra": "predicates that grow to 10,000 filters",
    "codec": "the struct codec beside Scapy",
    "match": "the matching engines beside the C++ original, and the papers' figures",
    "forwarding": "a live router at saturation (root)",
    "match_update": "changes of a forwarding table of 1,000,000 constraints",
    "bring_up": "the emulated network beside bare Mininet (root)",
}


def main(arguments: list[str]) -> int:
    count = next((i for i, argument in enumerate(arguments) if argument.startswith("-")), len(arguments))
    names, options = arguments[:count], arguments[count:]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        known = ", ".join(f"{name} ({what})" for name, what in BENCHMARKS.items())
        print(f"bench: unknown benchmark {unknown[0]!r}; expected one of {known}", file=sys.stderr)
        return 2
    if options and len(names) != 1:
        print(f"bench: {options[0]}: options belong to one benchmark: NAME {options[0]} ...", file=sys.stderr)
        return 2
    for name in names or BENCHMARKS:
        print(f"== {name}: {BENCHMARKS[name]}", flush=True)
        module = import_module(f"tests.bench.{name}")
        if options and not hasattr(module, "configure"):
            print(f"bench: {name} has no options", file=sys.stderr)
            return 2
        run: Callable[..., None] = module.main
        run(**module.configure(options) if hasattr(module, "configure") else {})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
