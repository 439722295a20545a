"""Loading of the machine code of the fast engine, before a process forks or measures."""

from __future__ import annotations

from router.matching.bloom.engine import TreeMatcher


def warm() -> None:
    """Loads the machine code, or compiles it, and tests it on a small table.

    Raises:
        RuntimeError: an answer is wrong.
    """
    matcher = TreeMatcher(64)
    answers = []
    for interface, filter_ in ((1, 0b11), (2, 0b100), (1, 0b100)):
        matcher.change(interface, (), [filter_.to_bytes(8, "little")])
        answers.append(matcher.match(0b101.to_bytes(8, "little")))
    if answers != [set(), {2}, {1, 2}]:
        raise RuntimeError(f"matching of sets of bits gave {answers}")


if __name__ == "__main__":
    warm()
