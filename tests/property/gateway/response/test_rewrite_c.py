"""Requests are rewritten in C as in Python, or left to Python."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.amqp.codec.codec import Symbol, Ulong
from gateway.amqp.message import sections
from gateway.amqp.message._sections import (
    annotate_run,
    bind_sha256,
    mac_states,
    rewrite_request,
    rewrite_run,
    signed_token_string,
    unannotated_run,
)
from gateway.errors import AmqpError
from gateway.response import rewrite
from gateway.response.annotate import Annotator
from gateway.response.cookies import mac
from gateway.response.cookies.keys import KeyRing, SigningSecret
from gateway.response.crossing import Crossing
from gateway.response.message_id import ScopeIds
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


def annotator() -> Annotator:
    """One whose cookies are not random."""
    return Annotator(RING, "edge", "$replies", 64_000, token_bytes=bytes)


def fate(change: Crossing, data: bytes) -> object:
    try:
        return change(data)
    except AmqpError as error:
        return error.condition


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


SETTLED = st.lists(st.booleans(), min_size=4, max_size=4)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(ANY, min_size=1, max_size=4), SETTLED, st.integers(0, 3), st.integers(0, 5))
def test_several_messages_are_changed_as_each_alone(
    messages: list[bytes], settled: list[bool], start: int, end: int
) -> None:
    """Up to the first that came settled, or that Python changes."""
    lot = [(number, data, came) for number, (data, came) in enumerate(zip(messages, settled, strict=False))]
    for kind in (rewriter, annotator):
        ours, single = (kind().crossing(lambda: NOW, None, anywhere, answer=False) for _ in range(2))
        for data in messages:  # afterwards their reply-tos are known
            fate(ours, data), fate(single, data)
        found = ours.several(lot, start, end)
        assert len(found) <= max(min(end, len(lot)) - start, 0)
        assert found == [single(data) for _, data, _ in lot[start : start + len(found)]]
        assert not any(came for _, _, came in lot[start : start + len(found)])


def test_several_messages_of_clients_are_changed_in_one_call() -> None:
    lot: list[Any] = [(None, data, False) for data in shapes.requests("mix", 100, "direct/answers", 51)]
    for kind in (rewriter, annotator):
        made = kind().crossing(lambda: NOW, None, anywhere, answer=False)
        made(lot[0][1])
        assert len(made.several(lot, 0, len(lot))) == len(lot)
        assert made.several([*lot[:3], (None, lot[0][1], True), *lot], 1, 9) != []
        assert len(made.several([*lot[:3], (None, lot[0][1], True), *lot], 1, 9)) == 2


def test_what_is_no_run_is_refused() -> None:
    runs: list[tuple[Any, tuple[Any, ...]]] = [
        (unannotated_run, ()), (annotate_run, ({},)), (rewrite_run, ({}, b"", bytes)),
    ]  # fmt: skip
    for run, more in runs:
        assert run([], 0, 9, *more) == run([None], 0, 1, *more) == run([(1, b"x", True)], 0, 1, *more) == []
        for wrong in ((), ((), 0, 1, *more), ([], "0", 1, *more), ([], 0, 1 << 70, *more), ([], 0, 1, *more, b"", b"")):
            with pytest.raises((TypeError, OverflowError)):
                run(*wrong)


@given(st.binary(max_size=600), st.integers(0, 9))
def test_an_id_is_minted_in_c_as_in_python(original: bytes, first: int) -> None:
    ours, general = (ScopeIds(RING, "edge", lambda size: bytes((first,)) * size) for _ in range(2))
    general._states = None
    assert ours._states is not None
    for _ in range(3):
        made = ours.mint(original)
        assert made == general.mint(original)
        assert ours.original(made, NOW) == ScopeIds(RING, "edge", bytes).original(made, NOW) == original


def test_a_mac_needs_its_states() -> None:
    found = mac_states(b"k" * 32)
    assert found is not None
    usual: tuple[Any, ...] = (b"m", b"p", 1, b"", 16, found)
    for at, odd in enumerate(("m", "p", "1", "", "16", b"short")):
        with pytest.raises(TypeError):
            signed_token_string(*usual[:at], odd, *usual[at + 1 :])
    for wrong in ((b"m", b"p", 1, b"", 33, found), (b"m", b"p", 1, b"", -1, found)):
        with pytest.raises(ValueError, match="the MAC has fewer bytes"):
            signed_token_string(*wrong)
    for key in ("text", b"k" * 65):
        with pytest.raises(TypeError, match="64 bytes"):
            mac_states(key)  # type: ignore[arg-type]


def test_without_libcrypto_python_makes_the_macs(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = rewriter()._ids.mint(b"\xa1\x01a")
    with monkeypatch.context() as patch:
        patch.setattr(mac, "sha256_functions", lambda: None)
        assert not mac.bind()
    bind_sha256(0, 0, 0)
    try:
        assert mac_states(b"k") is None
        ring = KeyRing("k", {"k": SigningSecret(b"k" * 32)})
        assert Rewriter(ring, "edge", "$replies", 64_000, token_bytes=bytes)._ids.mint(b"\xa1\x01a") == expected
    finally:
        assert mac.bind()


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
