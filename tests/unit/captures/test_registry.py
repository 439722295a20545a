"""Every table of the catalogue has one function that makes it, and the functions fit together."""

from __future__ import annotations

from graphlib import TopologicalSorter

import pytest

from captures.accounting import queries, registry
from captures.accounting.registry import ALWAYS, LOG_TABLES, MAKERS, NEVER, Maker, step
from captures.rundir.summary_keys import SUMMARY_KEYS
from captures.tables.catalogue import TABLES
from router.registry import Registry

#: Names that `captures.accounting.sources.Run` provides.
PROVIDED = {"run", "inputs", "clock", "bin_s", "bins", "last_ns", "one_task"}


def test_every_table_has_one_maker_and_every_maker_a_table() -> None:
    made = [maker.table for maker in MAKERS.values() if maker.table is not None]
    assert sorted([*made, *LOG_TABLES]) == sorted(TABLES)


def test_columns_are_named_once_in_a_table_and_have_a_meaning() -> None:
    for table in TABLES.values():
        names = table.schema.names
        assert len(set(names)) == len(names), table.name
        assert all(column.meaning for column in table.columns), table.name
        assert table.folders_by is None or table.folders_by in names


def test_times_and_counts_have_a_unit() -> None:
    lacking = [
        f"{table.name}.{column.name}"
        for table in TABLES.values()
        for column in table.columns
        if column.name.endswith(("_s", "_ns", "_us", "_ms", "frames", "bytes", "deliveries"))
        and not column.unit
    ]
    assert lacking == []


def test_what_a_function_takes_is_made_or_provided() -> None:
    assert PROVIDED.isdisjoint(MAKERS)
    unknown = {
        f"{maker.name}: {name}"
        for maker in MAKERS.values()
        for name in maker.needs
        if name not in MAKERS and name not in PROVIDED
    }
    assert unknown == set()
    # Raises CycleError where functions take each other's values in a circle.
    graph = {maker.name: [name for name in maker.needs if name in MAKERS] for maker in MAKERS.values()}
    assert len(tuple(TopologicalSorter(graph).static_order())) == len(MAKERS)


def test_every_step_is_used_and_what_is_kept_is_used_repeatedly() -> None:
    uses = {name: [maker for maker in MAKERS.values() if name in maker.needs] for name in MAKERS}
    for maker in MAKERS.values():
        ends = maker.table is not None or maker.summary
        assert ends or uses[maker.name], f"{maker.name}: nothing takes its value"
        if maker.kept is not NEVER:
            assert len(uses[maker.name]) + ends > 1, f"{maker.name}: one query alone uses it"


def test_keys_of_objects_are_documented() -> None:
    assert {maker.key for maker in MAKERS.values() if maker.key} <= set(SUMMARY_KEYS)


def test_a_second_function_of_a_name_is_refused() -> None:
    def link_bins() -> None: ...

    with pytest.raises(ValueError, match="'link_bins' is registered already"):
        step()(link_bins)


def test_values_are_computed_once_and_freed_with_their_last_query(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Frame:
        in_memory = False

        def cache(self) -> Frame:
            self.in_memory = True
            return self

        def unpersist(self) -> None:
            self.in_memory = False

    frame = Frame()

    def base(given: int) -> Frame:
        calls.append(f"base {given}")
        return frame

    def left(base: Frame) -> str:
        assert base.in_memory
        calls.append("left")
        return "l"

    def right(base: Frame, left: str) -> str:
        return f"{left} r" if base.in_memory else "freed"

    fresh = Registry[Maker]("function")
    monkeypatch.setattr(registry, "MAKERS", fresh)
    monkeypatch.setattr(queries, "MAKERS", fresh)
    step(kept=ALWAYS)(base)
    step()(left)
    step()(right)
    uses = {name: queries.needed_by(fresh[name]) for name in ("left", "right")}
    assert uses["right"] == {"base", "left", "right"}
    values = queries.Values({"given": 3}, [ALWAYS], {"base": 2, "left": 2, "right": 1})
    assert [values.get(name) for name in ("right", "left")] == ["l r", "l"]
    assert calls == ["base 3", "left"]
    values.release(uses["right"])
    assert frame.in_memory
    values.release(uses["left"])
    assert not frame.in_memory


def test_an_error_of_a_function_reaches_all_that_take_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def broken() -> None:
        calls.append("broken")
        raise ValueError("no value")

    def taker(broken: None) -> None: ...

    fresh = Registry[Maker]("function")
    monkeypatch.setattr(registry, "MAKERS", fresh)
    monkeypatch.setattr(queries, "MAKERS", fresh)
    step()(broken)
    step()(taker)
    values = queries.Values({}, [], {})
    for name in ("taker", "broken"):
        with pytest.raises(ValueError, match="no value"):
            values.get(name)
    assert calls == ["broken"]
