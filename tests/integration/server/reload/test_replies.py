"""What a reload of the rules for responses does to links and to responses that wait (C15)."""

from __future__ import annotations

import json

import pytest
from ruamel.yaml import YAML

from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import Outbox, answer, cookie_of, hop_annotations, pair, start
from tests.support.gateway.gateway import Gateways


def test_a_link_stays_and_follows_what_is_said_of_responses_now(start_gateway: Gateways) -> None:
    place = start(start_gateway, "gw-reload-replies")
    service, client, _, reply_to = pair(place, capable=True)
    sent = message(reply_to=reply_to, message_id="m")
    client.post(sent)
    assert "response-address-cookie" in hop_annotations(service.take())
    text = place.gateway.policy.read_text()
    svc = 'match: "svc/{name}", relay: core, address: "services/{name}"'
    for replies, annotated in (("rewrite", False), ("{uses: 1}", True), ("auto", True)):
        line = place.gateway.reload(text.replace(svc, f"{svc}, replies: {replies}"))
        assert line["links_closed"] == 0
        client.post(sent)
        got = service.take()
        assert ("response-address-cookie" in hop_annotations(got)) is annotated
        assert sections(got)["properties"]["reply_to"].startswith("$replies.core/") is not annotated


def test_the_annotations_of_a_listener_are_those_that_its_connections_were_opened_with(
    start_gateway: Gateways,
) -> None:
    place = start(start_gateway, "gw-reload-annotations")
    service, client, _, reply_to = pair(place, capable=True)
    text = place.gateway.policy.read_text()
    listen = f'bind: "127.0.0.1:{place.core}"'
    place.gateway.reload(text.replace(listen, f"{listen}, annotations: never"))
    new = pair(place, capable=True)
    for each, to, annotated in ((client, service, True), (new.client, new.service, False)):
        each.post(message(reply_to=reply_to, message_id="m"))
        assert ("response-address-cookie" in hop_annotations(to.take())) is annotated


def test_a_link_whose_responses_end_is_told_to_attach_again(start_gateway: Gateways) -> None:
    """Its target had announced that annotations are followed."""
    place = start(start_gateway, "gw-reload-none")
    client = pair(place, capable=True).client
    text = place.gateway.policy.read_text()
    svc = 'match: "svc/{name}", relay: core, address: "services/{name}"'
    place.gateway.reload(text.replace(svc, f"{svc}, replies: none"))
    assert client.peer.until("detach").error.matches("amqp:link:detach-forced")


@pytest.mark.parametrize("capable", [True, False])
def test_answers_to_requests_under_way_still_come_home_without_response_routing(
    start_gateway: Gateways, capable: bool
) -> None:
    """`response_routing: false` says how requests go from now on, and that nothing is announced."""
    place = start(start_gateway, "gw-reload-off")
    service, client, answers, reply_to = pair(place, capable=capable)
    client.post(message(reply_to=reply_to, message_id="m"))
    before = service.take()
    text = place.gateway.policy.read_text()
    place.gateway.reload(text.replace("  core:\n", "  core:\n    response_routing: false\n"))
    to = "$replies.core" if capable else sections(before)["properties"]["reply_to"]
    responder = Outbox(place.core, to)
    assert not responder.attach.target["capabilities"]
    responder.credit()
    delivery = responder.post(answer(cookie_of(before)) if capable else message(b"yes"))
    answers.take()
    assert responder.outcome(delivery).matches("accepted")
    client.post(message(reply_to=reply_to, message_id="n"))
    after = service.take()
    assert "response-address-cookie" not in hop_annotations(after)
    assert sections(after)["properties"]["reply_to"].startswith("$replies.core/")
    forged = Outbox(place.core, "$replies.core")
    forged.credit()
    assert forged.send(answer(b"no cookie of ours")).matches("rejected")


def test_responses_that_wait_for_a_scope_that_goes_get_an_outcome(start_gateway: Gateways) -> None:
    place = start(start_gateway, "gw-reload-scope")
    text = place.gateway.policy.read_text()
    limited = text.replace("  core:\n", "  core:\n    response_rate: 2/s\n")
    assert limited != text
    place.gateway.reload(limited)
    service, client, _, reply_to = pair(place, capable=True)
    client.post(message(reply_to=reply_to))
    cookie = cookie_of(service.take())
    responders = [Outbox(place.core, "$replies.core") for _ in range(12)]
    for each in responders:
        each.credit()
    deliveries = [each.post(answer(cookie)) for each in responders for _ in range(2)]
    document = YAML(typ="safe").load(limited)
    del document["scopes"]["edge"]
    place.gateway.reload(json.dumps(document))
    outcomes = [responders[at // 2].outcome(number) for at, number in enumerate(deliveries)]
    assert any(each.matches("rejected") for each in outcomes)
    assert not [line for line in place.gateway.log() if "KeyError" in str(line)]
