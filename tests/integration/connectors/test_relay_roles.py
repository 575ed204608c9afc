"""The gateway as provider and as user of an anonymous relay, each by itself and both at once (AT 2.3, AT 3).

And what becomes of messages on an anonymous link whose destination is there but cannot take them now (AT-2.2.2-14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from proton import Message

from gateway.amqp.codec.codec import Symbol
from tests.support.amqp import frames
from tests.support.amqp.foreign import Foreign
from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import SENDER, Listener, Peer
from tests.support.amqp.proton_clients import Login, receive, send
from tests.support.amqp.wiretap import Wiretap
from tests.support.gateway.crossing import Inbox, Outbox, connected
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports
from tests.support.servers.servers import Artemis

RELAY = "ANONYMOUS-RELAY"
POLICY = """
gateway: {{id: gw-roles, http: "127.0.0.1:{http}", log: json}}
kafka: {{away: {{bootstrap: "127.0.0.1:{nobody}"}}}}
scopes:
  with:
    listen: [{{bind: "127.0.0.1:{provided}"}}]
    addresses: [{{match: "events/{{topic}}", kafka: away}}, {{match: "q/**", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  without:
    listen: [{{bind: "127.0.0.1:{plain}"}}]
    anonymous_relay: false
    addresses: [{{match: "q/**", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""


STRICT = """
gateway: {{id: gw-strict, http: off, log: json}}
scopes:
  strict:
    listen: [{{bind: "127.0.0.1:{port}"}}]
    strict_desired: {strict}
    addresses: [{{match: "q/**", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""


class Place:
    """A gateway with one listener that provides the relay and one that does not; its Kafka is away."""

    def __init__(self, gateways: Gateways) -> None:
        self.provided, self.plain, nobody, http = ports(4)
        policy = POLICY.format(provided=self.provided, plain=self.plain, nobody=nobody, http=http)
        self.gateway: Gateway = gateways(policy, ready=False)


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return Place(start_module_gateway)


@pytest.fixture
def fars(start_gateway: Gateways) -> Iterator[Callable[[str], Far]]:
    with Listener() as listener:
        yield lambda more: Far(start_gateway, listener, f", {more}")


def names(capabilities: Any) -> set[str]:
    """The capabilities of an open, as a set."""
    return {str(name) for name in capabilities.items} if capabilities else set()


# -- the roles


@pytest.mark.row("AT-2.3-2", "AT-2.3-6", "AT-2.3-7")
@pytest.mark.parametrize("desired", [True, False])
@pytest.mark.parametrize("provides", [True, False])
def test_as_provider_what_counts_is_what_we_offer(place: Place, provides: bool, desired: bool) -> None:
    """We never ask for the peer's relay on a connection that it opened: nothing is sent to it unasked."""
    peer = Peer(place.provided if provides else place.plain)
    opened = peer.start(desired_capabilities=[RELAY] if desired else None)
    assert (RELAY in names(opened.offered_capabilities)) is provides
    assert names(opened.desired_capabilities) == set()
    peer.attach("relay", SENDER)
    if not provides:
        peer.expect("attach", target=None)
        peer.expect("detach", closed=True, error="amqp:not-implemented")
        return
    assert peer.expect("attach").target["address"] is None
    sender = Outbox.adopt(peer)
    sender.credit()
    inbox = Inbox(place.provided, "q/provider")
    sender.post(message(b"relayed", to="q/provider"))
    assert sections(inbox.take())["data"] == b"relayed"


@pytest.mark.row("AT-2.3-6")
def test_where_the_policy_is_strict_only_who_desired_the_relay_gets_it(start_gateway: Gateways) -> None:
    """Each connection by its own open; a reload tells those who did not that they have to go."""
    (port,) = ports(1)
    gateway = start_gateway(STRICT.format(port=port, strict="false"))
    early = Peer(port)
    early.start()
    early.attach("relay", SENDER)
    assert early.expect("attach").target["address"] is None
    gateway.reload(STRICT.format(port=port, strict="true"))
    early.until("detach", closed=True, error="amqp:not-allowed")
    for desired in (None, ["RESPONSE_ANNOTATIONS_V1_0"]):
        peer = Peer(port)
        assert RELAY in names(peer.start(desired_capabilities=desired).offered_capabilities)
        peer.attach("relay", SENDER)
        peer.expect("attach", target=None)
        assert RELAY in peer.expect("detach", closed=True, error="amqp:not-allowed").error["description"]
        peer.attach_sender("q/named", 1)  # its other links are as before
    peer = Peer(port)
    peer.start(desired_capabilities=[RELAY])
    peer.attach("relay", SENDER)
    assert peer.expect("attach").target["address"] is None


@pytest.mark.row("AT-2.3-3", "AT-2.3-4", "AT-2.3-5", "AT-2.3-7")
@pytest.mark.parametrize("offered", [True, False])
@pytest.mark.parametrize("use", [True, False])
def test_as_user_it_takes_both_wish_and_offer(fars: Callable[[str], Far], use: bool, offered: bool) -> None:
    far = fars(f"use_relay: {str(use).lower()}").accept(*([RELAY] if offered else []))
    assert (RELAY in names(far.opened.desired_capabilities)) is use
    assert RELAY not in names(far.opened.offered_capabilities)
    client = connected(far.core)
    client.attach("sender-0", SENDER, target=frames.target("far/x"))
    if not (use and offered):
        attach = far.attach()
        assert attach.target["address"] == "far/x"
        far.take(attach)
    Outbox.adopt(client).credit()
    client.transfer(message(b"by one way", to="far/x"))
    if use and offered:
        attach = far.attach()
        assert attach.target["address"] is None
        far.take(attach)
    assert sections(far.transfer(attach))["data"] == b"by one way"


@pytest.mark.row("AT-2.3-7")
def test_a_container_that_wants_our_relay_where_we_are_its_client_gets_none(fars: Callable[[str], Far]) -> None:
    """We desire its relay and offer none: the one says nothing about the other."""
    far = fars("use_relay: true").accept(RELAY)
    client = Outbox(far.core, "far/x")
    client.credit()
    client.post(message(b"asked", to="far/x"))
    relay = to_relay(far)
    far.peer.attach("ours", SENDER, 9)
    far.peer.until("attach", name="ours", target=None)
    far.peer.expect("detach", closed=True, error="amqp:not-allowed")
    far.take(relay)
    assert sections(far.transfer(relay))["data"] == b"asked"


def to_relay(far: Far) -> Frame:
    """The gateway's attach to the anonymous terminus of the container."""
    relay = far.attach()
    assert relay.target["address"] is None
    return relay


@pytest.mark.row("AT-3-1", "AT-2.2-2")
def test_provider_for_the_client_and_user_behind_it(fars: Callable[[str], Far]) -> None:
    """One anonymous link in, one out: both roles, and the outcome of the far end comes back through both."""
    far = fars("use_relay: true").accept(RELAY)
    client = Outbox(far.core, None)
    client.credit()
    posted = [client.post(message(b"%d" % n, to=f"far/{n}")) for n in range(3)]
    relay = to_relay(far)
    far.take(relay)
    error = frames.error("amqp:not-found", "nobody is far/1", {Symbol("n"): 1})
    for outcome in ("accepted", frames.composite("rejected", error=error), "released"):
        transfer = far.peer.until("transfer", handle=relay.handle)
        far.peer.disposition(transfer.delivery_id, outcome)
    assert client.outcome(posted[0]).matches("accepted")
    rejected = client.outcome(posted[1])
    assert rejected.matches({"error": "amqp:not-found"})
    assert rejected["error"]["info"] == {Symbol("n"): 1}
    assert client.outcome(posted[2]).matches("released")


@pytest.mark.parametrize("target", [None, "far/x"])
def test_what_waits_settled_for_the_relay_is_sent_though_its_sender_has_left(
    fars: Callable[[str], Far], target: str | None
) -> None:
    """Found as C8: nobody could send it again."""
    far = fars("use_relay: true").accept(RELAY)
    client = Outbox(far.core, target)
    client.credit()
    client.post(message(b"settled", to="far/x"), settled=True)
    relay = to_relay(far)
    client.peer.detach(0).until("detach", closed=True)
    far.take(relay)
    assert sections(far.transfer(relay))["data"] == b"settled"


BROKER = """
gateway: {{id: gw-user, http: "127.0.0.1:{http}", log: json}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    connect:
      - name: broker
        to: "amqp://127.0.0.1:{broker}"
        sasl: {{mechanism: plain, user: {user}, password: {{env: BROKER_PASSWORD}}}}
        allow_plain_without_tls: true
        use_relay: {use}
    addresses: [{{match: "relayed/**", relay: broker, replies: none}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""


@pytest.mark.row("AT-2.3-4", "AT-2.3-5")
@pytest.mark.parametrize("use", [True, False])
def test_stock_senders_over_the_relay_of_an_unmodified_broker(
    start_gateway: Gateways, artemis: Artemis, use: bool
) -> None:
    """Artemis offers the relay; what JMS sends carries its own `to`, so that it may go there."""
    edge, http = ports(2)
    with Wiretap(artemis.port) as wire:
        policy = BROKER.format(edge=edge, http=http, broker=wire.port, user=artemis.user, use=str(use).lower())
        start_gateway(policy, env={"BROKER_PASSWORD": artemis.password})
        body = f"relay {use}"
        for n in range(2):
            name = f"relayed/{use}-{n}"
            Foreign("jms", edge).run("send", name, body=body).finish()
            (outcome,) = send(Login(edge), None, [Message(address=name, body=body)]).finish()
            assert outcome.name == "accepted"
            got = receive(Login(artemis.port, artemis.user, artemis.password), name, 2).finish()
            assert [each.message.body for each in got] == [body, body]
        passed = [each.address for each in wire.seen() if each.sent and body.encode() in each.data]
    assert passed == ([None] * 4 if use else [f"relayed/{use}-{n}" for n in (0, 0, 1, 1)])


# -- a destination that is there and cannot take it now


@pytest.mark.row("AT-2.2.2-14")
def test_while_kafka_is_away_messages_are_released_and_the_link_stays(place: Place) -> None:
    place.gateway.wait_log("kafka down", cluster="away")  # a first attach waits for that, and a peer not so long
    direct, relay = Outbox(place.provided, "events/orders"), Outbox(place.provided, None)
    states = []
    for sender in (direct, relay):
        sender.credit()
        states.append(sender.send(message(to="events/orders")))
    assert states[0] == states[1]
    assert states[1].matches("released")
    inbox = Inbox(place.provided, "q/meanwhile")
    delivery = relay.post(message(b"meanwhile", to="q/meanwhile"))
    assert sections(inbox.take())["data"] == b"meanwhile"
    assert relay.outcome(delivery).matches("accepted")


@pytest.mark.row("AT-2.2.2-14", "AT-2.2-3")
def test_what_is_settled_before_is_dropped_and_counted_and_the_link_stays(place: Place) -> None:
    lost = 'scopegate_kafka_events_total{cluster="away",event="presettled_failed"}'
    before = place.gateway.metrics().get(lost, 0.0)
    relay = Outbox(place.provided, None)
    relay.credit()
    for _ in range(3):
        relay.post(message(to="events/orders"), settled=True)
    place.gateway.wait_metric(lost, lambda value: value == before + 3)
    assert relay.send(message(to="events/orders")).matches("released")


@pytest.mark.row("AT-2.2.2-14")
def test_a_container_that_vanishes_behind_an_anonymous_link(fars: Callable[[str], Far]) -> None:
    """Under way: modified, for it may have arrived. Meanwhile: released. When it is back: as before."""
    far = fars("use_relay: false").accept()
    relay = Outbox(far.core, None)
    relay.credit()
    under_way = relay.post(message(to="far/x"))
    attach = far.attach()
    far.take(attach)
    far.transfer(attach)
    far.peer.disconnect()
    assert relay.outcome(under_way).matches({"delivery_failed": True})
    assert relay.send(message(to="far/x")).matches("released")
    dropped = relay.post(message(b"dropped", to="far/x"), settled=True)
    far.accept()
    again = far.attach()
    far.take(again)
    delivery = relay.post(message(b"again", to="far/x"))
    assert delivery == dropped + 1
    transfer = far.peer.until("transfer", handle=again.handle)
    assert sections(transfer.payload)["data"] == b"again"
    far.peer.disposition(transfer.delivery_id, "accepted")
    assert relay.outcome(delivery).matches("accepted")
