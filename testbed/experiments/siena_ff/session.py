"""`cbcb match`: answers the statements of a Siena Fast Forwarding (SFF) file, with any matching engine.

The usual order of statements is a table, `consolidate`, messages. `select` consolidates the table if
necessary, as in SFF. The `ifconfig` statements of one interface between two consolidations add filters, as
in SFF (its documentation leaves this open). After a consolidation, SFF refuses `ifconfig` until `clear`;
this program replaces the predicate of the interface.
"""

from __future__ import annotations

import re
import statistics
import time
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from router.matching.columns import ColumnsBuilder
from router.matching.engines import Matcher, factory
from router.predicates import Filter, Message, Predicate
from router.wire.message import encode_message
from testbed.experiments.siena_ff.reader import Reader, Statement
from testbed.support.usage import resident_bytes, uncollected

#: The default format of `statistics`, as in SFF.
_FORMAT = "i=%i f=%f c=%c n=%n a=%a w=%w W=%W m=%m M=%M s=%s\n"
_ESCAPES = {"n": "\n", "t": "\t", "a": "\a", "v": "\v", "\\": "\\"}


class Session:
    """One run of the driver.

    Args:
        engine: a name of `router.matching.engines`.
    """

    def __init__(self, engine: str, out: TextIO) -> None:
        self._engine = engine
        self._out = out
        self._matcher: Matcher = factory(self._engine)
        #: Interface -> the filters since the last consolidation.
        self._filters: dict[int, list[Filter]] = {}
        #: Interface -> its filters and constraints, in the consolidated table.
        self._sizes: dict[int, tuple[int, int]] = {}
        self._output = "on"
        self._build_s = 0.0
        self._memory = 0
        #: Nanoseconds of each match.
        self._times = array("q")
        #: SFF's counters, by their letters in the format of `statistics`.
        self._counters = dict.fromkeys("ifcnamMwW", 0)

    def run(self, chunks: Iterable[str], name: str) -> None:
        """Answers the statements of `chunks`, text of the file `name`.

        Raises:
            InputError: a statement is not in the language; those before it have been answered.
        """
        reader = Reader(self._flushing(chunks), name)
        try:
            # Neither statements nor tables are garbage in cycles.
            with uncollected():
                for statement in reader.statements():
                    self._answer(statement)
                self._consolidate()
        finally:
            self._out.flush()

    def _flushing(self, chunks: Iterable[str]) -> Iterable[str]:
        """Yields the chunks; writes the answers before it waits for the next chunk."""
        for chunk in chunks:
            yield chunk
            self._out.flush()

    def _answer(self, statement: Statement) -> None:
        match statement.keyword, *statement.arguments:
            case ["ifconfig"]:
                self._counters["i"] += 1
                self._counters["f"] += len(statement.filters)
                self._counters["c"] += sum(map(len, statement.filters))
                self._filters.setdefault(statement.interface, []).extend(statement.filters)
            case ["select"]:
                assert statement.message is not None
                self._select(statement.message)
            case ["consolidate"]:
                self._consolidate()
            case ["clear", *_]:
                self._matcher = factory(self._engine)
                self._filters.clear()
                self._sizes.clear()
                self._build_s, self._memory = 0.0, 0
            case ["output", what]:
                self._output = what
            case ["statistics", *formats]:
                self._out.write(self._formatted(formats[0] if formats else _FORMAT))
            case _:
                pass  # `timer` and `set` change how SFF works and measures, not its answers

    def _select(self, message: Message) -> None:
        self._consolidate()
        matched = self._matched(message)
        self._counters["n"] += 1
        self._counters["a"] += len(message)
        self._counters["m"] += bool(matched)
        self._counters["M"] += len(matched)
        if self._output == "on":
            self._out.write(" ".join(["->", *map(str, sorted(matched))]) + "\n")
        elif self._output == "count":
            self._out.write(f"{len(matched)}\n")

    def _matched(self, message: Message) -> frozenset[int]:
        """Returns the interfaces that match, and records the time for a message in the form of the engine."""
        matcher = self._matcher
        body = encode_message(message)
        started = time.perf_counter_ns()
        found = matcher.match_encoded(body)
        if found is None:
            started = time.perf_counter_ns()
            found = matcher.match(message)
        self._times.append(time.perf_counter_ns() - started)
        return found

    def _consolidate(self) -> None:
        """Applies the `ifconfig` statements since the last consolidation to the table."""
        if not self._filters:
            return
        if self._sizes:
            with self._measured():
                for interface, filters in self._filters.items():
                    self._matcher.set_predicate(interface, Predicate(tuple(filters)))
        else:
            columns = ColumnsBuilder()
            for interface, filters in sorted(self._filters.items()):
                for each in filters:
                    columns.add(interface, each)
            table = columns.build()
            with self._measured():
                self._matcher.load(table)
        for interface, filters in self._filters.items():
            self._sizes[interface] = len(filters), sum(map(len, filters))
        self._filters.clear()

    @contextmanager
    def _measured(self) -> Iterator[None]:
        """Adds time and memory of a block to those of the table."""
        resident = resident_bytes()
        started = time.perf_counter()
        yield
        self._build_s += time.perf_counter() - started
        self._memory += resident_bytes() - resident

    @property
    def _bytes(self) -> int:
        """Returns the memory of the table as reported by the engine, or otherwise the growth of the
        process."""
        return self._memory if self._matcher.nbytes is None else self._matcher.nbytes

    def _formatted(self, template: str) -> str:
        values = {**self._counters, "s": self._bytes, "S": self._bytes, "%": "%"}

        def replace(found: re.Match[str]) -> str:
            mark, letter = found.group(1, 2)
            return str(values.get(letter, found.group())) if mark == "%" else _ESCAPES.get(letter, letter)

        return re.sub(r"([%\\])(.)", replace, template)

    def statistics(self) -> str:
        """The table, its build and the matching, a line each."""
        filters = sum(filters for filters, _ in self._sizes.values())
        constraints = sum(constraints for _, constraints in self._sizes.values())
        memory = f"{self._bytes:,} bytes"
        if constraints:
            memory += f", {self._bytes / constraints:.1f} a constraint"
        if self._matcher.nbytes is None:
            memory += " (growth of the process)"
        lines = {
            "engine": self._engine,
            "constraints": f"{constraints:,}",
            "filters": f"{filters:,}",
            "interfaces": f"{len(self._sizes):,}",
            "build": f"{self._build_s:.3f} s",
            "memory": memory,
            "messages": f"{len(self._times):,}",
        }
        if self._times:
            mean, median = statistics.fmean(self._times), statistics.median(self._times)
            lines["a message"] = f"median {median / 1e3:.1f} us, mean {mean / 1e3:.1f} us, matching alone"
        return "\n".join(f"{name:12} {text}" for name, text in lines.items())
