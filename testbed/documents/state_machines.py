"""Diagrams of state machines, drawn from their tables of transitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any


def state_diagram(transitions: Mapping[tuple[Any, Any], tuple[Callable[..., Any], Any]]) -> str:
    """A Mermaid state diagram of a table, with an arrow for each row.

    Args:
        transitions: (state, input) -> (the method that acts, the next state); states and inputs are members
            of enumerations. The first state of the enumeration is the initial one.

    Returns:
        A fenced Markdown block. An arrow is labelled `INPUT / action`.
    """
    (first, _), *_rest = transitions
    states: type[Enum] = type(first)
    lines = [f"[*] --> {next(iter(states)).name}"]
    for (state, given), (act, next_state) in transitions.items():
        action = act.__name__.strip("_").replace("_", " ")
        lines.append(f"{state.name} --> {next_state.name}: {given.name} / {action}")
    return "\n".join(("```mermaid", "stateDiagram-v2", *(f"    {line}" for line in lines), "```", ""))
