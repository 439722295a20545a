"""`./run.sh bench` lists the benchmarks, `./run.sh bench NAME ...` runs some.

`./run.sh bench NAME OPTIONS` runs one with options of its own; `./run.sh bench NAME --help` lists them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from inspect import Parameter, cleandoc, signature
from types import ModuleType
from typing import Any

#: Name -> how long it takes without options, on two cores with other work, and what it measures.
BENCHMARKS = {
    "bombs": ("18 min", "the longest turn of a router under expensive predicates"),
    "matching": ("30 min", "matching beside the algorithms of the field, and the C++ original"),
    "forwarding": ("30 s", "a live router at saturation (root)"),
    "hop": ("40 s", "a live router woken for one message at a time (root)"),
    "emulated_hops": ("5 min", "CPU of a message at each router of the default experiment (root)"),
    "simulate": ("2 min", "simulations of growing networks: events per second, memory per router"),
    "columns": ("20 s", "views of frames on one core, by the codec and by compiled code"),
    "footprint": (
        "2 min",
        "processes, memory, descriptors, time and disk of an emulation, beside Mininet (root)",
    ),
    "soak": ("1 h", "a long run with random faults: memory, descriptors and queues of each part (root)"),
    "roots": (
        "25 min",
        "a distribution set up from nothing: set-up, default experiment, unit tests (root, debootstrap)",
    ),
    "kill_anywhere": (
        "90 min",
        "runs whose processes are killed at random moments: what `cbcb clean` leaves (root)",
    ),
}


def main(arguments: list[str]) -> int:
    count = next((i for i, argument in enumerate(arguments) if argument not in BENCHMARKS), len(arguments))
    names, options = arguments[:count], arguments[count:]
    known = "".join(f"\n  {name:14} {takes:>6}  {what}" for name, (takes, what) in BENCHMARKS.items())
    if not names and options in ([], ["-h"], ["--help"]):
        print(f"{cleandoc(__doc__ or '')}\n{known}")
        return 0
    if options and len(names) != 1:
        print(f"bench: {options[0]!r}: expected names, or one name and its options:{known}", file=sys.stderr)
        return 2
    for name in names:
        print(f"== {name}: {BENCHMARKS[name][1]}", flush=True)
        module = import_module(f"tests.bench.{name}")
        run: Callable[..., None] = module.main
        positional, named = _parsed(name, module, options)
        run(*positional, **named)
    return 0


def _parsed(name: str, module: ModuleType, options: list[str]) -> tuple[list[int], dict[str, Any]]:
    """The arguments of a benchmark's `main`: an option for each parameter, of the type of its default."""
    parser = argparse.ArgumentParser(
        prog=f"./run.sh bench {name}",
        description=f"{module.__doc__}\n{cleandoc(module.main.__doc__ or '')}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = None
    for parameter in signature(module.main).parameters.values():
        option, default = "--" + parameter.name.replace("_", "-"), parameter.default
        if parameter.kind is Parameter.VAR_POSITIONAL:
            several = parameter.name
            parser.add_argument(several, type=int, nargs="*", metavar="N")
        elif default is False:
            parser.add_argument(option, action="store_true")
        else:
            many = isinstance(default, tuple)
            kind = type(default[0] if many else default)
            shown = f"({'+'.join(map(str, default)) if many else default})"
            convert = partial(_split, kind) if many else kind
            metavar = f"{'TEXT' if kind is str else 'N'}{'+...' if many else ''}"
            parser.add_argument(option, type=convert, default=default, metavar=metavar, help=shown)
    named = vars(parser.parse_args(options))
    return (named.pop(several) if several is not None else []), named


def _split(kind: Callable[[str], Any], text: str) -> tuple[Any, ...]:
    return tuple(kind(each) for each in text.split("+") if each)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
