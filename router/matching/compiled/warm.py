"""Loading of all machine code of the engine, before a process forks or measures."""

from __future__ import annotations

from router.matching.compiled.engine import CompiledMatcher
from router.predicates.model import Constraint, Filter, Message, Operator, Predicate, Type


def warm() -> None:
    """Loads the machine code, or compiles it (within a minute), and tests it on a small table.

    Raises:
        RuntimeError: an answer is wrong.
    """
    matcher = CompiledMatcher()
    wants = Predicate((Filter((Constraint("a", Type.STRING, Operator.SUBSTRING, "b"),)),))
    rest = Predicate((Filter((Constraint("c", Type.DOUBLE, Operator.LT, 1.0),)),))
    answers = []
    message = Message({"a": "abc", "c": 0.5, "d": True})
    for interface, predicate in ((1, wants), (2, rest), (1, rest)):
        matcher.set_predicate(interface, predicate)
        answers.append(matcher.match(message))
    matcher.finish_merges()
    if answers != [{1}, {1, 2}, {1, 2}]:
        raise RuntimeError(f"compiled matching gave {answers}")


if __name__ == "__main__":
    warm()
