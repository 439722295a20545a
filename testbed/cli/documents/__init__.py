"""Generated pages, and the hooks of MkDocs: links that leave docs/ become the paths that they name.

A page on GitHub links to files of the repository, which a site of docs/ does not hold; it has the schemas.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from shutil import copytree
from typing import Any

SCHEMAS = Path(__file__).resolve().parents[2] / "experiments/shipped/schemas"

_LINK = re.compile(r"\[([^\]\[]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_post_build(config: Any) -> None:
    """Publishes the JSON Schemas in the folder `schemas` of the site."""
    copytree(SCHEMAS, Path(config.site_dir) / "schemas", dirs_exist_ok=True)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Returns the text of a page without links to files outside docs/."""
    return without_outer_links(markdown, page.file.src_uri)


def without_outer_links(markdown: str, page: str) -> str:
    """Returns Markdown in which links that leave the folder of the pages are the paths in code.

    Args:
        page: path of the page in that folder.
    """

    def replaced(link: re.Match[str]) -> str:
        text, target = link[1], link[2]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if "://" in target or not path.startswith("../"):
            return link[0]
        inside = path.removeprefix("../")
        return f"`{inside}`" if text.strip("`") in (inside, f"{inside}/", target) else f"{text} (`{inside}`)"

    return _LINK.sub(replaced, markdown)
