"""The reader of answers against h11, and against anything else: same meaning however it is split, and bounded work."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import h11
from hypothesis import example, given
from hypothesis import strategies as st

from bridges.cloudevents.sinks.http.response import BODY, HEAD, INFORMATIONAL, AnswerReader, InvalidAnswer

USED = ("retry-after", "webhook-allowed-origin", "webhook-allowed-rate")
MOST = (INFORMATIONAL + 1) * 2 * HEAD + 2 * BODY + 2 * HEAD
"""Bytes that one request may make the reader parse, whatever comes."""


class Read(NamedTuple):
    """What became of an answer; None: there is none."""

    status: int | None
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes | None = None
    reusable: bool = False


CUTS = st.lists(st.integers(0, 1 << 20), max_size=12)
"""Where a stream is split, modulo its length."""


def split(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


def ours(pieces: Sequence[bytes], reader: AnswerReader | None = None) -> Read:
    """Read the pieces, then the end of the stream."""
    reader = reader or AnswerReader()
    reader.expect(body=True)
    try:
        for number, piece in enumerate(pieces):
            if reader.feed(piece):
                reader.reusable = reader.reusable and number == len(pieces) - 1
                break
    except InvalidAnswer:
        return Read(None)
    reusable = reader.complete and reader.reusable
    found = reader.result() if reader.complete else reader.end()
    return Read(None) if found is None else Read(found.status, dict(found.headers), found.body, reusable)


def theirs(pieces: Sequence[bytes]) -> Read:
    """The same by h11."""
    client = h11.Connection(our_role=h11.CLIENT, max_incomplete_event_size=HEAD)
    client.send(h11.Request(method="POST", target="/", headers=[("host", "h"), ("content-length", "0")]))
    client.send(h11.EndOfMessage())
    answer, body, feed = None, b"", [*pieces, b""]
    while True:
        event = client.next_event()
        if event is h11.NEED_DATA:
            client.receive_data(feed.pop(0))
        elif isinstance(event, h11.Response):
            answer = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            break
    assert answer is not None
    named: dict[str, str] = {}
    for name, value in answer.headers:
        if (key := name.decode()) in USED:
            named.setdefault(key, value.decode("latin-1"))
    ended = not feed  # the end of the stream was the end of the answer
    reusable = not ended and client.their_state is h11.DONE and not client.trailing_data[0]
    return Read(answer.status_code, named, body, reusable)


def cased(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from([name, name.title(), name.upper()])


VALUE = st.text("abc XYZ;,=\"/*\t", max_size=20).map(str.strip)
FIELD = st.one_of(
    st.tuples(st.sampled_from(["server", "date", "x-a", "set-cookie"]), VALUE),
    st.tuples(st.sampled_from(USED).flatmap(cased), VALUE),
)
FIELDS = st.lists(FIELD, max_size=4)
BEFORE = st.sampled_from(["", " ", "\t", "  "])
BEHIND = st.sampled_from(["", " "])
"""Not a tab: llhttp takes `chunked` with one for another coding, and reads to the end of the stream, which is safe."""


@st.composite
def field_lines(draw: st.DrawFn, fields: Sequence[tuple[str, str]]) -> bytes:
    """Header fields with legal spaces and line ends."""
    lines = [f"{name}:{draw(BEFORE)}{value}{draw(BEHIND)}" for name, value in fields]
    return "".join(line + draw(st.sampled_from(["\r\n", "\r\n", "\n"])) for line in lines).encode("latin-1")


@st.composite
def informational(draw: st.DrawFn) -> bytes:
    return b"HTTP/1.1 %d Early\r\n" % draw(st.sampled_from([100, 102, 103])) + draw(field_lines(draw(FIELDS))) + b"\r\n"


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    """The body in chunks, with extensions and trailers."""
    pieces = [piece for piece in split(body, draw(st.lists(st.integers(0, 1 << 20), max_size=4))) if piece]
    sizes = st.sampled_from(["%x", "%X", "0%x"])
    more = st.sampled_from(["", ";a=b", ';name="x y"', ";a"])
    text = [(draw(sizes) % len(piece) + draw(more)).encode() + b"\r\n" + piece + b"\r\n" for piece in pieces]
    trailers = draw(field_lines(draw(st.lists(st.tuples(st.just("x-trailer"), VALUE), max_size=2))))
    return b"".join(text) + b"0\r\n" + trailers + b"\r\n"


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """A legal answer of HTTP/1.1, with what may come before it."""
    status = draw(st.sampled_from([200, 201, 202, 204, 299, 302, 304, 400, 401, 410, 413, 429, 500, 503, 599]))
    body = draw(st.one_of(st.binary(max_size=200), st.integers(0, BODY).map(lambda size: b"x" * size)))
    fields = draw(FIELDS)
    options = st.sampled_from(["close", "keep-alive", "Close, x", "y"])
    fields += draw(st.lists(st.tuples(cased("connection"), options), max_size=1))
    framing = draw(st.sampled_from(["length", "chunked", "end"])) if status not in (204, 304) else "none"
    if framing == "length":
        fields.append((draw(cased("content-length")), str(len(body))))
    elif framing == "chunked":
        fields.append((draw(cased("transfer-encoding")), draw(st.sampled_from(["chunked", "Chunked"]))))
    reason = draw(st.sampled_from(["OK", "", "Not  what\tyou think"]))
    start = f"HTTP/1.1 {status} {reason}\r\n".encode()
    before = b"".join(draw(st.lists(informational(), max_size=3)))
    head = before + start + draw(field_lines(draw(st.permutations(fields)))) + b"\r\n"
    return head + {"none": b"", "chunked": draw(chunked(body))}.get(framing, body)


@given(answers(), CUTS)
def test_a_legal_answer_means_what_it_means_to_h11(answer: bytes, cuts: list[int]) -> None:
    assert ours(split(answer, cuts)) == theirs(split(answer, cuts))


@given(answers(), st.binary(min_size=1, max_size=40))
def test_bytes_behind_an_answer_end_the_connection(answer: bytes, behind: bytes) -> None:
    found = ours([answer, behind])
    assert not found.reusable
    assert found.status == ours([answer]).status


ILLEGAL = {
    "two lengths": b"content-length: 1\r\ncontent-length: 2\r\n",
    "the same length twice": b"content-length: 1\r\ncontent-length: 1\r\n",
    "a list of lengths": b"content-length: 1, 1\r\n",
    "length and coding": b"content-length: 1\r\ntransfer-encoding: chunked\r\n",
    "coding and length": b"transfer-encoding: chunked\r\ncontent-length: 1\r\n",
    "negative length": b"content-length: -1\r\n",
    "signed length": b"content-length: +1\r\n",
    "hexadecimal length": b"content-length: 0x1\r\n",
    "length without a number": b"content-length: \r\n",
    "length beyond all numbers": b"content-length: 99999999999999999999999\r\n",
    "space before the colon": b"retry-after : 1\r\n",
    "line folding": b"retry-after: 1\r\n 2\r\n",
    "folding in the first line": b" retry-after: 1\r\n",
    "a field without a name": b": 1\r\n",
    "a field without a colon": b"retry-after\r\n",
    "NUL": b"retry-after: 1\x002\r\n",
    "a bare CR": b"retry-after: 1\r2\r\n",
    "a long field": b"x: " + b"a" * HEAD + b"\r\n",
    "a long head": b"x: a\r\n" * HEAD,
}


@given(st.sampled_from(sorted(ILLEGAL)), FIELDS, st.lists(informational(), max_size=2), CUTS)
def test_an_illegal_head_is_refused_however_it_is_split(
    name: str, fields: list[tuple[str, str]], before: list[bytes], cuts: list[int]
) -> None:
    lines = "".join(f"{key}: {value}\r\n" for key, value in fields).encode("latin-1")
    answer = b"".join(before) + b"HTTP/1.1 200 OK\r\n" + lines + ILLEGAL[name] + b"\r\n1"
    assert ours(split(answer, cuts)) == Read(None)


WORDS = [
    b"HTTP/1.1 ", b"HTTP/1.0 ", b"200", b"100", b"204", b" OK", b"\r\n", b"\n", b"\r", b": ", b"content-length",
    b"close", b"transfer-encoding", b"chunked", b"connection", b"keep-alive", b"5", b"0", b"hello", b";", b" ",
    b"\x00", b"\xff",
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=40).map(b"".join), CUTS)
@example(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", [17])
def test_anything_is_an_answer_or_refused_the_same_however_it_is_split(data: bytes, cuts: list[int]) -> None:
    whole, pieces = ours([data]), ours(split(data, cuts))
    assert whole == pieces


class Counting(AnswerReader):
    """Counts the calls of the parser."""

    def __init__(self) -> None:
        self.calls = 0
        super().__init__()

    def on_message_begin(self) -> None:
        self.calls += 1
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.calls += 1
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.calls += 1
        super().on_headers_complete()

    def on_body(self, data: bytes) -> None:
        self.calls += 1
        super().on_body(data)

    def on_message_complete(self) -> None:
        self.calls += 1
        super().on_message_complete()


ENDLESS = {
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "hints": (b"", b"HTTP/1.1 103 X\r\nlink: " + b"y" * 8000 + b"\r\n\r\n"),
    "a name": (b"HTTP/1.1 200 OK\r\n", b"a"),
    "a value": (b"HTTP/1.1 200 OK\r\na: ", b"b"),
    "a reason": (b"HTTP/1.1 200 ", b"b"),
    "fields": (b"HTTP/1.1 200 OK\r\n", b"a:\r\n"),
    "line ends": (b"", b"\r\n"),
    "a body": (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    "chunks": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "a chunk's extension": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;", b"x"),
    "trailers": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
    "one trailer": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: ", b"b"),
}


@given(st.sampled_from(sorted(ENDLESS)), st.sampled_from([1, 7, 1448, 65_536, 262_144]))
@example("chunks", 262_144)
@example("continue", 262_144)
def test_what_does_not_end_is_given_up_after_bounded_work(name: str, size: int) -> None:
    first, unit = ENDLESS[name]
    reader, fed, calls = Counting(), 0, 0
    stream = (first + unit * (2 * MOST // len(unit) + 1))[: 2 * MOST]
    reader.expect()
    try:
        for at in range(0, len(stream), size):
            fed += size
            if reader.feed(stream[at : at + size]):
                break
    except InvalidAnswer:
        pass
    calls = reader.calls
    assert fed <= MOST + size
    assert calls <= MOST // 3
