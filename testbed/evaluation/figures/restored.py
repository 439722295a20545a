"""The distributions of the authors' workload generator, with the weights that their release has flattened.

The released `types.dist` gives integers alone, `int_operators.dist` equality alone, `int_values.dist` the
value 1 alone: three settings of a later experiment, with which no message of figure 10 can be drawn. The
restored distributions give equal weights to the four types, to the four operators of integers and to the
values 0 to 99, as the other files of the release do to theirs. Names in messages and in constraints and the
values of strings are 200 words each, of which the i-th has the weight floor(200 / i), as released; here the
words are numbers behind a letter, in an order that is unrelated to their weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_WORDS = 200
#: Has no factor in common with `_WORDS`: a word for each number below it.
_STEP = 89
_ANY_ORDER = ("=", ">", "<", "!=")


def write_restored(folder: Path) -> Path:
    """Writes the restored distributions, a file each, into a folder that exists, and returns it."""
    words = [(_WORDS // rank, f"w{_STEP * rank % _WORDS:03d}") for rank in range(1, _WORDS + 1)]
    files: dict[str, Iterable[tuple[int, object]]] = {
        "attr_names": words,
        "constr_names": words,
        "types": _equal("isbd"),
        "int_operators": _equal(_ANY_ORDER),
        "int_values": _equal(range(100)),
        "double_operators": _equal(_ANY_ORDER),
        # 1.0 to 49.75.
        "double_values": _equal(1 + step / 4 for step in range(196)),
        "bool_operators": _equal(("=", "!=")),
        "bool_values": _equal((0, 1)),
        "string_operators": _equal(("=", ">", "<", "=*", "*=", "**", "!=")),
        "string_values": words,
    }
    for name, values in files.items():
        text = "".join(f"{weight} {value}\n" for weight, value in values)
        (folder / f"{name}.dist").write_text(text, encoding="utf-8")
    return folder


def _equal(values: Iterable[object]) -> list[tuple[int, object]]:
    return [(1, value) for value in values]
