"""The generated tables of docs/pcap-source.md: the options, and the columns of each view."""

from __future__ import annotations

from captures.datasource.options import OPTIONS
from captures.datasource.views import CBCB_VIEWS, FILES, PCAP_VIEWS


def options_table() -> str:
    """The table of the options."""
    lines = ["| option | meaning |", "|---|---|"]
    return "\n".join(lines + [f"| `{name}` | {meaning} |" for name, meaning in OPTIONS.items()]) + "\n"


def columns_tables() -> str:
    """A heading and a table of columns for each view."""
    views = {f"`pcap`, view `{view}`": columns for view, columns in PCAP_VIEWS.items() if view != FILES}
    views |= {f"`cbcb`, view `{view}`": columns for view, columns in CBCB_VIEWS.items() if view != FILES}
    views["Both formats, view `files`"] = PCAP_VIEWS[FILES]
    parts = []
    for heading, columns in views.items():
        lines = [f"### {heading}", "", "| column | type | meaning |", "|---|---|---|"]
        lines += [f"| `{name}` | `{sql}` | {meaning} |" for name, (_, sql, meaning) in columns.items()]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
