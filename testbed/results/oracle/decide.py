"""The verdict of an observer with perfect knowledge: the applications that should receive each message.

Protocol paper, section 4.2: the oracle knows every predicate at every time. *Expected* is its answer at the
time of sending. Messages take time to travel and predicates take time to become known, so that near a
change a delivery and its absence can both be right; a *decided* answer is not near a change. The oracle
knows the network as well: no delivery is expected if sender and receiver were not connected, or were
farther apart on the broadcast trees than the hop limit of the message.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from operator import itemgetter

from captures.rundir.faults import NEVER_NS
from captures.rundir.oracle import OracleAnswer
from testbed.experiments.workload.constraints import PredicateIndex
from testbed.results.oracle.history import Application, History, Sending, Setting, possible
from testbed.support.errors import reading

#: An application, a setting of it, and the following one. The setting may be in force from its request until
#: the following one is confirmed, and is in force from its confirmation until the following one is requested.
_Span = tuple[Application, Setting, Setting]
#: Follows the last setting.
_NEVER = Setting(NEVER_NS, NEVER_NS, [])


def judge(history: History, window_s: float) -> Iterator[OracleAnswer]:
    """Judges each message at each application; pairs neither expected nor undecided are left out.

    A pair is expected if the predicate in force when the message was sent selects it, and links and nodes
    that were up joined sender and receiver at that time. It is decided if every predicate that may have been
    in force within the window around the sending, which is wider while a router is stopped, gives the same
    answer, and, if one of them selects the message, no broadcast tree changed within the window.

    A change of broadcast trees, and of the connectivity, can lose a message but cannot make a router deliver
    it to an application whose predicate does not select it. The change therefore leaves only pairs undecided
    whose predicate selects the message. The deliveries of a message that is not known are undecided.

    Args:
        window_s: wall seconds before and after a sending within which changes leave the answer open.

    Raises:
        InputError: a predicate or a message is malformed.
    """
    window_ns = round(window_s * 1e9)
    spans = list(_spans(history))
    with reading("records of applications"):
        index = PredicateIndex(setting.filters for _, setting, _ in spans)
    for sending in sorted(history.sendings, key=itemgetter("requested_ns")):
        with reading(f"message {sending['source']}/{sending['seq']}"):
            selecting = [spans[number] for number in sorted(index.matching(sending["attributes"]))]
        yield from _judge_message(history, sending, selecting, window_ns)
    for source, seq, application, delivered_ns in history.unknown:
        yield _answer(source, seq, delivered_ns, application, expected=False, decided=False)


def _answer(
    source: int, seq: int, sent_ns: int, application: Application, *, expected: bool, decided: bool
) -> OracleAnswer:
    return OracleAnswer(
        source=source,
        seq=seq,
        sent_ns=sent_ns,
        node=application.node,
        app=application.name,
        expected=expected,
        decided=decided,
    )


def _spans(history: History) -> Iterator[_Span]:
    for application, settings in sorted(history.timelines.items(), key=lambda pair: pair[0]):
        settings.sort(key=lambda setting: setting.confirmed_ns)
        yield from ((application, *pair) for pair in pairwise([*settings, _NEVER]))


def _judge_message(
    history: History, sending: Sending, selecting: list[_Span], window_ns: int
) -> Iterator[OracleAnswer]:
    """Judges a message; `selecting`: the settings that select the message, whenever they are in force."""
    from_ns, to_ns = sending["requested_ns"] - window_ns, sending["t_ns"] + window_ns
    for stopped_ns, resumed_ns in history.delays:
        # The message, and predicates set before it, may have waited in the router for that long.
        if stopped_ns <= to_ns and from_ns <= resumed_ns:
            from_ns, to_ns = min(from_ns, stopped_ns - window_ns), max(to_ns, resumed_ns + window_ns)
    # The last change that begins before the window ends; earlier changes ended before it began.
    last = bisect_right(history.tree_changes, to_ns, key=lambda change: change[0]) - 1
    trees_changed = last >= 0 and history.tree_changes[last][1] >= from_ns

    answer = partial(_answer, sending["source"], sending["seq"], sending["requested_ns"])

    def reachable(application: Application) -> bool:
        # Connectivity at one time suffices: when it changes, trees change, and the pair is undecided.
        return history.connectivity.connected(sending["source"], application.node, sending["requested_ns"])

    unsettled: dict[Application, list[_Span]] = {}
    for span in selecting:
        application, setting, following = span
        if setting.confirmed_ns <= from_ns and following.requested_ns > to_ns:
            expected = reachable(application)
            if expected or trees_changed:
                yield answer(application, expected=expected, decided=not trees_changed)
        elif setting.requested_ns <= to_ns and following.confirmed_ns > from_ns:
            unsettled.setdefault(application, []).append(span)
    sent_ns = sending["requested_ns"]
    for application, own in unsettled.items():
        connected = reachable(application)
        in_force = (each.confirmed_ns <= sent_ns < following.confirmed_ns for _, each, following in own)
        expected = connected and any(in_force)
        # Those of the application's settings that were possible and select the message are in `own`.
        all_select = len(own) == len(possible(history.timelines[application], from_ns, to_ns))
        decided = not trees_changed and (not connected or all_select)
        if expected or not decided:
            yield answer(application, expected=expected, decided=decided)
