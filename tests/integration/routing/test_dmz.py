"""Gateways in a row whose shared scopes have one name; each dials the one in front of it with `pull` (RA-2.3-17)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import KEY, Inbox, Outbox, answer, hop_annotations
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

OUTER = """
gateway: {{id: outer, http: "127.0.0.1:{http}"}}
keys: {{active: k, ring: {{k: {{env: SCOPEGATE_KEY}}}}}}
scopes:
  internet:
    listen: [{{bind: "127.0.0.1:{client}"}}]
    addresses: [{{match: service, relay: dmz, address: requests}}, {{match: "q/*", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  dmz:
    listen: [{{bind: "127.0.0.1:{port}"}}]
    addresses: [{{match: requests, direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
BEHIND = """
gateway: {{id: behind-{outer}, http: "127.0.0.1:{http}"}}
keys: {{active: k, ring: {{k: {{env: SCOPEGATE_KEY}}}}}}
scopes:
  {outer}:
    connect: [{{name: outer, to: "amqp://127.0.0.1:{dialled}", pull: [{{from: requests, to: service}}]}}]
    addresses:
      - {{match: service, relay: {inner}, address: requests}}
      - {{match: "$replies.{outer}/**", relay: outer}}
  {inner}:
    listen: [{{bind: "127.0.0.1:{port}"}}]
    addresses: [{{match: requests, direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""


@pytest.mark.row("RA-2.3-17", "RA-2.3-5")
@pytest.mark.parametrize("capable", [True, False])
@pytest.mark.parametrize("scopes", [["dmz", "inside"], ["dmz", "lan", "inside"], ["dmz", "internet"]])
def test_responses_go_back_through_the_gateways_that_were_dialled(
    start_gateway: Gateways, scopes: list[str], capable: bool
) -> None:
    """One hop and two; the last scope may have the same name as the first, since each gateway has its own names."""
    client, port, http = ports(3)
    start_gateway(OUTER.format(http=http, client=client, port=port), env={"SCOPEGATE_KEY": KEY})
    for number, (outer, inner) in enumerate(pairwise(scopes), 1):
        dialled, (port, http) = port, ports(2)
        policy = BEHIND.format(outer=outer, inner=inner, dialled=dialled, port=port, http=http)
        start_gateway(policy, env={"SCOPEGATE_KEY": KEY[number:] + KEY[:number]})
    answered(client, port, scopes[-1], capable)


def answered(client: int, inside: int, scope: str, capable: bool) -> None:
    """Send two requests on one route, and receive both responses."""
    service = Inbox(inside, "requests", capable=capable)
    answers, asking = Inbox(client, "q/1"), Outbox(client, "service")
    asking.credit()
    for number in range(2):
        asking.post(message(b"ask", reply_to="q/1", message_id=f"m-{number}"))
        got = service.take()
        reported, asked = hop_annotations(got), sections(got)["properties"]
        if capable:
            assert reported["response-link-target-address"] == f"$replies.{scope}"
            responder = f"$replies.{scope}"
            reply = answer(reported["response-address-cookie"], correlation_id=f"m-{number}")
        else:
            responder, reply = asked["reply_to"], message(b"answer", correlation_id=asked["message_id"])
        outbox = Outbox(inside, responder)
        delivery = outbox.post(reply)
        home = answers.take()
        assert sections(home)["properties"]["correlation_id"] == f"m-{number}"
        assert hop_annotations(home) == {}
        assert outbox.outcome(delivery).matches("accepted")
