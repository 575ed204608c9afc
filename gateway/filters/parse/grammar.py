"""Parses text to predicates: the terminals that the expression languages share, and errors with line and column.

LALR(1) with a lexer that knows which terminals may follow: after a dot `[` begins a delimited name, after a name an
index, and after `d.` hyphens are part of the name (FX-5-20). The builder works while the parser reduces, so that
neither recurses. For every text the result is a predicate or an `AmqpError`, after work linear in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final, Generic, NamedTuple, TypeVar

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from gateway.errors import INVALID_FIELD, AmqpError, quoted
from gateway.filters.parse.limits import FilterLimits, exceeded
from gateway.filters.predicate import Node

SIGNS: Final = r"""
PLUS: "+"
MINUS: "-"
STAR: "*"
SLASH: "/"
PERCENT: "%"
_OPEN: "("
_CLOSE: ")"
_COMMA: ","
"""
"""Signs that SQL filters, selectors and CESQL share."""
TERMINALS: Final = SIGNS + r"""
_AND.2: /and\b/i
_OR.2: /or\b/i
NOT.2: /not\b/i
IN.2: /in\b/i
IS.2: /is\b/i
LIKE.2: /like\b/i
BETWEEN.2: /between\b/i
_ESCAPE.2: /escape\b/i
_NULL.2: /null\b/i
NULL.2: /null\b/i
TRUE.2: /true\b/i
FALSE.2: /false\b/i
_EXISTS.2: /exists\b/i
COMPARISON: "=" | "<>" | "!=" | ">=" | ">" | "<=" | "<"
_DOT: "."
_INDEX: "["
_END_INDEX: "]"
STRING: /'[^']*(?:''[^']*)*'/
APPROXIMATE.3: /(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)e[+-]?[0-9]+/i
DECIMAL.2: /[0-9]+\.[0-9]*|\.[0-9]+/
INTEGER: /[0-9]+/
DELIMITED: /\[(?:[^\[\]]|\[\[|\]\])+\]/
%ignore /\s+/
"""

_NAMES: Final = frozenset({"NAME", "FIELD", "LOG_FIELD", "DELIMITED", "SECTION", "LOG_SECTION"})
_WORDS: Final[dict[str, str]] = {
    "STRING": "a constant",
    "INTEGER": "a constant",
    "DECIMAL": "a constant",
    "APPROXIMATE": "a constant",
    "ATTRIBUTE": "an attribute",
    "FUNCTION": "a function",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "NULL": "NULL",
    "_NULL": "NULL",
    "NOT": "NOT",
    "_EXISTS": "EXISTS",
    "COMPARISON": "a comparison",
    "_AND": "AND",
    "_OR": "OR",
    "LOGIC": "AND, OR or XOR",
    "IN": "IN",
    "LIKE": "LIKE",
    "BETWEEN": "BETWEEN",
    "IS": "IS",
    "_ESCAPE": "ESCAPE",
    "PLUS": "an operator",
    "MINUS": "an operator",
    "_OPEN": "'('",
    "_CLOSE": "')'",
    "_COMMA": "','",
    "_DOT": "'.'",
    "_INDEX": "'['",
    "_END_INDEX": "']'",
    "$END": "the end",
}
HINTS: Final[dict[str, str]] = {
    '"': "text must be in single quotes",
    "'": "the text that begins here has no closing quote",
    "[": "the name that begins here has no closing bracket",
    ";": "the expression ends too early",
}
"""Error texts for unexpected characters."""
_P = TypeVar("_P")


class Part(NamedTuple):
    """A part of the result during parsing: its position and its depth."""

    node: Node
    at: Token
    depth: int = 1


def fault(at: Token, text: str) -> AmqpError:
    """The error of an expression, with line and column."""
    return AmqpError(INVALID_FIELD, f"line {at.line}, column {at.column}: {text}")


class Language(Generic[_P]):
    """One grammar and the builder of its parts; compiled at its first use, which takes some milliseconds."""

    def __init__(
        self,
        rules: str,
        builder: Transformer[Token, _P],
        *,
        terminals: str = TERMINALS,
        hints: Mapping[str, str] = HINTS,
    ) -> None:
        """`rules`: lark's notation, from `start` on; `builder` has a method for each and keeps no state."""
        self._rules: Final = rules
        self._builder: Final = builder
        self._terminals: Final = terminals
        self._hints: Final = hints

    @cached_property
    def _parser(self) -> Lark:
        return Lark(
            self._rules + self._terminals,
            parser="lalr",
            lexer="contextual",
            transformer=self._builder,
            maybe_placeholders=True,
        )

    def prepare(self) -> None:
        """Build the parser now rather than at the first use."""
        _ = self._parser

    def parse(self, text: str, limits: FilterLimits) -> _P:
        """The result of the builder for `text`; raises AmqpError, INVALID_FIELD or RESOURCE_LIMIT_EXCEEDED."""
        if len(text) > limits.length:
            raise exceeded(f"the expression has {len(text)} characters", limits.length)
        parser = self._parser.parse_interactive(text)
        last: Token | None = None
        try:
            for count, token in enumerate(parser.iter_parse(), 1):
                if count > limits.tokens:
                    raise exceeded(
                        f"the expression has too many tokens at column {token.column}", limits.tokens
                    )
                last = token
            part: _P = parser.feed_eof(last)  # type: ignore[no-untyped-call]
        except UnexpectedInput as error:
            accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
            raise self._unexpected(text, error, accepted, last) from None
        return part

    def _unexpected(self, text: str, error: UnexpectedInput, accepted: set[str], last: Token | None) -> AmqpError:
        line, column = error.line, error.column
        if isinstance(error, UnexpectedToken) and error.token.type == "$END":
            found = "the end" if last is not None else "nothing at all"
            line, column = _end(text)
        elif isinstance(error, UnexpectedToken):
            found = quoted(str(error.token))
        else:
            assert isinstance(error, UnexpectedCharacters)
            found = quoted(error.char)
        hint = self._hint(error, accepted, last)
        wanted = "" if hint else f", expected {_expected(accepted)}"
        return AmqpError(INVALID_FIELD, f"line {line}, column {column}: found {found}{wanted}{hint}")

    def _hint(self, error: UnexpectedInput, accepted: set[str], last: Token | None) -> str:
        hints = self._hints
        if isinstance(error, UnexpectedCharacters):
            return f"; {hints[error.char]}" if error.char in hints else ""
        assert isinstance(error, UnexpectedToken)
        word = str(error.token)
        if word == "[" and "DELIMITED" in accepted:
            return f"; {hints['[']}"
        if word == "(" and last is not None and last.type in _NAMES:
            return f"; functions are not defined, so {quoted(str(last))} cannot be called (FX 5)"
        if word.lower() == "between":
            return "; BETWEEN is not supported: write x >= 1 AND x <= 9"
        return ""


def _end(text: str) -> tuple[int, int]:
    """Line and column after the text."""
    return text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1


def _expected(accepted: set[str]) -> str:
    words = [word for terminal, word in _WORDS.items() if terminal in accepted]
    if names := accepted & _NAMES:
        words.insert(0, "d.<name>" if names == {"LOG_SECTION"} else "a name")
    unique = list(dict.fromkeys(words))
    return unique[0] if len(unique) == 1 else ", ".join(unique[:-1]) + f" or {unique[-1]}"
