"""Reader of the statements of the Siena Fast Forwarding driver's language, from text in pieces.

docs/explanation/matching.md has the statements, `testbed.experiments.siena_ff` describes predicates. A
constraint that a single regular expression matches is not tokenized, which is five times as fast. The
expression accepts a subset of the grammar; all other text goes to the parser, which reads it or reports the
error.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from itertools import product
from typing import IO, NamedTuple

from router.predicates import Constraint, Filter, Message, Operator, Type, Value, type_of
from router.predicates.lexer import COMPARISONS, ParseError, TokenKind
from router.predicates.parser import TYPE_NAMES
from testbed.experiments.siena_ff import (
    BLANK,
    COMMENT,
    COMPARISON,
    FLAGS,
    NAME,
    STRING,
    DriverParser,
    literal,
    position,
)
from testbed.support.errors import InputError

#: Largest number of bytes of a read.
_CHUNK = 1 << 20
#: Number of constraints that are cached by their texts.
_REMEMBERED = 1 << 15
#: Attributes of any type that a filter may require: a filter with n of them stands for 4**n filters.
MOST_EXISTENCES = 4
INTERFACE_MAX = 2**31 - 1
_BYTE_ORDER_MARK = "\ufeff"

_VALUE = rf'{STRING}|[^\s,;|&"/\\=<>!*]++'
_PLACE = rf"{BLANK}((?!any(?![A-Za-z0-9_.\-])){NAME}|{STRING}){BLANK}"
_CONSTRAINT = re.compile(
    rf"{_PLACE}(?:({COMPARISON}){BLANK}({_VALUE})|any{BLANK}([a-z]++)){BLANK}"
    r"(,|&&?|/\\|∧|\|\|?|\\/|∨|;)",
    FLAGS,
)
_SAME_FILTER = frozenset({",", "&", "&&", "/\\", "∧"})
_ENDS = frozenset({TokenKind.OR, TokenKind.SEMICOLON})
_SEPARATORS = _ENDS | {TokenKind.COMMA, TokenKind.AND}
_HEAD = re.compile(rf"{BLANK}({NAME})", FLAGS)
_INTERFACE = re.compile(rf"{BLANK}([0-9][0-9A-Za-z]*+)(?![.])", FLAGS)
#: What may end a statement, hide its end, or look as if it did.
_MARK = re.compile(r'[;"]|/\\|\\/|//|/\*|^#', re.MULTILINE)
_HIDING = re.compile(rf"{STRING}|/\\|\\/|{COMMENT}|(?://|\#)[^\n]*\n", FLAGS)

KEYWORDS = ("ifconfig", "select", "consolidate", "clear", "output", "statistics", "timer", "set")
#: Statement -> the words that may follow it.
_WORDS = {"clear": ("recycle",), "output": ("on", "off", "count"), "timer": ("start", "stop")}


class Statement(NamedTuple):
    """One statement.

    Attributes:
        keyword: one of `KEYWORDS`.
        message: of `select`.
        arguments: the rest of the statement: a word (`clear`, `output`, `timer`), the format (`statistics`),
            name and value (`set`), or empty.
        interface, filters: of `ifconfig`.
    """

    keyword: str
    message: Message | None = None
    arguments: tuple[str, ...] = ()
    interface: int = 0
    filters: tuple[Filter, ...] = ()


def read_chunks(stream: IO[bytes], name: str) -> Iterator[str]:
    """Yields the text of a binary stream as it arrives, without a byte order mark at its beginning.

    Raises:
        InputError: the text is not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    read = getattr(stream, "read1", stream.read)
    done = 0
    begun = False
    while True:
        data = read(_CHUNK)
        held = len(decoder.getstate()[0])
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise InputError(f"{name}: byte {done - held + error.start}: not UTF-8") from error
        # Not left to the codec utf-8-sig, which would count the bytes of errors without the mark.
        yield text.removeprefix(_BYTE_ORDER_MARK) if not begun else text
        begun = begun or bool(text)
        if not data:
            return
        done += len(data)


