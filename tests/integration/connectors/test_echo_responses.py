"""A container behind a connector that asks for the state of a link it receives on (part 2, 2.7.4)."""

from __future__ import annotations

import pytest

from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import SENDER, Listener
from tests.support.gateway.crossing import connected
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

POLICY = """
gateway: {{id: gw-echo, http: "127.0.0.1:{http}", log: json}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    connect: [{{name: far, to: "amqp://127.0.0.1:{far}"}}]
    addresses: [{{match: "far/**", relay: far, replies: none}}]
    access: [{{who: "*", may: [send], on: "**"}}]
"""


@pytest.mark.row("CORE-12")
def test_the_far_container_is_told_the_state_it_asks_for(start_gateway: Gateways) -> None:
    edge, http = ports(2)
    with Listener() as listener:
        start_gateway(POLICY.format(edge=edge, http=http, far=listener.port), ready=False)
        with connected(edge) as client:
            client.attach("one", SENDER, target=frames.target("far/one"))
            far = listener.accept_started()
            attach = far.until("attach")
            far.attach(attach.name, True, 7, target=frames.target("far/one"))
            client.expect("attach")
            far.flow(7, link_credit=5)
            client.until("flow", link_credit=5)
            client.transfer(message(b"x"))
            far.until("transfer", handle=attach.handle)
            far.flow(7, link_credit=4, delivery_count=1, echo=True)
            far.until("flow", handle=attach.handle, delivery_count=1, link_credit=4)
            far.disconnect()
