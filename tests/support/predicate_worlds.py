"""Random predicates over few bounds, and enough messages to distinguish them.

`CRITICAL` holds, for every type, values on, beside and between all bounds that the generated constraints
can have; two sets of values of these constraints differ only if they differ on one of them.
"""

import math
from collections.abc import Mapping
from itertools import product

from hypothesis import strategies as st

from router.predicates import (
    INTEGER_MAX,
    INTEGER_MIN,
    STRING_ONLY,
    Constraint,
    Filter,
    Message,
    Operator,
    Predicate,
    Type,
    Value,
)

BOUNDS: dict[Type, list[Value]] = {
    Type.STRING: ["", "a", "b", "ab", "ba", "aa", "aba", "a\0"],
    Type.INTEGER: [0, 1, 2, 3, 4],
    Type.DOUBLE: [-0.0, 1.0, 1.0000000000000002, 2.5],
    Type.BOOLEAN: [False, True],
}


def _neighbours(value: float) -> list[Value]:
    """The double, the next ones on both sides, and the second above."""
    above = math.nextafter(value, math.inf)
    return [math.nextafter(value, -math.inf), value, above, math.nextafter(above, math.inf)]


#: A letter above and one below those of the bounds stand for all the others.
_STRINGS = ["".join(letters) for n in range(5) for letters in product("\0abc", repeat=n)]
#: In no suffix or substring of the bounds, so that it keeps apart what it stands between.
_SEPARATOR = "c"
CRITICAL: dict[Type, list[Value]] = {
    Type.STRING: [*_STRINGS, "A", "aA"],
    Type.INTEGER: [-1, 0, 1, 2, 3, 4, 5],
    Type.DOUBLE: [-1.0, 0.5, 2.0, 3.0, *_neighbours(0.0), *_neighbours(1.0), *_neighbours(2.5)],
    Type.BOOLEAN: [False, True],
}
#: Strings of `CRITICAL` are too many for whole messages.
FEW_STRINGS = ["", "a", "a\0", "ab", "aba", "b", "ba", "baba", "c", "cab"]


@st.composite
def constraints_of(
    draw: st.DrawFn, names: st.SearchStrategy[str], values: Mapping[Type, st.SearchStrategy[Value]]
) -> Constraint:
    """Constraints of some names and values, with each operator that the type of the value has."""
    kind = draw(st.sampled_from(sorted(values)))
    operator = draw(st.sampled_from([o for o in Operator if kind is Type.STRING or o not in STRING_ONLY]))
    value = None if operator is Operator.ANY else draw(values[kind])
    return Constraint(draw(names), kind, operator, value)


def constraints(names: str, kinds: list[Type]) -> st.SearchStrategy[Constraint]:
    return constraints_of(st.sampled_from(names), {kind: st.sampled_from(BOUNDS[kind]) for kind in kinds})


def filters_of(each: st.SearchStrategy[Constraint], most: int = 4) -> st.SearchStrategy[Filter]:
    return st.lists(each, max_size=most).map(lambda found: Filter(tuple(found)))


def predicates_of(
    each: st.SearchStrategy[Constraint], constraints: int = 4, filters: int = 4
) -> st.SearchStrategy[Predicate]:
    return st.lists(filters_of(each, constraints), max_size=filters).map(
        lambda found: Predicate(tuple(found))
    )


def conjunctions(names: str, kinds: list[Type], most: int = 4) -> st.SearchStrategy[Filter]:
    return filters_of(constraints(names, kinds), most)


def predicates(names: str, kinds: list[Type]) -> st.SearchStrategy[Predicate]:
    return predicates_of(constraints(names, kinds), 3, 5)


def messages(names: str, kinds: list[Type]) -> list[Message]:
    """Every message with each name absent or of a critical value."""
    values = [v for kind in kinds for v in (FEW_STRINGS if kind is Type.STRING else CRITICAL[kind])]
    choices: list[Value | None] = [None, *values]
    return [
        Message({name: value for name, value in zip(names, chosen, strict=True) if value is not None})
        for chosen in product(choices, repeat=len(names))
    ]


INTEGER_AND_BOOLEAN = [Type.INTEGER, Type.BOOLEAN]
MIXED = [Type.STRING, Type.INTEGER, Type.DOUBLE, Type.BOOLEAN]
MIXED_WORLD = messages("xy", MIXED)


def critical_values(kind: Type, group: list[Constraint]) -> list[Value]:
    """Values among which is one that satisfies `group`, and not others, if there is any."""
    if kind is not Type.STRING:
        return CRITICAL[kind]
    parts = [str(c.value) for c in group if c.operator is Operator.SUBSTRING]
    tail = max((str(c.value) for c in group if c.operator is Operator.SUFFIX), key=len, default="")
    middle = _SEPARATOR.join(["", *parts, ""])
    return [*CRITICAL[kind], *(head + rest + tail for head in _STRINGS for rest in ("", middle, _SEPARATOR))]


_LONG = "ab" * 20_000
#: Values at the ends of types, and strings around the lengths of words.
HOSTILE_VALUES: dict[Type, list[Value]] = {
    Type.STRING: [
        *["", "a", "b", "ab", "ba", "aa", "aba", "abab", "a\0", "\0", "\0a"],
        *["é", "aé", "\U0001f600", "\u07ff"],
        *["abcdefgh", "abcdefg", "abcdefghi", "abcdefgh\0", "abcdefghij", "zabcdefgh", _LONG, _LONG + "c"],
    ],
    Type.INTEGER: [INTEGER_MIN, INTEGER_MIN + 1, -1, 0, 1, 2, INTEGER_MAX - 1, INTEGER_MAX],
    Type.DOUBLE: [-1.7e308, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, 1.7e308],
    Type.BOOLEAN: [False, True],
}
_HOSTILE_NAMES = ["x", "y", "z", "é" * 100]
_HOSTILE = {kind: st.sampled_from(values) for kind, values in HOSTILE_VALUES.items()}
HOSTILE_PREDICATES = predicates_of(constraints_of(st.sampled_from(_HOSTILE_NAMES), _HOSTILE), filters=6)
HOSTILE_MESSAGES = st.dictionaries(
    st.sampled_from([*_HOSTILE_NAMES, "w"]), st.one_of(*_HOSTILE.values())
).map(Message)
