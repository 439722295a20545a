"""Every generated document and the function that writes its text: `python -m testbed.cli.documents`.

A document is generated as a whole, or between two markers of a page that is otherwise written by hand:

    <!-- generated: NAME -->
    ...
    <!-- end of NAME -->

The command rewrites every document that differs; `tests/unit/test_documents.py` compares each with what its
function returns.
"""

from __future__ import annotations

from collections.abc import Callable
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
        return before + begin + self.text() + end + rest.partition(end)[2]


DOCUMENTS: tuple[Document, ...] = (
    Document(_DOCS / "reference/experiment-file.md", experiment_file.document),
    *(
        Document(SCHEMAS / f"{name}.json", partial(schemas.text, make))
        for name, make in schemas.SCHEMAS.items()
    ),
    *(
        Document(
            _DOCS / "reference/topology-file.md", partial("\n{}\n".format, experiment_file.table(keys)), name
        )
        for name, keys in (("node", NODE_OPTIONS), ("link", LINK_OPTIONS))
    ),
    Document(_DOCS / "reference/run-folder.md", captures.rundir.document.document),
    Document(_DOCS / "reference/summary.md", captures.rundir.summary.document),
    Document(_DOCS / "reference/tables.md", captures.tables.document.document),
    Document(_DOCS / "reference/claims.md", lambda: claims.claims(_FIGURES)),
    Document(
        _DOCS / "reference/coverage.md", lambda: claims.coverage(_DOCS / "reference/coverage.toml", _FIGURES)
    ),
    Document(
        _DOCS / "reference/pcap-source.md",
        lambda: f"\n{captures.datasource.options.options_table()}\n",
        "options of the formats",
    ),
    Document(
        _DOCS / "reference/pcap-source.md",
        lambda: f"\n{captures.datasource.views.columns_tables()}\n",
        "columns of the formats",
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