class Reader:
    def __init__(self, chunks: Iterable[str], name: str) -> None:
        self._chunks = chunks
        self._name = name
        self._line = self._column = 1
        #: Texts of name, operator, value and type -> the constraint.
        self._constraints: dict[tuple[str | None, ...], Constraint] = {}

    def statements(self) -> Iterator[Statement]:
        """Each statement as soon as its semicolon has been read.

        Raises:
            InputError: a statement is not in the language; the message has file, line and column.
        """
        for text in self._split():
            try:
                yield self._statement(text)
            except ParseError as error:
                raise InputError(f"{self._name}: {error}{self._quote_hint(text, error)}") from error
            self._line, self._column = position(text, len(text), self._line, self._column)

    def _split(self) -> Iterator[str]:
        """Yields statements, each with the text before it and its semicolon."""
        buffer, start, scanned = "", 0, 0
        for chunk in self._chunks:
            buffer, scanned, start = buffer[start:] + chunk, scanned - start, 0
            while found := _MARK.search(buffer, scanned):
                if found.group() == ";":
                    scanned = found.end()
                    yield buffer[start:scanned]
                    start = scanned
                elif hiding := _HIDING.match(buffer, found.start()):
                    scanned = hiding.end()
                else:
                    scanned = found.start()
                    break
            else:
                # A slash or backslash at the end may be half of an operator or comment mark.
                scanned = max(scanned, len(buffer) - 1)
        if rest := buffer[start:]:
            self._check_rest(rest)

    def _quote_hint(self, text: str, error: ParseError) -> str:
        """A hint for an error after a string that spans lines, whose closing quote is probably missing."""
        for found in _HIDING.finditer(text):
            line, column = position(text, found.start(), self._line, self._column)
            if (line, column) > (error.line, error.column):
                break
            if found.group().startswith('"') and "\n" in found.group():
                return f" (the string at line {line}, column {column} spans lines: is a quote missing?)"
        return ""

    def _check_rest(self, text: str) -> None:
        try:
            parser = DriverParser(text, 0, self._line, self._column)
            while parser.current.kind is not TokenKind.END:
                parser.take()
            if parser.position:
                raise parser.error("expected ';' after the statement")
        except ParseError as error:
            raise InputError(f"{self._name}: {error}{self._quote_hint(text, error)}") from error

    def _statement(self, text: str) -> Statement:
        head = _HEAD.match(text)
        keyword = head.group(1) if head else ""
        if head and keyword == "ifconfig":
            return self._ifconfig(text, head.end())
        if head and keyword == "select":
            return Statement(keyword, message=self._message(text, head.end()))
        return self._other(keyword, self._parser(text, 0))

    def _parser(self, text: str, offset: int) -> DriverParser:
        return DriverParser(text, offset, self._line, self._column)

    def _other(self, keyword: str, parser: DriverParser) -> Statement:
        if keyword not in KEYWORDS:
            raise parser.error(f"expected {_either(KEYWORDS)}")
        parser.take()
        arguments: list[str] = []
        if keyword == "set":
            arguments.append(parser.name())
            if parser.current.text != "=":
                raise parser.error(f"expected '=' after {arguments[0]}")
            parser.take()
            arguments.append(parser.take().text)
        elif keyword == "statistics":
            if parser.current.kind is TokenKind.STRING:
                arguments.append(str(parser.take().value))
        elif words := _WORDS.get(keyword):
            if parser.current.text in words:
                arguments.append(parser.take().text)
            elif keyword != "clear":
                raise parser.error(f"expected {_either(words)} after {keyword}")
        parser.expect(TokenKind.SEMICOLON, f"expected ';' after {' '.join((keyword, *arguments))}")
        return Statement(keyword, arguments=tuple(arguments))

    def _ifconfig(self, text: str, offset: int) -> Statement:
        found = _INTERFACE.match(text, offset)
        try:
            interface = literal(found.group(1)) if found else None
        except ValueError:
            interface = None
        if found is None or not isinstance(interface, int) or not 0 <= interface <= INTERFACE_MAX:
            raise self._parser(text, offset).error(f"expected an interface, 0 to {INTERFACE_MAX}")
        filters = tuple(self._filters(text, found.end()))
        return Statement("ifconfig", interface=interface, filters=filters)

    def _filters(self, text: str, offset: int) -> Iterator[Filter]:
        """Reads a predicate and its semicolon."""
        match, known = _CONSTRAINT.match, self._constraints
        constraints: list[Constraint] = []
        #: Attributes of any type.
        existing: set[str] = set()
        first = True
        while True:
            constraint = None
            if found := match(text, offset):
                texts = found.group(1, 2, 3, 4)
                constraint = known.get(texts) or self._known(*texts)
            if found is None or constraint is None:
                # `any any`, too, which is rare, is read token by token.
                offset, separator = self._by_tokens(text, offset, first, constraints, existing)
            else:
                constraints.append(constraint)
                offset, separator = found.end(), found.group(5)
            first = separator not in _SAME_FILTER
            if first:
                yield from _of_types(constraints, existing) if existing else (Filter(tuple(constraints)),)
                if separator == ";":
                    return
                constraints.clear()
                existing.clear()

    def _known(self, name: str, symbol: str | None, value: str | None, kind: str | None) -> Constraint | None:
        """Returns the constraint of these texts and keeps it, or None if they are no constraint."""
        texts = name, symbol, value, kind
        try:
            if name.startswith('"'):
                name = str(literal(name))
            if symbol is not None and value is not None:
                bound = literal(value)
                constraint = Constraint(name, type_of(bound), COMPARISONS[symbol], bound)
            else:
                constraint = Constraint(name, TYPE_NAMES[kind or ""], Operator.ANY)
        except (ValueError, KeyError):
            return None
        if len(self._constraints) >= _REMEMBERED:
            self._constraints.clear()
        self._constraints[texts] = constraint
        return constraint

    def _by_tokens(
        self, text: str, offset: int, first: bool, constraints: list[Constraint], existing: set[str]
    ) -> tuple[int, str]:
        """Reads a constraint, or the filter `*`; returns where it ends and its separator."""
        parser = self._parser(text, offset)
        if first and parser.accept(TokenKind.STAR):
            kinds, expected = _ENDS, "expected '|' or ';' after '*'"
        else:
            start = parser.current
            name = parser.existence()
            try:
                if name is None:
                    constraints.append(parser.constraint())
                elif len(existing | {name}) > MOST_EXISTENCES:
                    raise ValueError(f"expected at most {MOST_EXISTENCES} times 'any any' in a filter")
                else:
                    existing.add(Constraint(name, Type.STRING, Operator.ANY).name)
            except ValueError as error:
                if isinstance(error, ParseError):
                    raise
                raise ParseError(str(error), start.line, start.column) from error
            kinds, expected = _SEPARATORS, "expected ',', '|' or ';' after the constraint"
        separator = parser.current
        if separator.kind not in kinds:
            raise parser.error(expected)
        parser.take()
        return parser.offset, separator.text

    def _message(self, text: str, offset: int) -> Message:
        attributes: dict[str, Value] = {}
        parser = self._parser(text, offset)
        while not parser.accept(TokenKind.SEMICOLON):
            parser.attribute(attributes)
            parser.accept(TokenKind.COMMA)
        try:
            return Message(attributes)
        except ValueError as error:
            at = position(text, parser.offset, self._line, self._column)
            raise ParseError(str(error), *at) from error


def _of_types(constraints: Iterable[Constraint], existing: set[str]) -> Iterator[Filter]:
    """Yields a filter for each combination of types of the existing attributes: constraints have a type."""
    # A constraint on an attribute holds only where the attribute exists.
    names = sorted(existing - {each.name for each in constraints})
    for kinds in product(Type, repeat=len(names)):
        exist = (Constraint(name, kind, Operator.ANY) for name, kind in zip(names, kinds, strict=True))
        yield Filter((*constraints, *exist))


def _either(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
