"""Requests whose responses come to one plain address: ids that contain the return address, byte by byte."""

from __future__ import annotations

import uuid
from typing import Any, Final

import pytest

from gateway.amqp.codec.codec import Timestamp, Ulong, encode
from gateway.errors import NOT_FOUND, PRECONDITION_FAILED, AmqpError
from gateway.response.cookies.keys import KeyRing, SigningSecret
from gateway.response.correlation_ids import CorrelationRestorer, CorrelationRewriter
from gateway.response.rewrite import Rewriter
from tests.support.amqp.messages import fields, message, sections, split

RING: Final = KeyRing("one", {"one": SigningSecret(bytes(range(32)))})
NOW: Final = 1_700_000_000_000
TTL: Final = 300_000
D: Final = encode("broker/temporary-1")
CARRIER: Final = CorrelationRewriter(RING, "edge", "core", "$replies.core", TTL)
CARRIED: Final = CorrelationRestorer(RING, "core", "$replies.core", ("edge", "other"))
IDS: Final = {
    "string": "m-1",
    "ulong": Ulong(1 << 40),
    "uuid": uuid.UUID(int=7),
    "binary": b"\x00\xff",
}


def request_properties(**given: Any) -> dict[str, Any]:
    """Return the properties of a request as it arrives."""
    return sections(CARRIER.rewrite(message(reply_to="q/1", **given), NOW, reply_to=D))["properties"]


@pytest.mark.row("RA-2.5-2", "RA-2.5-3", "RA-2.5-4")
@pytest.mark.parametrize("correlation", [*IDS.values(), None])
def test_reply_to_and_ids_change_and_nothing_else(correlation: Any) -> None:
    sent = message(b"x", reply_to="q/1", message_id="m", correlation_id=correlation, subject="s", app={"n": 1})
    got = CARRIER.rewrite(sent, NOW, reply_to=D)
    assert {**split(got), "properties": b""} == {**split(sent), "properties": b""}
    old, new = fields(split(sent)["properties"]), fields(split(got)["properties"])
    assert new.pop("reply_to") == D
    changed = {name for name in new if new[name] != old.get(name)}
    assert changed == {"message_id", "correlation_id"} - ({"correlation_id"} if correlation is None else set())


@pytest.mark.row("RA-2.5-6", "RA-2.5-7")
@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("echoed", ["message_id", "correlation_id"])
def test_either_id_brings_the_response_home_and_the_original_back(kind: str, echoed: str) -> None:
    reported = request_properties(**{"message_id": "other", "correlation_id": "other", echoed: IDS[kind]})
    sent = message(b"answer", to="broker/temporary-1", correlation_id=reported[echoed], subject="s")
    home = CARRIED.restore(sent, NOW + TTL)
    assert (home.scope, home.address, home.onward) == ("edge", "q/1", False)
    assert {**split(home.data), "properties": b""} == {**split(sent), "properties": b""}
    properties = fields(split(home.data)["properties"])
    assert properties.pop("correlation_id") == encode(IDS[kind])
    assert properties.pop("to") == encode("q/1")
    assert properties == {"subject": encode("s")}


def test_a_request_without_ids_gets_one_and_its_response_none() -> None:
    reported = request_properties()
    home = CARRIED.restore(message(correlation_id=reported["message_id"]), NOW)
    assert "correlation_id" not in sections(home.data)["properties"]


def test_ids_are_distinct() -> None:
    assert request_properties()["message_id"] != request_properties()["message_id"]


@pytest.mark.row("RA-2.5-9")
def test_what_is_no_id_of_ours_is_not_found_and_what_is_old_has_expired() -> None:
    genuine = request_properties(message_id="m")["message_id"]
    rewriter = Rewriter(RING, "edge", "$replies.core", TTL, destination="core")
    other_kind = sections(rewriter.rewrite(message(reply_to="q/1"), NOW))["properties"]["message_id"]
    foreign = CorrelationRestorer(RING, "core", "$replies.core", ("other",))
    elsewhere = CorrelationRestorer(RING, "core", "$replies.third", ("edge",))
    bad: list[tuple[CorrelationRestorer, Any]] = [
        (CARRIED, None),
        (CARRIED, "m"),
        (CARRIED, Ulong(1)),
        (CARRIED, other_kind),
    ]
    bad += [(CARRIED, genuine[:n]) for n in range(6, len(genuine))]
    bad += [(CARRIED, genuine[:n] + chr(ord(genuine[n]) ^ 1) + genuine[n + 1 :]) for n in range(len(genuine))]
    bad += [(foreign, genuine), (elsewhere, genuine)]
    for target, field in bad:
        with pytest.raises(AmqpError) as error:
            target.restore(message(correlation_id=field), NOW)
        assert error.value.condition == NOT_FOUND
    with pytest.raises(AmqpError) as error:
        CARRIED.restore(message(correlation_id=genuine), NOW + 2 * TTL)
    assert error.value.condition == PRECONDITION_FAILED


@pytest.mark.row("RA-2.3-17", "RA-2.5-10")
def test_a_previous_gateways_cookie_travels_in_the_ids() -> None:
    previous = {
        "response-address-cookie": b"theirs",
        "response-link-target-address": "T1",
        "response-address-cookie-expiry": Timestamp(NOW + 60_000),
        "x-opt-hop": 1,
    }
    got = CARRIER.rewrite(message(reply_to="q/1", message_id="m", da=previous), NOW, reply_to=D)
    assert sections(got)["delivery_annotations"] == {"x-opt-hop": 1}
    reply = message(correlation_id=sections(got)["properties"]["message_id"])
    home = CARRIED.restore(reply, NOW + 60_000)
    assert home.target == "T1"
    assert sections(home.data)["delivery_annotations"] == {"address-cookie": b"theirs"}
    with pytest.raises(AmqpError):
        CARRIED.restore(reply, NOW + 60_001)


def test_a_dialogue_keeps_the_ids_that_each_side_knows() -> None:
    """Asked, answered with a question, and answered again: the service sees its own id."""
    reported = request_properties(message_id="first")
    second = message(correlation_id=reported["message_id"], message_id="second", reply_to="q/service")
    home = CARRIED.restore(second, NOW)
    assert home.onward
    back = Rewriter(RING, "core", "$replies.edge", TTL, destination="edge")
    shown = sections(back.rewrite(home.data, NOW))["properties"]
    assert shown["correlation_id"] == "first"
    third = message(correlation_id=shown["message_id"], message_id="third", reply_to="q/1")
    answer = back.undo(shown["reply_to"].removeprefix("$replies.edge/"), third, NOW)
    got = sections(CARRIER.rewrite(answer.data, NOW, reply_to=D, answer=True))["properties"]
    assert (got["correlation_id"], got["to"], got["reply_to"]) == ("second", "q/service", "broker/temporary-1")
    last = CARRIED.restore(message(correlation_id=got["message_id"]), NOW)
    assert sections(last.data)["properties"]["correlation_id"] == "third"
    direct = message(correlation_id=shown["message_id"], message_id="third", reply_to="q/1")
    quoted = sections(CARRIER.rewrite(direct, NOW, reply_to=D))["properties"]
    assert quoted["correlation_id"] == "second"


def test_a_message_that_wants_no_answer_passes_as_it_is() -> None:
    sent = message(b"news", message_id="m", correlation_id="c")
    assert CARRIER.rewrite(sent, NOW, reply_to=D) == sent
