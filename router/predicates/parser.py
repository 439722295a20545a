"""Parser of the readable notation for predicates and messages.

Predicates::

    predicate  = "none" | filter { or filter }          or:  "or"  "||" "|" "\\/" "∨"
    filter     = "*" | constraint { and constraint }    and: "and" "&&" "&" "/\\" "∧" ","
    constraint = name operator value                    operator: = != < > <= >= =* *= **
               | name "any" type                        type: string, integer, int, double, boolean, bool
    value      = string | integer | double | "true" | "false"
    name       = identifier | string                    identifier: [A-Za-z_][A-Za-z0-9_.-]*

`and` binds tighter than `or`. `*` is the filter without constraints, which matches every message; `none` is
the predicate without filters, which matches no message. A double has a point or an exponent. Strings
stand in double quotes, with the escapes of C (`\\xHH`, `\\uHHHH`, `\\UHHHHHHHH` and `\\ooo` give the
character of that code point). The words and, or, any, true, false and none are names only in quotes.

Messages::

    message    = [ "[" ] { name "=" value [ "," | ";" ] } [ "]" ]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from router.predicates import NOTHING, Constraint, Filter, Message, Operator, Predicate, Type, Value, type_of
from router.predicates.lexer import COMPARISONS, KEYWORDS, ParseError, Token, TokenKind, tokens_of

__all__ = ["LazyTokens", "Most", "ParseError", "Parser", "parse_message", "parse_predicate"]

#: A tuple: the hash of an enumeration is computed in Python.
_VALUE_KINDS = (TokenKind.STRING, TokenKind.INTEGER, TokenKind.DOUBLE)
TYPE_NAMES = {
    "string": Type.STRING,
    "integer": Type.INTEGER,
    "int": Type.INTEGER,
    "double": Type.DOUBLE,
    "boolean": Type.BOOLEAN,
    "bool": Type.BOOLEAN,
}


class Most(NamedTuple):
    """The most that the text of a predicate may have; the text behind the first excess is not read.

    Each filter has a weight of at least 1, and so has each constraint
    (`router.predicates.covering.widening`).

    Attributes:
        filters: filters.
        filter_weight: weight of one filter.
        weight: weight of all filters.
    """

    filters: int
    filter_weight: int
    weight: int


def parse_predicate(text: str, most: Most | None = None) -> Predicate:
    """The predicate that `text` writes.

    Args:
        text: in the readable notation.
        most: bounds; None: the predicate may have any size.

    Raises:
        ParseError: `text` is not a predicate, or exceeds a bound; the error says where and what was expected.
    """
    parser = Parser(LazyTokens(tokens_of(text)), most)
    predicate = parser.predicate()
    parser.expect(TokenKind.END, "expected 'and', 'or' or the end")
    return predicate


def parse_message(text: str, most: int | None = None) -> Message:
    """The message that `text` writes; blank text is the message without attributes.

    Args:
        text: in the readable notation.
        most: the most attributes that it may have; None: any number.

    Raises:
        ParseError: `text` is not a message, names an attribute twice, or has too many.
    """
    parser = Parser(LazyTokens(tokens_of(text)))
    bracketed = parser.accept(TokenKind.OPEN)
    message = parser.message(most)
    if bracketed:
        parser.expect(TokenKind.CLOSE, "expected an attribute or ']'")
    parser.expect(TokenKind.END, "expected an attribute or the end")
    return message


class LazyTokens:
    """Tokens by index, made on first use: a fault behind those that are used is no error."""

    def __init__(self, tokens: Iterator[Token]) -> None:
        self._tokens = tokens
        self._made: list[Token] = []

    def __getitem__(self, index: int) -> Token:
        while index >= len(self._made):
            self._made.append(next(self._tokens))
        return self._made[index]


class Parser:
    """Recursive descent over tokens that end with END.

    Each method named after a rule reads that rule from the current token on and leaves the token after
    it as the current one, so a larger grammar can embed predicates and messages.
    """

    #: Words that are attribute names only in quotes.
    keywords = KEYWORDS

    def __init__(self, tokens: LazyTokens, most: Most | None = None) -> None:
        self._tokens = tokens
        #: How many tokens have been read.
        self.position = 0
        self._most = most

    @property
    def current(self) -> Token:
        return self._tokens[self.position]

    def take(self) -> Token:
        """Read one token (END stays)."""
        token = self.current
        if token.kind is not TokenKind.END:
            self.position += 1
        return token

    def accept(self, *kinds: TokenKind) -> bool:
        """Read one token if it is of one of these kinds; say whether it was."""
        if self.current.kind not in kinds:
            return False
        self.take()
        return True

    def expect(self, kind: TokenKind, expectation: str) -> Token:
        """Read one token of this kind.

        Raises:
            ParseError: it is of another kind; the message is `expectation` and what was found.
        """
        if self.current.kind is not kind:
            raise self.error(expectation)
        return self.take()

    def error(self, expectation: str) -> ParseError:
        """The error that says `expectation` and what stands there instead."""
        token = self.current
        return ParseError(f"{expectation}, found {token.describe()}", token.line, token.column)

    def predicate(self) -> Predicate:
        if self.current.kind is TokenKind.WORD and self.current.text == "none":
            self.take()
            return NOTHING
        filters = [self.filter()]
        weight = 1 + len(filters[0])
        while self.accept(TokenKind.OR):
            if self._most is not None and len(filters) == self._most.filters:
                raise self._excess(f"{len(filters)} filters", "predicate_filters")
            filters.append(self.filter())
            weight += 1 + len(filters[-1])
            if self._most is not None and weight > self._most.weight:
                raise self._excess(f"the weight {self._most.weight}", "predicate_weight")
        return Predicate(tuple(filters))

    def filter(self) -> Filter:
        if self.accept(TokenKind.STAR):
            return Filter()
        constraints = [self.constraint()]
        while self.accept(TokenKind.AND, TokenKind.COMMA):
            if self._most is not None and 1 + len(constraints) >= self._most.filter_weight:
                raise self._excess(f"the weight {self._most.filter_weight} in a filter", "filter_weight")
            constraints.append(self.constraint())
        return Filter(tuple(constraints))

    def _excess(self, bound: str, option: str) -> ParseError:
        token = self.current
        return ParseError(f"more than {bound} ([protocol] {option})", token.line, token.column)

    def constraint(self) -> Constraint:
        start = self.current
        name = self.name()
        token = self.current
        if token.kind is TokenKind.WORD and token.text == "any":
            self.take()
            return self._build(start, name, self._type(), Operator.ANY, None)
        self.expect(TokenKind.OPERATOR, f"expected an operator or 'any' after the name {start.text}")
        value = self.value(token)
        return self._build(start, name, type_of(value), COMPARISONS[token.text], value)

    def message(self, most: int | None = None) -> Message:
        """Read attributes up to something that cannot start one, at most as many as `most`.

        The list may be empty and may end with a separator.
        """
        attributes: dict[str, Value] = {}
        while self.current.kind in (TokenKind.WORD, TokenKind.STRING):
            if len(attributes) == most:
                raise ParseError(f"more than {most} attributes", self.current.line, self.current.column)
            self.attribute(attributes)
            self.accept(TokenKind.COMMA, TokenKind.SEMICOLON)
        return Message(attributes)

    def attribute(self, attributes: dict[str, Value]) -> None:
        """Read one attribute of a message into `attributes`."""
        start = self.current
        name = self.name()
        if name in attributes:
            raise ParseError(f"attribute {start.text} is given twice", start.line, start.column)
        equals = self.current
        if equals.text != "=":
            raise self.error(f"expected '=' after the name {start.text}")
        self.take()
        value = self.value(equals)
        try:
            Message({name: value})
        except ValueError as error:
            raise ParseError(str(error), start.line, start.column) from error
        attributes[name] = value

    def name(self) -> str:
        token = self.current
        if token.kind is TokenKind.STRING:
            self.take()
            assert isinstance(token.value, str)
            return token.value
        if token.text in self.keywords:
            raise self.error("expected an attribute name (names that are keywords need double quotes)")
        return self.expect(TokenKind.WORD, "expected an attribute name").text

    def value(self, operator: Token) -> Value:
        """Read the value after `operator`."""
        token = self.current
        if token.kind in _VALUE_KINDS:
            assert token.value is not None
            return self.take().value  # type: ignore[return-value]
        if token.kind is TokenKind.WORD:
            if token.text in ("true", "false"):
                return self.take().text == "true"
            if token.text not in self.keywords:
                raise self.error(
                    f"expected a value after '{operator.text}' (strings need quotes: \"{token.text}\")"
                )
        raise self.error(f"expected a value after '{operator.text}'")

    def _type(self) -> Type:
        kind = TYPE_NAMES.get(self.current.text) if self.current.kind is TokenKind.WORD else None
        if kind is None:
            raise self.error("expected a type (string, integer, double or boolean) after 'any'")
        self.take()
        return kind

    @staticmethod
    def _build(start: Token, name: str, kind: Type, operator: Operator, value: Value | None) -> Constraint:
        try:
            return Constraint(name, kind, operator, value)
        except ValueError as error:
            raise ParseError(str(error), start.line, start.column) from error
