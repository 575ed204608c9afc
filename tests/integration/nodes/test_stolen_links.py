"""One name, one link: the later attach wins, the earlier link is detached with that error (2.6.1; row CORE-7)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gateway.amqp.sasl.user_file import make_entry, put_user
from tests.support.amqp import frames
from tests.support.amqp.foreign import Foreign
from tests.support.amqp.links import connected
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports, wait_until

POLICY = """
gateway: {{id: gw-stolen, http: "127.0.0.1:{http}", log: json}}
kafka: {{main: {{bootstrap: embedded, topics: {{orders: 1}}}}}}
scopes:
  edge:
    listen:
      - {{bind: "127.0.0.1:{edge}"}}
      - bind: "127.0.0.1:{named}"
        sasl: [plain]
        users: "{users}"
        allow_plain_without_tls: true
        limits: {{user_links: 1}}
    connect: [{{name: away, to: "amqp://127.0.0.1:{away}"}}]
    addresses:
      - {{match: "away/**", relay: away, replies: none}}
      - {{match: "events/{{topic}}", kafka: main}}
      - {{match: "chat/**", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    addresses: [{{match: "chat/**", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
STOLEN = "amqp:link:stolen"
_numbers = itertools.count(1)


class Place(NamedTuple):
    """A gateway: two listeners of edge, `named` for users with one link each, and one of core."""

    edge: int
    named: int
    core: int
    gateway: Gateway


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways, tmp_path_factory: pytest.TempPathFactory) -> Place:
    users: Path = tmp_path_factory.mktemp("users") / "users.yaml"
    users.write_text(put_user("", "bob", make_entry("builder", salt=b"salt of a test!!")))
    edge, named, core, away, http = ports(5)
    policy = POLICY.format(edge=edge, named=named, core=core, away=away, http=http, users=users)
    return Place(edge, named, core, start_module_gateway(policy, ready=False))


def as_bob(place: Place, container: str) -> Peer:
    """A connection of the user bob."""
    peer = Peer(place.named)
    peer.sasl_plain("bob", "builder").negotiate(container_id=container)
    return peer


def get(sender: Peer, receiver: Peer, number: int) -> int:
    """Let one message through; return its delivery id at the receiver, still without an outcome."""
    receiver.flow(0, link_credit=1)
    sender.until("flow", handle=0)
    sender.transfer(message(b"%d" % number))
    transfer = receiver.until("transfer")
    assert transfer.payload == message(b"%d" % number)
    return int(transfer.delivery_id)


@pytest.mark.row("CORE-7")
def test_the_later_receiver_has_the_name_and_what_the_earlier_held_is_not_lost(place: Place) -> None:
    first, second = (connected(place.edge, container_id="c1") for _ in range(2))
    sender = connected(place.edge)
    sender.attach_sender("chat/stolen")
    first.attach_receiver("chat/stolen", name="l1")
    get(sender, first, 0)
    second.attach_receiver("chat/stolen", name="l1")
    first.expect("detach", handle=0, closed=True, error=STOLEN)
    assert sender.until("disposition", first=0).state.matches({"delivery_failed": True})
    second.disposition(get(sender, second, 1), "accepted")
    sender.until("disposition", first=1, state="accepted")
    first.detach()
    place.gateway.wait_log("link ended", condition=STOLEN, link="l1")
    first.attach_receiver("chat/stolen", name="l1")
    second.until("detach", handle=0, closed=True, error=STOLEN)


@pytest.mark.row("CORE-7")
@pytest.mark.parametrize("address", ["chat/sender", None, "events/orders"])
def test_the_later_sender_has_the_name(place: Place, address: str | None) -> None:
    first, second = (connected(place.edge, container_id="c1") for _ in range(2))
    first.attach_sender(address, name="l1")
    second.attach_sender(address, name="l1")
    first.until("detach", handle=0, closed=True, error=STOLEN)
    second.attach_sender(address, 1, name="other")
    assert second.detach(0).until("detach", handle=0, closed=True).error is None


@pytest.mark.row("CORE-7")
def test_another_session_of_one_connection_is_the_same_container(place: Place) -> None:
    peer = connected(place.edge, container_id="c1")
    peer.attach_receiver("chat/sessions", name="l1")
    peer.begin(1).expect("begin", remote_channel=1)
    peer.attach("l1", RECEIVER, channel=1, source=frames.source("chat/sessions"))
    got = sorted((peer.receive() for _ in range(2)), key=lambda frame: str(frame and frame.kind))
    assert [frame and (frame.kind, frame.channel) for frame in got] == [("attach", 1), ("detach", 0)]
    assert got[1] is not None
    assert got[1].error["condition"] == STOLEN


OTHERS: dict[str, dict[str, Any]] = {
    "container": {"container": "c2"},
    "name": {"name": "l2"},
    "direction": {"role": SENDER},
    "scope": {"scope": "core"},
    "user": {"scope": "named"},
}


@pytest.mark.row("CORE-7")
@pytest.mark.parametrize("differs", OTHERS)
def test_what_differs_is_another_link(place: Place, differs: str) -> None:
    other = {"container": "c1", "name": "l1", "role": RECEIVER, "scope": "edge", **OTHERS[differs]}
    holder = connected(place.edge, container_id="c1")
    holder.attach_receiver("chat/own", name="l1")
    container = other["container"]
    port = {"edge": place.edge, "core": place.core}.get(other["scope"])
    peer = as_bob(place, container) if port is None else connected(port, container_id=container)
    attach = peer.attach_sender if other["role"] is SENDER else peer.attach_receiver
    attach("chat/own", name=other["name"])
    assert holder.end().expect("end").error is None


def test_containers_without_an_id_have_their_links_each(place: Place) -> None:
    peers = [connected(place.edge, container_id="") for _ in range(2)]
    for peer in peers:
        peer.attach_receiver("chat/nameless", name="l1")
    for peer in peers:
        assert peer.end().expect("end").error is None


@pytest.mark.row("CORE-7")
def test_an_attach_that_still_waits_is_refused(place: Place) -> None:
    """Behind a connector whose container is away there is no answer to the first attach yet."""
    first, second = (connected(place.edge, container_id="c1") for _ in range(2))
    first.attach("l1", SENDER, target=frames.target("away/x"))
    place.gateway.wait_log("link attached", link="l1", address="away/x")
    second.attach("l1", SENDER, target=frames.target("away/x"))
    first.expect("attach", target=None)
    first.expect("detach", handle=0, closed=True, error=STOLEN)
    first.detach()
    second.expect("attach", target=None)
    second.expect("detach", error="amqp:link:detach-forced")
    assert first.end().expect("end").error is None


@pytest.mark.row("CORE-7")
def test_a_refused_or_ended_link_has_no_name_to_lose(place: Place) -> None:
    first, second = (connected(place.edge, container_id="c1") for _ in range(2))
    first.attach("l1", SENDER, target=frames.target("nowhere"))
    first.expect("attach", target=None)
    first.expect("detach", closed=True, error="amqp:not-found")
    first.attach_receiver("chat/ended", 1, name="l1")
    first.detach(1).until("detach", closed=True)
    second.attach_sender("chat/ended", 0, name="l1")
    second.attach_receiver("chat/ended", 1, name="l1")
    assert first.end().expect("end").error is None


def test_a_stolen_link_no_longer_counts_against_its_user(place: Place) -> None:
    """A client that comes back before its lost connection is noticed gets its one link."""
    first, second = (as_bob(place, "c1") for _ in range(2))
    first.attach_receiver("chat/bob", name="l1")
    second.attach_receiver("chat/bob", name="l1")
    first.expect("detach", error=STOLEN)


@pytest.mark.parametrize("library", ["jms", "rhea"])
def test_clients_of_one_library_do_not_take_each_others_links(place: Place, library: str) -> None:
    """Their libraries make container ids of their own: what nobody chose is not shared."""
    address = f"chat/{library}-{next(_numbers)}"  # no other test's: lines about links of theirs may come later
    client = Foreign(library, place.edge, alone=True)
    receivers = [client.run("receive", address, count=1).attached() for _ in range(2)]
    client.run("send", address, count=2).finish()
    for receiver in receivers:
        receiver.finish()

    def ended() -> list[dict[str, Any]]:
        return [line for line in place.gateway.log() if (line["event"], line.get("address")) == ("link ended", address)]

    wait_until(lambda: len(ended()) == 3, "the ends of two receivers and a sender")
    assert [line.get("condition") for line in ended()] == [None] * 3
