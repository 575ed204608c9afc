"""CloudEvents pushed into another scope, and the answers home (X-7, docs/decisions/0012-push.md)."""

from __future__ import annotations

import pytest

from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import KEY, Inbox, Outbox, answer, cookie_of, hop_annotations
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

POLICY = """
gateway: {{id: gw-push, http: "127.0.0.1:{http}", log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
kafka: {{main: {{bootstrap: embedded, topics: {{orders: 1}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    bridge:
      - name: push-orders
        from: events/orders
        to: svc/orders
        start: earliest
        filter: "a.[cloudEvents:type] = 'order.made'"
    addresses:
      - {{match: "events/{{topic}}", kafka: main, mode: cloudevents}}
      - {{match: "svc/{{name}}", relay: core, address: "sinks/{{name}}"}}
      - {{match: "q/**", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    addresses: [{{match: "sinks/**", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
EVENT = {"cloudEvents:specversion": "1.0", "cloudEvents:source": "/shop", "cloudEvents:type": "order.made"}


@pytest.mark.row("X-7")
@pytest.mark.parametrize("capable", [True, False], ids=["annotated", "rewritten"])
def test_a_pushed_event_with_a_reply_to_crosses_like_any_request(start_gateway: Gateways, capable: bool) -> None:
    edge, core, http = ports(3)
    start_gateway(POLICY.format(edge=edge, core=core, http=http), env={"SCOPEGATE_TEST_KEY": KEY})
    sink = Inbox(core, "sinks/orders", capable=capable)
    home = Inbox(edge, "q/answers")
    source = Outbox(edge, "events/orders")
    source.credit()
    other = {**EVENT, "cloudEvents:id": "0", "cloudEvents:type": "order.paid"}
    wanted = {**EVENT, "cloudEvents:id": "1"}
    for properties in (other, wanted):
        assert source.send(message(b"{}", reply_to="q/answers", message_id="m-1", app=properties)).name == "accepted"
    event = sink.take()
    seen = sections(event)
    assert seen["application_properties"]["cloudEvents:id"] == "1", "the filter let only this one through"
    assert not any("event-streams" in str(name) for name in hop_annotations(event))
    if capable:
        place, response = hop_annotations(event)["response-link-target-address"], answer(cookie_of(event))
    else:
        place = seen["properties"]["reply_to"]
        assert place.startswith("$replies.core/")
        response = message(b"answer", correlation_id=seen["properties"]["message_id"])
    responder = Outbox(core, place)
    responder.credit()
    delivery = responder.post(response)
    come = sections(home.take())
    assert come["data"] == b"answer"
    if not capable:
        assert come["properties"]["correlation_id"] == "m-1"
    assert responder.outcome(delivery).name == "accepted"
