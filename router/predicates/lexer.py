"""Tokens of the readable notation for predicates and messages, with their positions.

The lexer is independent of the grammar, so that all textual front ends share it. Operators are read greedily
(`=*` is one operator); `//` starts a comment that extends to the end of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from router.predicates import INTEGER_MAX, INTEGER_MIN, STRING_MAX_BYTES, SYMBOLS, Operator, Value


class ParseError(ValueError):
    """Error: a text is not in the notation.

    Attributes:
        line, column: position of the offending text, both from 1; columns count characters.
    """

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {reason}")
        self.line = line
        self.column = column


class TokenKind(Enum):
    """The kinds of tokens; the values describe them in error messages."""

    WORD = "a word"
    STRING = "a string"
    INTEGER = "an integer"
    DOUBLE = "a double"
    OPERATOR = "an operator"
    STAR = "'*'"
    AND = "'and'"
    OR = "'or'"
    COMMA = "','"
    SEMICOLON = "';'"
    OPEN = "'['"
    CLOSE = "']'"
    END = "the end"


class Token(NamedTuple):
    """One token: its text, position and value.

    `value` is the value of a STRING, INTEGER or DOUBLE, and None for every other kind.
    """

    kind: TokenKind
    text: str
    line: int
    column: int
    value: Value | None = None

    def describe(self) -> str:
        """Returns the description of the token for an error message."""
        if self.kind is TokenKind.END:
            return "the end"
        shown = self.text if len(self.text) <= 40 else self.text[:37] + "..."
        return shown if self.kind is TokenKind.STRING else f"'{shown}'"


#: Words that cannot be attribute names unless they are quoted.
KEYWORDS = frozenset({"and", "or", "any", "true", "false", "none"})
#: Attribute names that need no quotes (unless they are keywords).
NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
COMPARISONS = {symbol: operator for operator, symbol in SYMBOLS.items() if operator is not Operator.ANY}
SYMBOL_KINDS = {
    **dict.fromkeys(COMPARISONS, TokenKind.OPERATOR),
    **dict.fromkeys(("&&", "&", "/\\", "∧"), TokenKind.AND),
    **dict.fromkeys(("||", "|", "\\/", "∨"), TokenKind.OR),
    "*": TokenKind.STAR,
    ",": TokenKind.COMMA,
    ";": TokenKind.SEMICOLON,
    "[": TokenKind.OPEN,
    "]": TokenKind.CLOSE,
}
_TOKEN = re.compile(
    # Possessive: blanks and comments take no memory for each character.
    r"(?P<blank>(?:\s++|//[^\n]*+)++)"
    rf"|(?P<word>{NAME_PATTERN.pattern})"
    r"|(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    # Possessive: a long string is read in one step, and read once.
    r'|(?P<string>"(?:[^"\\\n]++|\\[^\n])*+")'
    "|(?P<symbol>" + "|".join(re.escape(s) for s in sorted(SYMBOL_KINDS, key=len, reverse=True)) + ")"
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-7]{1,3})|(.))", re.DOTALL
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = {
    **dict(zip("ntrabfv", "\n\t\r\a\b\f\v", strict=True)),
    **{character: character for character in "\\\"'"},
}
#: Longest accepted text of a 64-bit integer, with leading zeros; longer ones are not converted.
_INTEGER_DIGITS = 40


def tokens_of(text: str) -> Iterator[Token]:
    """Yields the tokens of `text`; the last one has the kind END.

    Raises:
        ParseError: the part of `text` that is due is not a token.
    """
    offset, line, line_start = 0, 1, 0
    while offset < len(text):
        column = offset - line_start + 1
        found = _TOKEN.match(text, offset)
        if found is None:
            raise ParseError(_complaint(text, offset), line, column)
        if found.lastgroup == "blank":
            if newlines := found.group().count("\n"):
                line += newlines
                line_start = text.rindex("\n", offset, found.end()) + 1
        else:
            yield _token(found, line, column)
        offset = found.end()
    yield Token(TokenKind.END, "", line, offset - line_start + 1)


def _token(found: re.Match[str], line: int, column: int) -> Token:
    text = found.group()
    match found.lastgroup:
        case "word":
            kind = {"and": TokenKind.AND, "or": TokenKind.OR}.get(text, TokenKind.WORD)
            return Token(kind, text, line, column)
        case "number":
            return _number(found, line, column)
        case "string":
            return Token(TokenKind.STRING, text, line, column, _unescape(text[1:-1], line, column + 1))
        case _:
            return Token(SYMBOL_KINDS[text], text, line, column)


def _number(found: re.Match[str], line: int, column: int) -> Token:
    text = found.group()
    rest = found.string[found.end() : found.end() + 1]
    if rest.isalnum() or rest in ("_", "."):
        raise ParseError(
            f"expected a blank or an operator after the number {text}, found '{rest}'", line, column
        )
    if any(mark in text for mark in ".eE"):
        double = float(text)
        if double in (float("inf"), float("-inf")):
            raise ParseError(f"double {text} is not finite", line, column)
        return Token(TokenKind.DOUBLE, text, line, column, double)
    if len(text) > _INTEGER_DIGITS or not INTEGER_MIN <= int(text) <= INTEGER_MAX:
        raise ParseError(f"integer {text[:_INTEGER_DIGITS]} does not fit in 64 bits, signed", line, column)
    return Token(TokenKind.INTEGER, text, line, column, int(text))


def _unescape(body: str, line: int, column: int) -> str:
    def replace(found: re.Match[str]) -> str:
        *codes, octal, plain = found.groups()
        where = column + found.start()
        if plain is not None:
            if plain not in _ESCAPED:
                raise ParseError(f"unknown escape '\\{plain}' in a string", line, where)
            return _ESCAPED[plain]
        code = int(octal, 8) if octal else int(next(code for code in codes if code), 16)
        if code > (0xFF if octal else 0x10FFFF) or 0xD800 <= code < 0xE000:
            raise ParseError(f"escape '{found.group()}' is not a character", line, where)
        return chr(code)

    if not body.isascii() and (lone := _SURROGATE.search(body)):
        raise ParseError("a lone surrogate is not a character", line, column + lone.start())
    if "\\" not in body:
        return body
    if len(body) > STRING_MAX_BYTES:
        # To count escapes takes a small part of the time in which they are replaced.
        rest, escapes = _ESCAPE.subn("", body)
        if len(rest) + escapes > STRING_MAX_BYTES:
            raise ParseError(f"string of more than {STRING_MAX_BYTES} bytes", line, column - 1)
    return _ESCAPE.sub(replace, body)


def _complaint(text: str, offset: int) -> str:
    character = text[offset]
    if character == '"':
        return "string without a closing quote on its line"
    if character in "()":
        return f"unexpected '{character}': a predicate is filters joined by 'or', without parentheses"
    if character == "'":
        return "unexpected ''': strings are written in double quotes"
    return f"unexpected {character!r}"
