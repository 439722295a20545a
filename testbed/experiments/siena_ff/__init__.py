"""The notation of the Siena Fast Forwarding (SFF) driver for predicates and messages: tokens and literals.

The grammar is that of `router.predicates.parser`, with the tokens of the driver's scanner
(docs/explanation/matching.md). The words and, or and none are ordinary names. A hexadecimal or octal integer
of 64 bits whose highest bit is set is negative, as in C. Strings may span lines, and an unknown escape is its
character.

A code beyond 127 is a code point; in SFF it is a byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from router.predicates import Value
from router.predicates.lexer import COMPARISONS, SYMBOL_KINDS, ParseError, Token, TokenKind
from router.predicates.parser import LazyTokens, Parser

#: Words that are not attribute names unless they are quoted.
RESERVED = frozenset({"any"})
# No possessive groups: Python 3.11 before 3.11.5 matches some of them wrongly. No group in this module can
# give back characters once it has matched.
COMMENT = r"/\*[^*]*\*+(?:[^/*][^*]*\*+)*/"
BLANK = rf"(?:\s|//[^\n]*$|{COMMENT}|^\#[^\n]*$)*"
_IN_NAME, _SLASH = r"[A-Za-z0-9_.\-]", r"/(?![/*\\])"
NAME = rf"[A-Za-z_]{_IN_NAME}*(?:{_SLASH}{_IN_NAME}*)*(?!{_IN_NAME}|{_SLASH})"
STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
COMPARISON = "|".join(re.escape(symbol) for symbol in sorted(COMPARISONS, key=len, reverse=True))
#: Flags of the patterns above.
FLAGS = re.DOTALL | re.MULTILINE

_NUMBER = r"[+-]?(?:0[xX][0-9A-Fa-f]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
_TOKEN = re.compile(
    rf"(?P<word>{NAME})|(?P<number>{_NUMBER})|(?P<string>{STRING})"
    "|(?P<symbol>" + "|".join(re.escape(s) for s in sorted(SYMBOL_KINDS, key=len, reverse=True)) + ")",
    FLAGS,
)
_BLANK = re.compile(BLANK, FLAGS)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_FULL_NUMBER = re.compile(_NUMBER)
_ESCAPE = re.compile(r"\\(?:0?[xX]([0-9A-Fa-f]+)|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPED = dict(zip("ntrabfve", "\n\t\r\a\b\f\v\x1b", strict=True))
_WRITTEN = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
#: Longest text of a number; int() and float() need not see more.
_DIGITS = 400


def literal(text: str) -> Value:
    """The value that a literal denotes: a string in quotes, a number, true or false.

    Raises:
        ValueError: `text` is no literal.
    """
    if text.startswith('"'):
        return _ESCAPE.sub(_unescape, text[1:-1]) if "\\" in text else text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    if not _FULL_NUMBER.fullmatch(text):
        raise ValueError(f"expected a value, found '{text[:40]}'")
    if len(text) > _DIGITS:
        raise ValueError(f"number of {len(text)} digits")
    digits = text.lstrip("+-")
    if digits[:2] in ("0x", "0X"):
        return _signed(text, int(digits, 16))
    if not digits.isdecimal():
        double = float(text)
        if double in (float("inf"), float("-inf")):
            raise ValueError(f"double {text} is not finite")
        return double
    if digits[0] == "0" and len(digits) > 1:
        if digits.strip("01234567"):
            raise ValueError(f"expected octal digits after the 0 of {text}")
        return _signed(text, int(digits, 8))
    return int(text)


def _signed(text: str, bits: int) -> int:
    """Returns a hexadecimal or octal number of 64 bits, read as two's complement."""
    if text[0] == "-":
        return -bits
    return bits - 2**64 if 2**63 <= bits < 2**64 else bits


def _unescape(found: re.Match[str]) -> str:
    hexadecimal, octal, plain = found.groups()
    if plain is not None:
        return _ESCAPED.get(plain, plain)
    return chr(int(octal, 8) % 256 if octal else int(hexadecimal[-2:], 16))


