"""The table of attacks in docs/explanation/security.md: what each mode promises."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.paths import DOCS

_HEAD = "| attack | by | `off` | `mac` | `signed` |"


def promises() -> dict[tuple[str, str], dict[str, str]]:
    """Name of an attack and who makes it -> mode -> cell."""
    page = (DOCS / "explanation/security.md").read_text()
    lines = page.split(f"{_HEAD}\n|---|---|---|---|---|\n")[1].split("\n\n")[0]
    found = {}
    for line in lines.splitlines():
        attack, by, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        name = attack.split(":")[0], by
        assert name not in found, f"two rows {name}"
        found[name] = dict(zip(("off", "mac", "signed"), cells, strict=True))
    return found


def hold(name: str, by: str, mode: str, effect: bool | str, reasons: Iterable[str] = ()) -> None:
    """Fails unless the page says what a test has seen of an attack.

    Args:
        effect: whether it changed anything, or a word for what it did.
        reasons: as what its frames were counted.
    """
    word = effect if isinstance(effect, str) else "taken" if effect else "nothing"
    seen = word if effect is True else "; ".join([word, *(f"`{reason}`" for reason in reasons)])
    assert promises()[name, by][mode] == seen, (name, by, mode)
