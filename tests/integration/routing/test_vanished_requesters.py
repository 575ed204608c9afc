"""A requester that disconnected does not delay the responses to others, however the responder sends (C7)."""

from __future__ import annotations

import pytest

from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import Inbox, Outbox, Place, answer, connected, cookie_of, pair, start
from tests.support.gateway.gateway import Gateways

DROPPED = "scopegate_dropped_total"


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return start(start_module_gateway, "gw-vanished")


@pytest.mark.row("AT-2.2.2-14")
@pytest.mark.parametrize("way", ["cookie", "token", "null"])
def test_a_settled_response_to_nobody_is_dropped_and_counted(place: Place, way: str) -> None:
    service, client, answers, living = pair(place, capable=way == "cookie")
    gone = Inbox(connected(place.edge), None, source=frames.source(dynamic=True))
    asked = []
    for reply_to in (gone.attach.source["address"], living):
        client.post(message(reply_to=reply_to, message_id="m"))
        asked.append(service.take())
    before = place.gateway.metrics().get(DROPPED, 0)
    gone.peer.disconnect()
    if way == "cookie":
        responder = Outbox(place.core, "$replies.core")
        sent = [answer(cookie_of(each), b"%d" % at) for at, each in enumerate(asked)]
    else:
        responder = Outbox(place.core, None)
        sent = [message(b"%d" % at, to=sections(each)["properties"]["reply_to"]) for at, each in enumerate(asked)]
    if way == "token":
        lost = sections(asked[0])["properties"]["reply_to"]
        other = Outbox(place.core, lost)
        other.credit()
        other.post(sent[0], settled=True)
    responder.credit()
    for payload in [*sent, sent[1]]:
        responder.post(payload, settled=True)
    assert [sections(answers.take())["data"] for _ in range(2)] == [b"1", b"1"]
    place.gateway.wait_metric(DROPPED, lambda count: count >= before + 1)


def test_an_unsettled_response_to_nobody_is_rejected(place: Place) -> None:
    service, client, _, _ = pair(place, capable=True)
    gone = Inbox(connected(place.edge), None, source=frames.source(dynamic=True))
    client.post(message(reply_to=gone.attach.source["address"]))
    cookie = cookie_of(service.take())
    gone.peer.disconnect()
    outcome = Outbox(place.core, "$replies.core").send_with_credit(answer(cookie))
    assert outcome.matches({"error": "amqp:not-found"})
