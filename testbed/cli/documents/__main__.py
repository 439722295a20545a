"""Every generated document and the function that writes its text: `python -m testbed.cli.documents`.

A document is generated as a whole, or between two markers of a page that is otherwise written by hand:

    <!-- generated: NAME -->
    ...
    <!-- end of NAME -->

The command rewrites every document that differs; `tests/unit/test_documents.py` compares each with what its
function returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import captures.datasource.options
import captures.datasource.views
import captures.rundir.document
import captures.rundir.summary
import captures.tables.document
from testbed.cli.documents import SCHEMAS, experiment_file, schemas
from testbed.evaluation.figures import claims
from testbed.terminal import put
from topos.loaders import LINK_OPTIONS, NODE_OPTIONS

_ROOT = Path(__file__).resolve().parents[3]
_DOCS, _FIGURES = _ROOT / "docs", _ROOT / "docs/figures"


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
        begin, end = f"<!-- generated: {self.block} -->\n", f"<!-- end of {self.block} -->\n"
        if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
            raise ValueError(f"{self.path}: expected the lines {begin.strip()} and {end.strip()}, each once")
        before, _, rest = page.partition(begin)
        return f"{before}{begin}\n{self.text()}\n{end}" + rest.partition(end)[2]


#: Page of docs/reference -> name of a block -> what makes it.
_BLOCKS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "experiment-file": {
        "top level": lambda: experiment_file.table(experiment_file.keys_of("")),
        "topology": experiment_file.topology,
        "sections": experiment_file.sections,
        "events": experiment_file.events,
    },
    "topology-file": {
        "node": lambda: experiment_file.table(NODE_OPTIONS),
        "link": lambda: experiment_file.table(LINK_OPTIONS),
    },
    "run-folder": {"files": captures.rundir.document.document},
    "tables": {
        "clocks": captures.tables.document.clocks,
        "shared columns": captures.tables.document.shared,
        "examples": captures.tables.document.examples,
        "tables": captures.tables.document.tables,
    },
    "claims": {"claims": lambda: claims.claims(_FIGURES)},
    "coverage": {"coverage": lambda: claims.coverage(_DOCS / "reference/coverage.toml", _FIGURES)},
    "pcap-source": {
        "options of the formats": captures.datasource.options.options_table,
        "columns of the formats": captures.datasource.views.columns_tables,
    },
}
DOCUMENTS: tuple[Document, ...] = (
    Document(_DOCS / "reference/summary.md", captures.rundir.summary.document),
    *(
        Document(SCHEMAS / f"{name}.json", partial(schemas.text, make))
        for name, make in schemas.SCHEMAS.items()
    ),
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
