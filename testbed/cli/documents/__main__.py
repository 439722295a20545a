"""Every generated document and the function that writes its text: `python -m testbed.cli.documents`.

A document is generated as a whole, or between two markers of a page that is otherwise written by hand:

    <!-- generated: NAME -->
    ...
    <!-- end of NAME -->

or, of a script in Lua, `-- generated: NAME` and `-- end of NAME`.

The command rewrites every document that differs; `tests/unit/test_documents.py` compares each with what its
function returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import captures.rundir.document
import captures.tables.document
from captures.datasource.options import OPTIONS
from captures.datasource.views import CBCB_VIEWS, FILES, PCAP_VIEWS
from captures.frames.columns import spark_type
from captures.rundir.document import bullet
from captures.rundir.summary import SUMMARY_KEYS
from router.wire import document as wire
from testbed.cli.documents import SCHEMAS, experiment_file
from testbed.evaluation.figures import claims
from testbed.terminal import put
from topos import PROPERTIES
from topos.loaders import LINK_OPTIONS, NODE_OPTIONS

_ROOT = Path(__file__).resolve().parents[3]
_DOCS, _FIGURES = _ROOT / "docs", _ROOT / "docs/figures"
_WIRESHARK = _ROOT / "router/wire/wireshark"


@dataclass(frozen=True, slots=True)
class Document:
    """A generated text.

    Attributes:
        path: the file that holds it.
        text: returns it, ending with a line break.
        block: the name of the markers between which it stands; None: it is the whole file.
    """

    path: Path
    text: Callable[[], str]
    block: str | None = None

    @property
    def name(self) -> str:
        return self.path.name if self.block is None else f"{self.path.name}, {self.block}"

    def current(self) -> str:
        """The file with the text as it is generated now.

        Raises:
            ValueError: the file does not hold the markers of the block, each once and in order.
        """
        if self.block is None:
            return self.text()
        page = self.path.read_text(encoding="utf-8")
        left, right = ("--", "") if self.path.suffix == ".lua" else ("<!--", " -->")
        begin, end = f"{left} generated: {self.block}{right}\n", f"{left} end of {self.block}{right}\n"
        if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
            raise ValueError(f"{self.path}: expected the lines {begin.strip()} and {end.strip()}, each once")
        before, _, rest = page.partition(begin)
        return f"{before}{begin}\n{self.text()}\n{end}" + rest.partition(end)[2]


def _summary() -> str:
    lines = ["# Keys of summary.json\n"]
    lines += [bullet(f"`{key}`, {unit}: {meaning}") for key, (unit, meaning) in SUMMARY_KEYS.items()]
    return "\n".join(lines) + "\n"


def _columns_of_the_formats() -> str:
    """A heading and the columns of each view."""
    views = {f"`pcap`, view `{view}`": columns for view, columns in PCAP_VIEWS.items() if view != FILES}
    views |= {f"`cbcb`, view `{view}`": columns for view, columns in CBCB_VIEWS.items() if view != FILES}
    views["Both formats, view `files`"] = PCAP_VIEWS[FILES]
    lines, described = [], dict[str, object]()
    for heading, columns in views.items():
        own = {name: column for name, column in columns.items() if described.get(name) != column}
        shared = ", ".join(f"`{name}`" for name in columns if name not in own)
        lines += [f"### {heading}", "", *([f"{shared} as above, and:", ""] if shared else [])]
        lines += [bullet(f"`{name}`, `{spark_type(kind)}`: {text}") for name, (kind, text) in own.items()]
        lines.append("")
        described |= columns
    return "\n".join(lines)


#: Page of docs/reference -> name of a block -> what makes it.
_BLOCKS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "experiment-file": {
        "top level": lambda: experiment_file.listed(experiment_file.keys_of("")),
        "topology": experiment_file.topology,
        "sections": experiment_file.sections,
        "events": experiment_file.events,
    },
    "topology-file": {
        "node": lambda: experiment_file.listed(NODE_OPTIONS),
        "link": lambda: experiment_file.listed(LINK_OPTIONS[: -len(PROPERTIES)]),
    },
    "run-folder": {"files": captures.rundir.document.document},
    "tables": {
        "clocks": captures.tables.document.clocks,
        "shared columns": captures.tables.document.shared,
        "examples": captures.tables.document.examples,
        "tables": captures.tables.document.tables,
    },
    "wire-format": wire.TABLES,
    "claims": {"claims": lambda: claims.claims(_FIGURES)},
    "coverage": {"coverage": lambda: claims.coverage(_DOCS / "reference/coverage.toml", _FIGURES)},
    "pcap-source": {
        "options of the formats": lambda: "".join(
            bullet(f"`{name}`: {meaning}") + "\n" for name, meaning in OPTIONS.items()
        ),
        "columns of the formats": _columns_of_the_formats,
    },
}
DOCUMENTS: tuple[Document, ...] = (
    Document(_DOCS / "reference/summary.md", _summary),
    *(
        Document(SCHEMAS / f"{name}.json", partial(experiment_file.schema_text, make))
        for name, make in experiment_file.SCHEMAS.items()
    ),
    Document(_WIRESHARK / "cbcb.lua", wire.dissector_constants, "constants"),
    Document(_WIRESHARK / "cbcb_statistics.lua", wire.statistics_constants, "constants"),
    *(
        Document(_DOCS / f"reference/{page}.md", text, block)
        for page, blocks in _BLOCKS.items()
        for block, text in blocks.items()
    ),
)


def main() -> None:
    for document in DOCUMENTS:
        text = document.current()
        if not document.path.exists() or document.path.read_text(encoding="utf-8") != text:
            document.path.write_text(text, encoding="utf-8")
            put(f"written: {document.name}")


if __name__ == "__main__":
    main()
