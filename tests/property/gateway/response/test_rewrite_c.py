"""Requests are rewritten in C as in Python, or left to Python."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.amqp.codec.codec import Symbol, Ulong
from gateway.amqp.message import sections
from gateway.amqp.message._sections import rewrite_request
from gateway.errors import AmqpError
from gateway.response import rewrite
from gateway.response.cookies.keys import KeyRing, SigningSecret
from gateway.response.permission import anywhere
from gateway.response.rewrite import Rewriter
from tests.bench.shapes import shapes
from tests.support.amqp.strategies import HEADER_SECTIONS, MESSAGES, mutated
from tests.support.plugins.examples import examples

NOW = 1_700_000_000_000
RING = KeyRing("k", {"k": SigningSecret(b"k" * 32)})
TEXTS = st.sampled_from(["q", "$me", "a/$me", "ID:sg-x", "", "r" * 300])
IDS = st.none() | TEXTS | st.integers(0, 2**64 - 1).map(Ulong) | st.uuids() | st.binary(max_size=9) | st.just(1.5)
FIELDS = st.tuples(IDS, st.none() | st.binary(max_size=3), TEXTS, st.none() | TEXTS, st.none() | TEXTS | IDS, IDS)
REST = st.sampled_from([[], [Symbol("text/plain")], [None, None, None, None, "group"], [None] * 4 + ["g" * 260]])
HEADS = st.just(b"") | HEADER_SECTIONS
NOTES = st.just(b"") | st.just(sections.section(sections.DELIVERY_ANNOTATIONS, {Symbol("x"): 1}))


def request(head: bytes, notes: bytes, fields: tuple[Any, ...], rest: list[Any], count: int) -> bytes:
    properties = sections.section(sections.PROPERTIES, [*fields, *rest][:count])
    return head + notes + properties + sections.section(sections.DATA, b"body")


REQUESTS = st.builds(request, HEADS, NOTES, FIELDS, REST, st.integers(0, 11))
ANY = REQUESTS | mutated(REQUESTS) | MESSAGES | st.sampled_from(list(shapes.recorded().values()))


def rewriter() -> Rewriter:
    """One whose ids are not random."""
    return Rewriter(RING, "edge", "$replies", 64_000, destination="core", token_bytes=bytes)


def outcome(made: Rewriter, data: bytes, *, in_c: bool) -> object:
    try:
        if in_c:
            return made.crossing(lambda: NOW, None, anywhere, answer=False)(data)
        return made._rewrite(data, NOW, None, anywhere, False)
    except AmqpError as error:
        return error.condition, error.description


@settings(max_examples=examples(800), deadline=None)
@given(st.lists(ANY, max_size=4))
def test_requests_are_rewritten_alike(messages: list[bytes]) -> None:
    ours, general = rewriter(), rewriter()
    for data in [*messages, *messages]:  # the second time their reply-tos are known
        assert outcome(ours, data, in_c=True) == outcome(general, data, in_c=False)


def test_requests_of_clients_are_rewritten_in_c() -> None:
    made, messages = rewriter(), shapes.requests("mix", 100, "direct/answers", 51)
    known = made._addresses.recent(NOW)
    made.rewrite(messages[0], NOW)
    for data in messages:
        found = rewrite_request(data, known, rewrite.MARK, made._ids.mint)
        assert isinstance(found, bytes)
        assert b"ID:sg-" in found
    for data in shapes.recorded().values():
        layout = sections.walk(data)
        if sections.properties(data, layout).reply_to is None:
            assert rewrite_request(data, {}, rewrite.MARK, made._ids.mint) is data


def test_an_error_of_a_new_id_is_passed_on() -> None:
    def fails(_: bytes) -> bytes:
        raise MemoryError

    data = shapes.requests("proton-c/data", 100, "q", 1)[0]
    known: dict[object, bytes] = {b"\xa1\x01q": b"\xa1\x01r"}
    assert rewrite_request(data, known, rewrite.MARK, lambda _: "text") is ...  # type: ignore[arg-type,return-value]
    assert rewrite_request(data, {b"\xa1\x01q": "r"}, rewrite.MARK, fails) is ...  # type: ignore[dict-item]
    for arguments in ((), (data, known, "mark", fails), (data, [], b"", fails)):
        with pytest.raises(TypeError):
            rewrite_request(*arguments)  # type: ignore[arg-type]
    with pytest.raises(MemoryError):
        rewrite_request(data, known, rewrite.MARK, fails)
