"""Docstrings and comments keep the rules of docs/reference/style.md that a program can check."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.paths import DOCS, ROOT

_FOLDERS = ("router", "topos", "captures", "testbed", "tests")
#: The words in bold in the table of words.
_WORDS = [
    word
    for line in (DOCS / "reference/style.md").read_text().splitlines()
    if line.startswith("|")
    for word in re.findall(r"\*\*(\w+)\*\*", line)
]
_BARRED = re.compile(rf"\b({'|'.join(_WORDS)})\b", re.IGNORECASE)
#: The end of a sentence and the first character of the next sentence.
_NEXT_SENTENCE = re.compile(r"[.?!]\)? (?=[A-Z`])")
#: Files without such a line need not be parsed for the rules of docstrings.
_SUSPECT = re.compile(r'"""\s*(What |.*[.?!]\)? [A-Z`])')
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Text:
    """A docstring or comment and its place.

    Attributes:
        public: the docstring is that of a module or of a public name.
    """

    place: str
    text: str
    docstring: bool = False
    public: bool = False


def _texts_of(source: str, name: str) -> Iterator[_Text]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _Documented) and (docstring := ast.get_docstring(node)) is not None:
            public = isinstance(node, ast.Module) or not node.name.startswith("_")
            yield _Text(f"{name}:{node.body[0].lineno}", docstring, True, public)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield _Text(f"{name}:{token.start[0]}", token.string)


@cache
def _texts(root: Path = ROOT) -> tuple[_Text, ...]:
    """The docstrings and comments of the files that may break a rule."""
    runs = root / "captures" / "runs"
    files = (path for folder in _FOLDERS for path in sorted((root / folder).rglob("*.py")))
    return tuple(
        text
        for path in files
        if not path.is_relative_to(runs)
        for source in [path.read_text()]
        if _BARRED.search(source) or _SUSPECT.search(source)
        for text in _texts_of(source, str(path.relative_to(root)))
    )


def _with_barred_words(texts: tuple[_Text, ...]) -> list[str]:
    return [f"{each.place}: {found[0]!r}" for each in texts for found in _BARRED.finditer(each.text)]


def _that_begin_with_what(texts: tuple[_Text, ...]) -> list[str]:
    return [each.place for each in texts if each.docstring and each.text.startswith("What ")]


def _with_long_first_lines(texts: tuple[_Text, ...]) -> list[str]:
    return [each.place for each in texts if each.public and _NEXT_SENTENCE.search(each.text.splitlines()[0])]


def test_no_text_has_a_word_that_the_style_bars() -> None:
    assert _texts()
    assert _with_barred_words(_texts()) == []


def test_no_docstring_begins_with_what() -> None:
    assert _that_begin_with_what(_texts()) == []


def test_the_first_line_of_a_docstring_is_one_sentence() -> None:
    assert _with_long_first_lines(_texts()) == []
