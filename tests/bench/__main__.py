"""`./run.sh bench [NAME [OPTION=NUMBER ...] ...]`: runs the benchmarks named, or all.

Options are the arguments of a benchmark's `main`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from inspect import signature

#: Name -> what it measures.
BENCHMARKS = {
    "algebra": "predicates that grow to 10,000 filters",
    "codec": "the struct codec beside Scapy",
    "dissector": "tshark with the Wireshark dissector",
    "matching": "the matching engines",
    "recording": "what recording costs a router",
    "pcap": "captures to counts in Parquet, beside tshark, Scapy and dpkt",
    "pcap_memory": "a capture of 4 GB read by Spark in 2 GB",
    "decoders": "Scapy, codec, dissector and Spark decode on fuzzed frames: do they agree?",
    "bring_up": "the emulated network beside bare Mininet (root)",
}


def main(arguments: list[str]) -> int:
    chosen: list[tuple[str, dict[str, int]]] = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if equals and chosen and value.isdecimal():
            chosen[-1][1][name] = int(value)
        elif name in BENCHMARKS and not equals:
            chosen.append((name, {}))
        else:
            known = ", ".join(f"{name} ({what})" for name, what in BENCHMARKS.items())
            return _bad(f"{argument!r}: expected OPTION=NUMBER behind a name, or one of the names {known}")
    for name, options in chosen or [(name, {}) for name in BENCHMARKS]:
        run: Callable[..., None] = import_module(f"tests.bench.{name}").main
        unknown = set(options) - set(signature(run).parameters)
        if unknown:
            known = ", ".join(signature(run).parameters)
            return _bad(f"{name}: unknown option {min(unknown)}; expected one of {known}")
        print(f"== {name}: {BENCHMARKS[name]}", flush=True)
        run(**options)
    return 0


def _bad(message: str) -> int:
    print(f"bench: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
