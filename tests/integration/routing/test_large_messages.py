"""Messages that are larger than their receiver in another scope takes."""

from __future__ import annotations

import pytest

from gateway.amqp.message import sections
from tests.support.amqp.messages import message, properties_list
from tests.support.gateway.crossing import KEY, POLICY, Inbox, Outbox
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports


@pytest.mark.parametrize("address", ["plain/small", None], ids=["relay", "anonymous"])
def test_the_sender_is_told_and_others_go_on(start_gateway: Gateways, address: str | None) -> None:
    """In general words: how much a receiver of another scope takes is not told (docs/guide/errors.md)."""
    edge, core, http = ports(3)
    policy = POLICY.format(id="gw", http=http, edge=edge, core=core, expiry="1m")
    start_gateway(policy, env={"SCOPEGATE_TEST_KEY": KEY})
    inbox, outbox = Inbox(core, "services/small", max_message_size=200), Outbox(edge, address)
    outbox.credit()
    to = sections.section(sections.PROPERTIES, properties_list({"to": "plain/small"}))
    error = outbox.outcome(outbox.post(to + message(bytes(300))))["error"]
    assert error["condition"] == "amqp:link:message-size-exceeded"
    assert error["description"] == "the node behind this address does not accept messages of this size"
    delivery = outbox.post(to + message(b"small"))
    assert inbox.take() == to + message(b"small")
    assert outbox.outcome(delivery).matches("accepted")
