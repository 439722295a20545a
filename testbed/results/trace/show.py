"""Display of a trace on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from router.predicates import Filter, matches_constraint
from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_constraint, format_predicate
from testbed.results.trace import Branch, Listed, Pruned, Receiver, Stop, Trace
from testbed.terminal import printable
from testbed.terminal.numbers import counted

_BESIDE, _LAST, _PAST, _NOTHING = "├─ ", "└─ ", "│  ", "   "
_NODES_NAMED = 8


def lines(trace: Trace, width: int | None = None) -> Iterator[str]:
    """Returns the trace as a tree of lines.

    Args:
        width: characters of a line, to which predicates and messages are cut; None: not cut.
    """
    yield _cut(f"message {trace.source}:{trace.number}  {trace.message}", width)
    epoch = "no frame of it was captured" if trace.epoch is None else f"epoch {trace.epoch}"
    when = f"sent at {trace.sent_s:.3f} s (experiment time) by {trace.host(trace.source)}"
    yield f"{when}, sequence number {trace.seq}, {epoch}"
    yield _verdict(trace)
    if not trace.tree_known:
        yield "the tables of its epoch are in no capture: only links that it crossed appear"
    yield ""
    by_parent = {(stop.parent, stop.node): stop for stop in trace.stops}
    # Depth first, without recursion: a path may have a thousand hops.
    waiting: list[tuple[Stop, str, str, Branch | None]] = [(trace.stops[0], "", "", None)]
    while waiting:
        stop, first, rest, via = waiting.pop()
        yield _cut(first + _stop(trace, stop, via), width)
        onward = [
            (by_parent[stop.node, branch.to], branch)
            for branch in stop.branches
            if branch.to is not None and (stop.node, branch.to) in by_parent
        ]
        taken = {id(branch) for _, branch in onward}
        # Branches that end at this router come first, so that the lines of a subtree are contiguous.
        ends = [*map(_receiver, stop.receivers), *_decision(stop)]
        ends += [_end(trace, branch) for branch in stop.branches if id(branch) not in taken]
        for position, text in enumerate(ends, 1):
            last = position == len(ends) and not onward
            yield _cut(rest + (_LAST if last else _BESIDE) + text, width)
        following = []
        for position, (reached, branch) in enumerate(onward, 1):
            lead, hang = (_LAST, _NOTHING) if position == len(onward) else (_BESIDE, _PAST)
            following.append((reached, rest + lead, rest + hang, branch))
        waiting += reversed(following)
    for node, receivers in trace.unreached.items():
        for receiver in receivers:
            yield _cut(f"{trace.host(node)} (not reached): {_receiver(receiver)}", width)
    origins = {branch.pruned.known for stop in trace.stops for branch in stop.branches if branch.pruned}
    if "end" in origins:
        yield ""
        yield "p1, p2, ... are those of the end of the run: it left no recordings of what they were before"
    if "now" in origins:
        yield ""
        yield "p1, p2, ... are those that the routers have now; a recording that is being written is not read"


def listing(messages: Iterable[Listed], width: int | None = None, *, live: bool = False) -> Iterator[str]:
    """Returns a line for each message; of a `live` run the oracle has judged none."""

    def delivered(one: Listed) -> str:
        missed = f", {one.missed} missed" if one.missed else ""
        return f"{one.delivered} so far" if live else f"{one.delivered}/{one.expected}{missed}"

    rows = [
        (f"{one.source}:{one.number}", f"{one.sent_s:.3f}", delivered(one), one.message) for one in messages
    ]
    heading = "delivered" if live else "delivered/expected"
    yield from table(("message", "sent (s)", heading, "content"), rows, width)


def table(
    heading: tuple[str, str, str, str], rows: list[tuple[str, str, str, str]], width: int | None
) -> Iterator[str]:
    """Returns the rows as lines, cut to a width, and a line with their number."""
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    for name, sent, delivered, content in (heading, *rows):
        line = f"{name.ljust(widths[0])}  {sent.rjust(widths[1])}  {delivered.ljust(widths[2])}  {content}"
        yield _cut(line, width)
    yield f"({counted(len(rows), heading[0])})"


def _verdict(trace: Trace) -> str:
    everybody = [one for stop in trace.stops for one in stop.receivers]
    everybody += [one for receivers in trace.unreached.values() for one in receivers]
    expected = sum(one.expected for one in everybody)
    made = sum(one.delay_s is not None for one in everybody)
    missed = sum(one.missed for one in everybody)
    routers = sum(stop.arrived_s is not None for stop in trace.stops)
    pruned = sum(branch.pruned is not None for stop in trace.stops for branch in stop.branches)
    said = f"{made} delivered so far"
    if trace.judged:
        said = f"{made} delivered, {expected} expected{f', {missed} MISSED' if missed else ''}"
    said += f"; at {counted(routers, 'router')}"
    return f"{said}; pruned at {pruned} interfaces" if trace.tree_known else said


def _stop(trace: Trace, stop: Stop, via: Branch | None) -> str:
    if via is None:
        return trace.host(stop.node)
    name = f"{trace.host(stop.node)}  by interface {via.interface}"
    if stop.arrived_s is None:
        lost = "not captured so far" if trace.live else "lost"
        where = "before the link" if via.crossed_s is None else "between the link and the router"
        return f"{name}: {lost} {where}"
    times = "" if via.crossings <= 1 else f", {via.crossings} TIMES over that link"
    return f"{name}, hop {stop.hop}, {_ms(stop.arrived_s)}{times}"


def _decision(stop: Stop) -> Iterator[str]:
    if stop.arrived_s is None:
        return
    if stop.dropped is not None:
        yield f"✗ dropped: {stop.dropped}"
    elif not any(branch.pruned is None for branch in stop.branches) and not any(
        receiver.delay_s is not None for receiver in stop.receivers
    ):
        what = "nobody wants it" if stop.parent is None else "false positive: neither forwarded nor delivered"
        yield f"✗ {what}"


def _receiver(receiver: Receiver) -> str:
    if receiver.delay_s is None:
        if receiver.expected:
            undecided = "" if receiver.decided else " (undecided: a change lay close)"
            return f"✗ MISSED by {receiver.app}{undecided}"
        return f"· undecided for {receiver.app}, not delivered"
    odd = [] if receiver.times == 1 else [f"{receiver.times} TIMES"]
    if not receiver.decided:
        odd.append("undecided")
    elif not receiver.expected:
        odd.append("NOT EXPECTED")
    return f"✓ delivered to {receiver.app} {_ms(receiver.delay_s)}" + (f" ({', '.join(odd)})" if odd else "")


def _end(trace: Trace, branch: Branch) -> str:
    to = "?" if branch.to is None else trace.host(branch.to)
    if branch.pruned is not None:
        reason = _reason(branch.pruned, branch.interface, trace.message)
        return f"✂ {to}{_beyond(trace, branch.pruned)}  {reason}"
    if branch.off_tree:
        return f"· {to}  by interface {branch.interface}: dropped there, its reverse path is another"
    return f"· {to}  by interface {branch.interface}: reached before by another way"


def _beyond(trace: Trace, pruned: Pruned) -> str:
    behind = [trace.host(node) for node in pruned.beyond[1:]]
    if not behind:
        return ""
    more = len(behind) - _NODES_NAMED
    return f" (and beyond it {', '.join(behind[:_NODES_NAMED])}{f' and {more} more' if more > 0 else ''})"


def _reason(pruned: Pruned, interface: int, text: str) -> str:
    name = f"p{interface}"
    if pruned.predicate is None:
        return f"not sent there; {name} is not known"
    if pruned.matches is None and pruned.predicate != "none":
        return f"{name} is {pruned.predicate}: what it selects cannot be read"
    if pruned.predicate == "none":
        return f"{name} is empty"
    if not pruned.matches:
        predicate, message = parse_predicate(pruned.predicate), parse_message(text)

        def marked(filter_: Filter) -> str:
            texts = (
                ("" if matches_constraint(each, message) else "✗") + format_constraint(each)
                for each in filter_
            )
            return " and ".join(texts)

        return f"{name} does not select it: {format_predicate(predicate, marked)}"
    if pruned.known == "now":
        return f"{name} selects it now, that of the moment did not: {pruned.predicate}"
    if pruned.known == "end":
        return f"{name} of the end of the run selects it, that of the moment did not: {pruned.predicate}"
    return f"{name} SELECTS IT, yet it was not sent there: {pruned.predicate}"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:+.2f} ms"


def _cut(text: str, width: int | None) -> str:
    text = printable(text)
    return text if width is None or len(text) <= width else text[: width - 1] + "…"
