"""Pages in headless Chromium, if it is installed."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.support.polling import poll

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0"),
    "--remote-allow-origins=*",
]
_installed = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here (apt-get install chromium on Debian)"
)


def needs_chromium(test: Callable[..., None]) -> Callable[..., None]:
    """Marks a test that Chromium shows a page to; it is skipped without Chromium."""
    marked: Callable[..., None] = pytest.mark.browser(_installed(test))
    return marked


@contextmanager
def driven(url: str, profile: Path, *flags: str) -> Iterator[Callable[[str], Any]]:
    """Yields a function that evaluates an expression in a page, by Chromium's DevTools protocol.

    Skips the test if Chromium does not run.

    Args:
        profile: a new folder for Chromium's files.
    """
    assert CHROMIUM is not None
    place, loop = profile / "DevToolsActivePort", asyncio.new_event_loop()

    def opened() -> str | None:
        """The address of the page's socket."""
        if process.poll() is not None:
            pytest.skip("this Chromium does not run")
        if not place.exists():
            return None
        with urlopen(f"http://127.0.0.1:{place.read_text().split()[0]}/json") as pages:
            return next(
                (each["webSocketDebuggerUrl"] for each in json.load(pages) if each["url"] == url), None
            )

    async def connected() -> WebSocketClientConnection:
        return await websocket_connect(poll(opened, 60, "the page is open"))

    async def asked(expression: str) -> Any:
        given = {"expression": expression, "returnByValue": True}
        await page.write_message(json.dumps({"id": 1, "method": "Runtime.evaluate", "params": given}))
        # A page that loads itself again answers what it is asked meanwhile with an error.
        answer = json.loads(await page.read_message() or "{}").get("result", {"result": {}})
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def evaluate(expression: str) -> Any:
        return loop.run_until_complete(asked(expression))

    command = [CHROMIUM, *FLAGS, *flags, f"--user-data-dir={profile}", url]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            page = loop.run_until_complete(connected())
            loaded = f"location.href === {url!r} && document.readyState === 'complete'"
            poll(lambda: evaluate(loaded) or None, 60, "the page is loaded")
            yield evaluate
        finally:
            process.terminate()


#: An expression: every text of a page with its colour, and the colour of the nearest ground below it.
_COLOURS = Path(__file__).with_name("browser_colours.js").read_text()


def contrasts(url: str, profile: Path, dark: bool, before: str = "1") -> dict[str, float]:
    """The contrast of every text of a page with its ground, as WCAG 2.2 has it: 1 to 21, at least 4.5 for AA.

    Texts in figures are left out.

    Args:
        dark: as one sees it who prefers dark pages.
        before: evaluated before.
    """
    with driven(url, profile, *(["--force-dark-mode"] if dark else [])) as evaluate:
        evaluate(before)
        return {text: contrast(colour, ground) for text, colour, ground in evaluate(_COLOURS)}


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
