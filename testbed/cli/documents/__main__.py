"""`python -m testbed.cli.documents`: rewrites every generated document that differs from its source."""

from __future__ import annotations

from testbed.cli.documents.generated import DOCUMENTS
from testbed.terminal.printable import put


def main() -> None:
    for document in DOCUMENTS:
        text = document.current()
        if not document.path.exists() or document.path.read_text(encoding="utf-8") != text:
            document.path.write_text(text, encoding="utf-8")
            put(f"written: {document.name}")


if __name__ == "__main__":
    main()
