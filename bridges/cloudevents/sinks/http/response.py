"""Reads the answers to the requests of one connection (RFC 9112), each within limits. Sans-IO.

The parser is llhttp (httptools) with its strict defaults, except that a line may end with a bare LF (RFC 9112, 2.2): it
refuses an answer with two lengths, with a length and a transfer coding, with obsolete line folding, or with anything
else that two programs could delimit in two ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

BODY: Final = 65_536
"""Bytes of a body that are read; after a longer one the connection is closed."""
HEAD: Final = 16_384
"""Bytes of the names and values of an answer's fields, trailers included."""
INFORMATIONAL: Final = 100
"""Answers before the final one."""
_PIECE: Final = 16_384
"""Bytes that are parsed at a time, so that few are parsed beyond a limit."""
_FRAMING: Final = 2
"""The bytes on the wire may be as many times the limit: field separators, and the headers of chunks."""
_USED: Final = frozenset([b"retry-after", b"webhook-allowed-origin", b"webhook-allowed-rate"])
_LENGTH: Final = b"content-length"
_CODING: Final = b"transfer-encoding"
_VERSIONS: Final = frozenset(["1.1", "1.0"])
_SWITCHING: Final = 101


class InvalidAnswer(Exception):
    """What came is no answer to the request, or more than one may have."""


class HttpAnswer(NamedTuple):
    """The used parts of an answer."""

    status: int
    headers: Mapping[str, str]
    """Those that sinks use, by name in lower case; of a repeated one, the first."""
    body: bytes | None = None
    """If it was wanted and is complete."""


class AnswerReader:
    """The answers of one connection, one after the other; no use after `InvalidAnswer`, or if it is not `reusable`."""

    __slots__ = (
        "_answers", "_body", "_delimited", "_fed", "_fields", "_headers", "_parser", "_size", "_whole", "answer",
        "complete", "reusable",
    )  # fmt: skip

    def __init__(self) -> None:
        self._parser: Final = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] | None = None
        self._answers = self._fed = self._fields = self._size = 0
        self._delimited = self._whole = False
        self.answer: HttpAnswer | None = None
        """The final answer, from the end of its head on."""
        self.complete = True
        """Nothing more is expected."""
        self.reusable = True
        """Whether another request may be sent on the connection; valid while it is complete."""

    def expect(self, *, body: bool = False) -> None:
        """A request was sent; `body`: keep the answer's."""
        self._body = [] if body else None
        self._answers = self._fed = self._size = 0
        self._whole = self.complete = self.reusable = False
        self.answer = None

    @property
    def begun(self) -> bool:
        """Whether a part of an answer has come."""
        return self._fed > 0 or self._answers > 0 or self.answer is not None

    def feed(self, data: bytes) -> bool:
        """Parse what came; returns `complete`; raises InvalidAnswer. An error behind the final head ends its body."""
        if self.complete:
            raise InvalidAnswer
        if len(data) <= _PIECE:
            self._parse(data)
            return self.complete
        rest = memoryview(data)
        while rest and not self.complete:
            self._parse(rest[:_PIECE])
            rest = rest[_PIECE:]
        self.reusable = self.reusable and not rest
        return self.complete

    def _parse(self, data: bytes | memoryview) -> None:
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            if self.answer is None:
                raise InvalidAnswer from None
            self._give_up()
            return
        self._fed += len(data)
        if self.answer is None:
            if self._fed > _FRAMING * HEAD:
                raise InvalidAnswer
        elif self._fed > _FRAMING * BODY and not self.complete:
            self._give_up()

    def end(self) -> HttpAnswer | None:
        """The server sends no more; returns the final answer, None if there is none."""
        if not self.complete:
            self._whole = self.answer is not None and not self._delimited and self._size <= BODY
        self._give_up()
        return self.result()

    def result(self) -> HttpAnswer | None:
        """The final answer, with its body if that was wanted and is complete."""
        if self.answer is None or self._body is None or not self._whole:
            return self.answer
        return self.answer._replace(body=b"".join(self._body))

    def _give_up(self) -> None:
        self.complete, self.reusable = True, False

    # -- from the parser

    def on_message_begin(self) -> None:
        """An answer begins."""
        if self.complete:
            self.reusable = False
            raise InvalidAnswer
        self._headers, self._fields, self._delimited = {}, 0, False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of a head, or of a trailer."""
        self._fields += len(name) + len(value)
        if self._fields > HEAD:
            raise InvalidAnswer
        if self.answer is None:
            lower = name.lower()
            if lower in _USED:
                self._headers.setdefault(lower.decode(), value.decode("latin-1").strip())
            elif lower == _LENGTH or (lower == _CODING and value.strip().lower().endswith(b"chunked")):
                self._delimited = True

    def on_headers_complete(self) -> None:
        """The head of an answer is complete."""
        status = self._parser.get_status_code()
        if status < 100 or self._parser.get_http_version() not in _VERSIONS:
            raise InvalidAnswer
        self._fed = 0
        if status >= 200 or status == _SWITCHING:
            self.answer = HttpAnswer(status, self._headers)
            return
        self._answers += 1
        if self._answers > INFORMATIONAL:
            raise InvalidAnswer

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        self._size += len(data)
        if self._size > BODY:
            self._give_up()
        elif self._body is not None:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """An answer is complete."""
        if self.answer is None or self.complete:
            return
        self.complete = self._whole = True
        self.reusable = self.answer.status != _SWITCHING and self._parser.should_keep_alive()
