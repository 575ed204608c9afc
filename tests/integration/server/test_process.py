"""The command `scopegate run` as a process: ready, reload, orderly end (issue 3, section 2)."""

from __future__ import annotations

import pytest
from proton import Message

from tests.support.amqp.peer import Peer
from tests.support.amqp.proton_clients import Failed, Login, receive, send
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

POLICY = """
gateway: {{id: gw-test, http: "127.0.0.1:{http}", state: memory}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{amqp}", sasl: [anonymous]}}]
    addresses:
      - {{match: "chat/**", direct: balanced}}
    access:
      - {{who: "*", may: [send, receive], on: "chat/{allowed}"}}
"""


def policy(amqp: int, http: int, allowed: str = "**") -> str:
    return POLICY.format(amqp=amqp, http=http, allowed=allowed)


def test_it_serves_until_sigterm_and_ends_with_0(start_gateway: Gateways) -> None:
    amqp, http = ports(2)
    gateway = start_gateway(policy(amqp, http))
    assert gateway.get("/healthz")[0] == 200
    assert gateway.metrics()
    with Peer(amqp) as peer:
        peer.start()
        gateway.process.send_signal(15)
        peer.until("close", error="amqp:connection:forced")
    assert gateway.process.wait() == 0


def test_a_reload_keeps_what_is_allowed_and_closes_the_rest(start_gateway: Gateways) -> None:
    amqp, http = ports(2)
    gateway = start_gateway(policy(amqp, http))
    stays = receive(Login(amqp), "chat/a", 1).attached()
    goes = receive(Login(amqp), "chat/b", 1).attached()
    gateway.reload("scopes: nonsense", ok=False)
    gateway.reload(policy(amqp, http, allowed="a"))
    with pytest.raises(Failed, match="amqp:unauthorized-access"):
        goes.finish()
    send(Login(amqp), "chat/a", [Message(body="still here")]).finish()
    assert stays.finish()[0].message.body == "still here"
