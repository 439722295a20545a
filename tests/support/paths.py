"""Where the tests' subjects are."""

from __future__ import annotations

from pathlib import Path

#: The checkout.
ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: The Wireshark dissector.
DISSECTOR_FOLDER = ROOT / "router" / "wire" / "wireshark"
