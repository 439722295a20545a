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

from itertools import islice
from typing import Protocol

from router.predicates.lexer import (
    COMPARISONS,
    KEYWORDS,
    ParseError,
    Token,
    TokenKind,
    tokenize,
    tokens_of,
)
from router.predicates.model import (
    NOTHING,
    Constraint,
    Filter,
    Message,
    Operator,
    Predicate,
    Type,
    Value,
    type_of,
)

__all__ = ["ParseError", "Parser", "parse_message", "parse_predicate"]

_VALUE_KINDS = frozenset({TokenKind.STRING, TokenKind.INTEGER, TokenKind.DOUBLE})
TYPE_NAMES = {
    "string": Type.STRING,
    "integer": Type.INTEGER,
    "int": Type.INTEGER,
    "double": Type.DOUBLE,
    "boolean": Type.BOOLEAN,
    "bool": Type.BOOLEAN,
}


def parse_predicate(text: str) -> Predicate:
    """The predicate that `text` writes.

    Raises:
        ParseError: `text` is not a predicate; the error says where and what was expected.
    """
    parser = Parser(tokenize(text))
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
    # Of an attribute: name, '=', value, separator; of the message: brackets, the end.
    tokens = list(islice(tokens_of(text), None if most is None else 4 * most + 3))
    if tokens[-1].kind is not TokenKind.END:
        raise ParseError(f"more than {most} attributes", tokens[-1].line, tokens[-1].column)
    parser = Parser(tokens)
    bracketed = parser.accept(TokenKind.OPEN)
    message = parser.message()
    if bracketed:
        parser.expect(TokenKind.CLOSE, "expected an attribute or ']'")
    parser.expect(TokenKind.END, "expected an attribute or the end")
    return message


class TokenSequence(Protocol):
    """Tokens by index."""

    def __getitem__(self, index: int, /) -> Token: ...


class Parser:
    """Recursive descent over a list of tokens that ends with END.

    Each method named after a rule reads that rule from the current token on and leaves the token after
    it as the current one, so a larger grammar can embed predicates and messages.
    """

    #: Words that are attribute names only in quotes.
    keywords = KEYWORDS

    def __init__(self, tokens: TokenSequence) -> None:
        self._tokens = tokens
        self._position = 0

    @property
    def position(self) -> int:
        """How many tokens have been read."""
        return self._position

    @property
    def current(self) -> Token:
        """The token that comes next."""
        return self._tokens[self._position]

    def take(self) -> Token:
        """Read one token (END stays)."""
        token = self.current
        if token.kind is not TokenKind.END:
            self._position += 1
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
        """Read a predicate."""
        if self.current.kind is TokenKind.WORD and self.current.text == "none":
            self.take()
            return NOTHING
        filters = [self.filter()]
        while self.accept(TokenKind.OR):
            filters.append(self.filter())
        return Predicate(tuple(filters))

    def filter(self) -> Filter:
        """Read a filter."""
        if self.accept(TokenKind.STAR):
            return Filter()
        constraints = [self.constraint()]
        while self.accept(TokenKind.AND, TokenKind.COMMA):
            constraints.append(self.constraint())
        return Filter(tuple(constraints))

    def constraint(self) -> Constraint:
        """Read a constraint."""
        start = self.current
        name = self.name()
        token = self.current
        if token.kind is TokenKind.WORD and token.text == "any":
            self.take()
            return self._build(start, name, self._type(), Operator.ANY, None)
        self.expect(TokenKind.OPERATOR, f"expected an operator or 'any' after the name {start.text}")
        value = self.value(token)
        return self._build(start, name, type_of(value), COMPARISONS[token.text], value)

    def message(self) -> Message:
        """Read attributes up to something that cannot start one.

        The list may be empty and may end with a separator.
        """
        attributes: dict[str, Value] = {}
        while self.current.kind in (TokenKind.WORD, TokenKind.STRING):
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
        """Read an attribute name."""
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
