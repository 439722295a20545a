"""Every engine, whatever its options, answers as the naive one does; tables go to it whole or by changes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from router.matching.compiled import Part
from router.matching.compiled.engine import CompiledMatcher
from router.matching.engines import Matcher, NaiveMatcher
from router.predicates import STRING_ONLY, Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.parser import parse_predicate
from router.wire.message import encode_message
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table
from tests.support.matching_variants import VARIANTS, to_columns
from tests.support.predicate_worlds import HOSTILE_MESSAGES, HOSTILE_PREDICATES, HOSTILE_VALUES, MIXED

INTERFACES = st.integers(-2, 8)


@pytest.mark.parametrize("name", VARIANTS)
@given(
    st.dictionaries(INTERFACES, HOSTILE_PREDICATES, max_size=6),
    st.lists(HOSTILE_MESSAGES, min_size=1, max_size=8),
    st.booleans(),
    st.none() | st.sets(INTERFACES),
)
def test_a_table_of_hostile_values(
    name: str, table: dict[int, Predicate], messages: list[Message], loaded: bool, among: set[int] | None
) -> None:
    engine, naive = VARIANTS[name](), NaiveMatcher()
    naive.load(to_columns(table))
    if loaded:
        engine.load(to_columns(table))
    else:
        for interface, predicate in table.items():
            engine.set_predicate(interface, predicate)
    for message in messages:
        expected = naive.match(message, among)
        assert engine.match(message, among) == expected
        if isinstance(engine, CompiledMatcher):
            assert engine.match_encoded(encode_message(message), among) == expected


def _random_filter(source: random.Random) -> Filter:
    constraints = []
    for _ in range(source.randint(1, 3) if source.random() < 0.97 else 0):
        kind = source.choice(MIXED)
        operator = source.choice([o for o in Operator if kind is Type.STRING or o not in STRING_ONLY])
        value = None if operator is Operator.ANY else source.choice(HOSTILE_VALUES[kind])
        constraints.append(Constraint(source.choice("xyz"), kind, operator, value))
    return Filter(tuple(constraints))


def _random_messages(source: random.Random) -> Iterator[Message]:
    values = [value for kind in MIXED for value in HOSTILE_VALUES[kind]]
    for _ in range(3):
        yield Message({name: source.choice(values) for name in source.sample("xyzw", source.randint(0, 4))})


@pytest.mark.parametrize("name", VARIANTS)
def test_histories(name: str) -> None:
    """Interfaces that grow, lose filters, come and go."""
    matched = 0
    for round_ in range(12):
        source = random.Random(round_)
        engine, naive = VARIANTS[name](), NaiveMatcher()
        both: tuple[Matcher, ...] = (engine, naive)
        held: list[dict[Filter, None]] = [{} for _ in range(30)]
        if round_ % 2:
            table = {i: Predicate(tuple(_random_filter(source) for _ in range(5))) for i in range(30)}
            for each in both:
                each.load(to_columns(table))
        for _ in range(150):
            interface = source.randrange(30)
            filters = held[interface]
            if not filters or source.random() < 0.1:
                filters.clear()
                for each in both:
                    each.remove(interface)
            gone = [filter_ for filter_ in filters if source.random() < 0.1]
            drawn = dict.fromkeys(_random_filter(source) for _ in range(source.randint(0, 3)))
            added = [filter_ for filter_ in drawn if filter_ not in filters]
            for each in both:
                each.change(interface, gone, added)
            for filter_ in gone:
                del filters[filter_]
            filters.update(dict.fromkeys(added))
            if source.random() < 0.5:
                for message in _random_messages(source):
                    among = (
                        None if source.random() < 0.4 else source.sample(range(33), source.choice([0, 1, 15]))
                    )
                    answer = engine.match(message, among)
                    assert answer == naive.match(message, among)
                    matched += len(answer)
        assert not isinstance(engine, CompiledMatcher) or len(engine._segments) <= 8
    assert matched > 3000


#: Few and large predicates; many and small ones; few words, so that much matches; `any`, `!=` and the like.
SHAPES = {
    "few interfaces": MatchingWorkload(600, 4, 4_000),
    "many interfaces": MatchingWorkload(600, 150, 4_000),
    "few words": MatchingWorkload(
        300, 60, 4_000, filter_constraints=(2, 5), message_attributes=(3, 8), words=9, integers=4
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_engine_is_naive_on_thousands_of_messages(shape: str) -> None:
    table, messages = draw_table(SHAPES[shape]), list(draw_messages(SHAPES[shape]))
    naive = NaiveMatcher()
    naive.load(table)
    expected = [naive.match(message) for message in messages]
    assert sum(map(bool, expected)) > 400
    for name in VARIANTS:
        engine = VARIANTS[name]()
        engine.load(table)
        assert [engine.match(message) for message in messages] == expected, name


_WIDE = dict.fromkeys("cdefg", Type.INTEGER) | {"a": Type.DOUBLE, "b": Type.BOOLEAN}


def _wide_filter(source: random.Random, values: dict[Type, list[Any]]) -> Filter:
    constraints = []
    for name in source.sample("abcdef", source.choice([1, 2, 4])):
        low, high = sorted(source.choices(values[_WIDE[name]], k=2))
        bounds = [(Operator.GE, low), (Operator.LE, high), (Operator.GT, low), (Operator.LT, high)]
        chosen = source.choice([bounds[:1], bounds[1:2], bounds[:2], bounds[2:], [(Operator.ANY, None)]])
        constraints += [Constraint(name, _WIDE[name], operator, value) for operator, value in chosen]
    return Filter(tuple(constraints))


@pytest.mark.parametrize("hostile", [False, True])
def test_tables_of_wide_intervals(hostile: bool) -> None:
    """Tables that `compiled` sieves: few matches, which are verified, and many, which are not."""
    source = random.Random(1)
    drawn = {
        Type.INTEGER: [*range(500)],
        Type.DOUBLE: [x / 8 for x in range(99)],
        Type.BOOLEAN: [False, True],
    }
    values = HOSTILE_VALUES if hostile else drawn
    shares = list[float]()
    for interfaces in (30, 700):
        table = {
            i: [_wide_filter(source, values) for _ in range(1400 // interfaces)] for i in range(interfaces)
        }
        engine, naive = CompiledMatcher(), NaiveMatcher()
        for each in (engine, naive):
            for interface, filters in table.items():
                each.set_predicate(interface, Predicate(tuple(filters)))
        for number in range(100):
            if number == 50:
                for interface in range(0, interfaces, 3):
                    for each in (engine, naive):
                        each.remove(interface)
            names = source.sample("abcdefg", source.randint(1, 7))
            message = Message({name: source.choice(values[_WIDE[name]]) for name in names})
            among = None if number % 2 else source.sample(range(interfaces), interfaces // 2)
            answer = engine.match(message, among)
            assert answer == naive.match(message, among)
            shares.append(len(answer) / interfaces)
        assert engine._segments[0].segment.parts[Part.SIEVE_COUNT] == 6
    assert (min(shares), max(shares) > 0.5) == (0, True)


def test_a_table_of_too_many_slots_has_no_sieve() -> None:
    engine = CompiledMatcher()
    texts = (" and ".join(f"x{(i + k) % 300} > {k}" for k in range(3)) for i in range(300))
    engine.load(to_columns({i: parse_predicate(text) for i, text in enumerate(texts)}))
    assert engine.match(Message({"x7": 1, "x8": 2, "x9": 3})) == {7}
    assert engine._segments[0].segment.parts[Part.SIEVE_COUNT] == 0
