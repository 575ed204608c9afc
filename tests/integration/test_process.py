"""The command `scopegate run` as a process: ready, reload, orderly end (issue 3, section 2)."""

from __future__ import annotations

import pytest
from proton import Message

from tests.support.foreign import Foreign
from tests.support.gateway import Gateways
from tests.support.peer import Peer
from tests.support.process import ports
from tests.support.proton_clients import Failed, Login, echo, receive, request, respond, send

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
    assert gateway.process.wait(10) == 0


@pytest.mark.parametrize("library", ["jms", "rhea"])
def test_unmodified_clients_meet_at_a_direct_node(start_gateway: Gateways, library: str) -> None:
    amqp, http = ports(2)
    start_gateway(policy(amqp, http))
    client = Foreign(library, amqp)
    responder = client.run("respond", "chat/echo", count=2).attached()
    responses = client.run("request", "chat/echo", count=2, body="hello {n}").finish()
    assert [line["body"] for line in responses] == ["re: hello 0", "re: hello 1"]
    responder.finish()


def test_proton_clients_meet_at_a_direct_node(start_gateway: Gateways) -> None:
    amqp, http = ports(2)
    start_gateway(policy(amqp, http))
    login = Login(amqp)
    receiver = receive(login, "chat/room", 100).attached()
    outcomes = send(login, "chat/room", [Message(body=n) for n in range(100)]).finish()
    assert {outcome.name for outcome in outcomes} == {"accepted"}
    assert [each.message.body for each in receiver.finish()] == list(range(100))
    responder = respond(login, "chat/echo", echo).attached()
    (response,) = request(login, "chat/echo", [Message(id="m1", body="hello")])
    assert (response.message.correlation_id, response.message.body) == ("m1", "hello")
    responder.stop()


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