class DriverParser(Parser):
    """The shared grammar over text of this notation, from an offset on; it reads no further than it must.

    Args:
        text: complete statements.
        offset: where to start.
        line, column: the position of the text's first character, from 1.
    """

    keywords = RESERVED

    def __init__(self, text: str, offset: int, line: int, column: int) -> None:
        self._ends = [offset]
        super().__init__(LazyTokens(_tokens(text, offset, line, column, self._ends)))

    def existence(self) -> str | None:
        """Reads `NAME any any`, the existence of an attribute of any type; returns the name.

        Returns None, and reads nothing, if another constraint follows.
        """
        if self.current.kind not in (TokenKind.WORD, TokenKind.STRING):
            return None
        for ahead in (1, 2):
            token = self._tokens[self.position + ahead]
            if token.kind is not TokenKind.WORD or token.text != "any":
                return None
        name = self.name()
        self.take()
        self.take()
        return name

    @property
    def offset(self) -> int:
        """The end of the last token that was read."""
        return self._ends[self.position]


def _tokens(text: str, offset: int, line: int, column: int, ends: list[int]) -> Iterator[Token]:
    """Tokens from `offset` on, the last of kind END; appends the end of each to `ends`."""
    at, start = (line, column), 0
    while True:
        blank = _BLANK.match(text, offset)
        offset = blank.end() if blank else offset
        at, start = position(text, offset, *at, start), offset
        if offset == len(text):
            ends.append(offset)
            yield Token(TokenKind.END, "", *at)
            return
        found = _TOKEN.match(text, offset)
        if found is None:
            raise ParseError(_complaint(text, offset), *at)
        offset = found.end()
        ends.append(offset)
        yield _token(found, *at)


def position(text: str, offset: int, line: int, column: int, start: int = 0) -> tuple[int, int]:
    """Line and column of `offset`, where `start` is at `line` and `column`."""
    lines = text.count("\n", start, offset)
    return line + lines, offset - text.rfind("\n", start, offset) if lines else column + offset - start


def _token(found: re.Match[str], line: int, column: int) -> Token:
    text = found.group()
    match found.lastgroup:
        case "word":
            return Token(TokenKind.WORD, text, line, column)
        case "symbol":
            return Token(SYMBOL_KINDS[text], text, line, column)
    rest = found.string[found.end() : found.end() + 1]
    if found.lastgroup == "number" and (rest.isalnum() or rest in ("_", ".")):
        raise ParseError(
            f"expected a blank or an operator after the number {text[:40]}, found '{rest}'", line, column
        )
    try:
        value = literal(text)
    except ValueError as error:
        raise ParseError(str(error), line, column) from error
    kinds = {str: TokenKind.STRING, int: TokenKind.INTEGER, float: TokenKind.DOUBLE}
    return Token(kinds[type(value)], text, line, column, value)


def _complaint(text: str, offset: int) -> str:
    if text[offset] == '"':
        return "string without a closing quote"
    if text.startswith("/*", offset):
        return "comment without its end '*/'"
    if text.startswith("~=", offset):
        return "regular expressions (~=) are not part of the model"
    if text[offset] in "{}":
        return "tag sets ({...}) are not part of the model"
    return f"unexpected {text[offset]!r}"


def driver_name(name: str) -> str:
    """The attribute name, in quotes if it is not an identifier or is reserved."""
    return name if _PLAIN_NAME.fullmatch(name) and name not in RESERVED else _quote(name)


def driver_value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # The driver recognises a double by its point.
        mantissa, exponent, power = repr(value).partition("e")
        return mantissa + (".0" if "." not in mantissa else "") + exponent + power
    return _quote(value) if isinstance(value, str) else str(value)


def _quote(text: str) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(character: str) -> str:
    if character in _WRITTEN:
        return _WRITTEN[character]
    # Octal, because a hexadecimal escape has any number of digits.
    return f"\\{ord(character):03o}" if ord(character) < 0x80 and not character.isprintable() else character
