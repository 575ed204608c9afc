"""A node in another container: attach and message are refused with the place to go to (2.8.18; CORE-8, AT 2.2.2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from gateway.amqp.codec.codec import Symbol, Uint
from tests.support.amqp import frames
from tests.support.amqp.foreign import Foreign
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Listener, Peer
from tests.support.gateway.crossing import Inbox, Outbox, connected
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports

POLICY = """
gateway: {{id: {name}, http: "127.0.0.1:{http}", log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "moved/{{name}}", redirect: "amqp://127.0.0.1:{there}", address: "q/{{name}}", hostname: vhost}}
      - {{match: "kept/**", redirect: "amqp://127.0.0.1:{there}"}}
      - {{match: "denied/**", redirect: "amqp://127.0.0.1:{there}"}}
      - {{match: "beyond/**", relay: core}}
      - {{match: "svc/**", relay: core}}
      - {{match: "q/**", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: ["moved/**", "kept/**", "beyond/**", "svc/**", "q/**"]}}]
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    addresses:
      - {{match: "beyond/**", redirect: "amqp://127.0.0.1:{there}"}}
      - {{match: "svc/**", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
REDIRECT = "amqp:link:redirect"


class Place(NamedTuple):
    """A gateway, and the port of another container that has its node."""

    edge: int
    core: int
    there: int
    gateway: Gateway

    def info(self, address: str, hostname: str = "127.0.0.1") -> dict[Symbol, Any]:
        """The error that a client gets."""
        place = {"hostname": hostname, "network-host": "127.0.0.1", "port": Uint(self.there), "address": address}
        return {Symbol(key): value for key, value in place.items()}


def policy_of(place: dict[str, int], name: str = "gw-redirect") -> str:
    return POLICY.format(name=name, **place)


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    """Two gateways: what has moved at the first is at the second, at q/…."""
    edge, core, http, there, core2, http2 = ports(6)
    env = {"SCOPEGATE_TEST_KEY": "k" * 43}
    second = {"edge": there, "core": core2, "http": http2, "there": edge}
    start_module_gateway(policy_of(second, "gw-there"), env=env)
    first = {"edge": edge, "core": core, "http": http, "there": there}
    return Place(edge, core, there, start_module_gateway(policy_of(first), env=env))


def refused(port: int, address: str, role: bool = SENDER) -> dict[str, Any]:
    """Attach; return the error of the detach that follows the answer."""
    peer = connected(port)
    end = "target" if role is SENDER else "source"
    peer.attach("refused", role, **{end: frames.source(address) if end == "source" else frames.target(address)})
    peer.expect("attach", **{end: None})
    return dict(peer.expect("detach", closed=True).error)


@pytest.mark.row("CORE-8", "CORE-2")
@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_an_attach_is_told_where_to_go_and_gets_there(place: Place, role: bool) -> None:
    error = refused(place.edge, "moved/orders", role)
    assert (error["condition"], error["info"]) == (REDIRECT, place.info("q/orders", "vhost"))
    assert type(error["info"][Symbol("port")]) is Uint
    reported = {str(key): value for key, value in error["info"].items()}
    peer = Peer(int(reported["port"]))
    peer.start(hostname=reported["hostname"])
    if role is SENDER:
        inbox = Inbox(place.there, "q/orders")
        outbox = Outbox(peer, reported["address"])
        outbox.credit()
        outbox.post(message(b"there"))
    else:
        inbox = Inbox(peer, reported["address"])
        outbox = Outbox(place.there, "q/orders")
        outbox.credit()
        outbox.post(message(b"there"))
    assert sections(inbox.take())["data"] == b"there"


@pytest.mark.row("CORE-8")
def test_the_address_is_the_same_there_unless_the_rule_says_another(place: Place) -> None:
    assert refused(place.edge, "kept/a/b")["info"] == place.info("kept/a/b")


def test_whoever_has_no_access_learns_nothing_of_the_place(place: Place) -> None:
    error = refused(place.edge, "denied/x")
    assert (error["condition"], error["info"]) == ("amqp:unauthorized-access", None)


def test_a_redirect_of_another_scope_is_nobodys_business_here(place: Place) -> None:
    """RA 1: neither side learns where things are on the other."""
    error = refused(place.edge, "beyond/x")
    assert (error["condition"], error["info"]) == ("amqp:not-found", None)
    assert str(place.there) not in str(error)


def test_a_response_to_an_address_that_is_redirected_is_not_found(place: Place) -> None:
    service, client = Inbox(place.core, "svc/x"), Outbox(place.edge, "svc/x")
    client.credit()
    client.post(message(reply_to="moved/answers", message_id="m"))
    asked = sections(service.take())["properties"]
    outbox = Outbox(place.core, asked["reply_to"])
    outcome = outbox.send_with_credit(message(correlation_id=asked["message_id"]))
    assert outcome.matches({"error": "amqp:not-found"})
    assert str(place.there) not in str(outcome)


@pytest.mark.row("CORE-8", "AT-2.2.2-1", "AT-2.2.2-2", "X-3")
def test_a_message_to_it_is_rejected_with_the_words_of_the_direct_link(place: Place) -> None:
    direct = refused(place.edge, "moved/orders")
    outbox = Outbox(place.edge, None)
    outbox.credit()
    outcome = outbox.send(message(to="moved/orders"), delivery_tag=b"\x01\x02")
    assert outcome.name == "rejected"
    error = dict(outcome["error"])
    info = dict(error.pop("info"))
    assert info.pop(Symbol("delivery-tag")) == b"\x01\x02"
    assert {**error, "info": info} == direct
    assert info == place.info("q/orders", "vhost")


@pytest.mark.row("CORE-8", "AT-2.2.2-5", "AT-2.2.2-6", "X-3")
@pytest.mark.row("AT-2.2.2-4", part="not in a transaction")
@pytest.mark.parametrize("settled", [True, False])
def test_whoever_cannot_hear_a_rejection_is_detached_with_them(place: Place, settled: bool) -> None:
    outbox = Outbox(place.edge, None, source=frames.source(outcomes=["amqp:accepted:list"]))
    outbox.credit()
    error = dict(outbox.fails(message(to="moved/orders"), settled=settled, delivery_tag=b"\x00\xff").error)
    info = dict(error.pop("info"))
    assert error["condition"] == REDIRECT
    assert info == {**place.info("q/orders", "vhost"), Symbol("delivery-tag"): b"\x00\xff"}


@pytest.mark.row("CORE-8")
@pytest.mark.parametrize("scope", ["core", "edge"])
@pytest.mark.parametrize("later", [False, True])
def test_a_container_that_redirects_is_followed_in_its_own_scope_only(
    start_gateway: Gateways, scope: str, later: bool
) -> None:
    """Clients of the connector's scope hear it whole, those of another that there is nothing for them."""
    info = {
        Symbol("hostname"): "h",
        Symbol("network-host"): "10.9.8.7",
        Symbol("port"): Uint(1),
        Symbol("address"): "a",
    }
    with Listener() as listener:
        far = Far(start_gateway, listener, ", replies: {address: gateway}").accept()
        peer = connected(far.core if scope == "core" else far.edge)
        peer.attach("sender-0", SENDER, target=frames.target("far/x"))
        attach = far.attach()
        handle = far.agree(attach, **({} if later else {"target": None}))
        far.peer.detach(handle, error=frames.error(REDIRECT, "go there", info))
        error = peer.until("detach", closed=True).error
        if scope == "core":
            assert (error["condition"], error["info"]) == (REDIRECT, info)
        else:
            assert (error["condition"], error["info"]) == ("amqp:not-found", None)
            assert "10.9.8.7" not in str(error)


@pytest.mark.parametrize("library", ["jms", "rhea"])
def test_stock_clients_say_what_they_were_told(place: Place, library: str) -> None:
    error = Foreign(library, place.edge).run("receive", "moved/orders").fail()
    assert "redirect" in str(error).lower()


def test_links_to_a_node_that_moves_are_told_where_to(start_gateway: Gateways) -> None:
    """How an operator moves clients: the rule becomes a redirect, and the policy is read again."""
    edge, core, http, there = ports(4)
    text = policy_of({"edge": edge, "core": core, "http": http, "there": there})
    now = f'{{match: "kept/**", redirect: "amqp://127.0.0.1:{there}"}}'
    old = text.replace(now, '{match: "kept/**", direct: balanced}')
    assert old != text
    gateway = start_gateway(old, env={"SCOPEGATE_TEST_KEY": "k" * 43})
    peer = connected(edge)
    peer.attach_receiver("kept/x")
    gateway.reload(text)
    detach = peer.until("detach", closed=True, error=REDIRECT)
    assert detach.error["info"][Symbol("network-host")] == "127.0.0.1"
    assert detach.error["info"][Symbol("port")] == there
