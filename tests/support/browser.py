"""A page as shown by headless Chromium, if it is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
_installed = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here (apt-get install chromium on Debian)"
)


def needs_chromium(test: Callable[..., None]) -> Callable[..., None]:
    """Marks a test that Chromium shows a page to; it is skipped without Chromium."""
    marked: Callable[..., None] = pytest.mark.browser(_installed(test))
    return marked


def shown(url: str, profile: Path, *flags: str) -> str:
    """Returns the document after its scripts have run; skips the test if Chromium does not run.

    Args:
        profile: a new folder for Chromium's files.
    """
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, *FLAGS, *flags, f"--user-data-dir={profile}", "--dump-dom", url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if not done.stdout:
        pytest.skip(f"this Chromium does not run: {done.stderr.strip()[-300:]}")
    return done.stdout


#: Every text of a page with its colour, and the colour of the nearest ground below it.
_COLOURS = """
const found = [...document.body.querySelectorAll("*")].filter((element) =>
  element instanceof HTMLElement && element.tagName !== "SCRIPT" && element.getClientRects().length
  && [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())
).map((element) => {
  const ground = (below) => {
    const colour = below ? getComputedStyle(below).backgroundColor : "rgb(255, 255, 255)";
    return colour === "rgba(0, 0, 0, 0)" ? ground(below.parentElement) : colour;
  };
  return [element.textContent.trim().slice(0, 40), getComputedStyle(element).color, ground(element)];
});
document.body.textContent = JSON.stringify(found);
"""


def contrasts(page: str, folder: Path, dark: bool) -> dict[str, float]:
    """The contrast of every text of a page with its ground, as WCAG 2.2 has it: 1 to 21, at least 4.5 for AA.

    Args:
        page: HTML; texts in figures are left out.
        folder: a new folder.
        dark: as one sees it who prefers dark pages.
    """
    folder.mkdir()
    file = folder / "page.html"
    file.write_text(page.replace("</body>", f"<script>{_COLOURS}</script></body>"))
    flags = ["--force-dark-mode"] if dark else []
    document = shown(file.as_uri(), folder / "profile", *flags)
    body = re.search(r"<body[^>]*>(.*)</body>", document, re.DOTALL)
    assert body is not None
    return {
        text: contrast(colour, ground)
        for text, colour, ground in json.loads(body[1].replace("&lt;", "<").replace("&amp;", "&"))
    }


def contrast(one: str, other: str) -> float:
    """Of two colours such as `rgb(0, 114, 178)`."""
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)]
    assert len(parts) == 3, colour
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
