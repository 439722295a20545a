"""A page as headless Chromium shows it, on a machine that has one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here (apt-get install chromium on Debian)"
)


def shown(url: str, profile: Path, *flags: str) -> str:
    """The document after its scripts have run; skips the test where Chromium does not run.

    Args:
        profile: a new folder for what it keeps.
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
