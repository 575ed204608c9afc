"""A responder's duties as pure functions: which response a request asks for, and what is no annotation."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.message.response_support import annotated
from gateway.errors import INVALID_FIELD, NOT_FOUND, AmqpError
from gateway.links.link_context import Pair, link_context
from gateway.response.echo import echo, read_request
from gateway.routing.reserved import asks_me, with_own_address
from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import hop_annotations


@pytest.mark.parametrize("cookie", [b"", b"c" * 300, None])
def test_an_echo_has_body_application_properties_and_cookie(cookie: bytes | None) -> None:
    asked = message(b"x", app={"n": 1}, ma={"x-opt-m": 1}, correlation_id="c", reply_to="r", footer={"x-opt-f": 1})
    if cookie is not None:
        asked = message(
            b"x", app={"n": 1}, correlation_id="c", reply_to="r", da={"response-address-cookie": cookie, "x-opt-a": 1}
        )
    got = echo(read_request(asked))
    assert hop_annotations(got) == ({} if cookie is None else {"address-cookie": cookie})
    assert {**sections(got), "delivery_annotations": None} == {
        "delivery_annotations": None,
        "properties": {"to": "r", "correlation_id": "c"},
        "application_properties": {"n": 1},
        "data": b"x",
    }


def test_annotations_that_are_not_honoured_say_nothing() -> None:
    asked = message(reply_to="r", da={"response-address-cookie": b"c", "response-link-target-address": "t"})
    assert read_request(asked)[2:] == ("r", b"c", "t")
    assert read_request(asked, honoured=False)[2:] == ("r", None, None)


@pytest.mark.parametrize("da", [{"response-address-cookie": "text"}, {"response-link-target-address": b"binary"}])
def test_wrong_types_are_invalid_fields(da: dict[str, Any]) -> None:
    with pytest.raises(AmqpError) as caught:
        read_request(message(da=da))
    assert caught.value.condition == INVALID_FIELD


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (message(da={"response-address-cookie": b"c"}), True),
        (message(da={"response-link-target-address": "t"}), True),
        (message(da={"x-opt-a": "response-address-cookie"}), False),
        (message(b"response-address-cookie"), False),
        (message(ma={"response-address-cookie": b"c"}), False),
        (b"\x00\x53\x71response-", False),
        (b"response-", False),
    ],
)
def test_only_delivery_annotations_count(data: bytes, expected: bool) -> None:
    assert annotated(data) is expected


def test_me_is_a_whole_reply_to() -> None:
    assert asks_me(message(reply_to="$me"))
    assert not asks_me(message(b"$me", reply_to="$me/x"))
    assert not asks_me(message(b"$me"))


def test_me_needs_the_other_half() -> None:
    pair = Pair()
    for absent in (None, pair):
        with pytest.raises(AmqpError) as caught:
            with_own_address(message(reply_to="$me"), absent)
        assert caught.value.condition == NOT_FOUND
    pair.address = "$temp/x"
    assert sections(with_own_address(message(b"b", reply_to="$me"), pair))["properties"] == {"reply_to": "$temp/x"}


def test_ways_of_the_same_words_are_one_and_those_of_pairs_are_their_own() -> None:
    assert link_context("s") is link_context("s")
    assert link_context("s", announces=True) is not link_context("s")
    pair, other = Pair(), Pair()
    assert link_context("s", pair=pair) == link_context("s", pair=pair) != link_context("s", pair=other)
