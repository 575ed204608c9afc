"""A reply-to requires a right of the requester: no request makes the gateway send where its requester may not (A1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gateway.amqp.sasl.user_file import make_entry, put_user
from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Listener, Peer
from tests.support.gateway.crossing import KEY, SUPPORTED, Inbox, Outbox, answer, connected, cookie_of
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.pairs import attach_half, paired_with
from tests.support.gateway.process import ports

POLICY = """
gateway: {{id: gw-who, http: "127.0.0.1:{http}", log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
kafka: {{main: {{bootstrap: embedded, topics: {{ledger: 1}}}}}}
scopes:
  edge:
    listen:
      - {{bind: "127.0.0.1:{edge}"}}
      - {{bind: "127.0.0.1:{named}", sasl: [plain], users: "{users}", allow_plain_without_tls: true}}
    addresses:
      - {{match: "svc/{{name}}", relay: core, address: "services/{{name}}"}}
      - {{match: "once/{{name}}", relay: core, address: "services/{{name}}", replies: {{uses: 1}}}}
      - {{match: "echo", relay: core, address: "echo"}}
      - {{match: "q/**", direct: balanced}}
      - {{match: "drop/**", direct: balanced}}
      - {{match: "private/**", direct: balanced}}
      - {{match: "ledger", kafka: main, topic: ledger}}
      - {{match: "readable", kafka: main, topic: ledger}}
      - {{match: "beyond", relay: core, address: log}}
    access:
      - {{who: "*", may: send, on: ["svc/*", "once/*", "echo", "drop/*"]}}
      - {{who: "*", may: receive, on: ["q/*", readable, beyond]}}
      - {{who: owner, may: [send, receive], on: "**"}}
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    addresses:
      - {{match: "services/**", direct: balanced}}
      - {{match: "echo", service: echo}}
      - {{match: "log", kafka: main, topic: ledger}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
REFUSED: Any = {"error": "amqp:unauthorized-access"}


class Place(NamedTuple):
    """A gateway; in `edge` all users may send requests, in `named` the owner has all rights."""

    edge: int
    named: int
    core: int
    gateway: Gateway

    def owner(self) -> Peer:
        """Return a connection of the owner's."""
        peer = Peer(self.named).sasl_plain("owner", "secret")
        peer.negotiate()
        return peer


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways, tmp_path_factory: pytest.TempPathFactory) -> Place:
    users: Path = tmp_path_factory.mktemp("users") / "users.yaml"
    users.write_text(put_user("", "owner", make_entry("secret", salt=b"salt of a test!!")))
    edge, named, core, http = ports(4)
    policy = POLICY.format(edge=edge, named=named, core=core, http=http, users=users)
    return Place(edge, named, core, start_module_gateway(policy, env={"SCOPEGATE_TEST_KEY": KEY}))


def asks(place: Place, way: str, name: str) -> Outbox:
    """A sender of requests to the service `name`, with credit, of one of the kinds that clients use."""
    peer = connected(place.edge)
    if way == "pair":
        peer.attach("p", SENDER, **attach_half(f"svc/{name}", SENDER))
        return paired_with(peer, f"svc/{name}").requests
    outbox = Outbox(peer, None if way == "anonymous" else f"{way}/{name}")
    outbox.credit()
    return outbox


@pytest.mark.row("X-10")
@pytest.mark.parametrize("capable", [True, False], ids=["annotated", "rewritten"])
@pytest.mark.parametrize("way", ["svc", "once", "anonymous", "pair"])
@pytest.mark.parametrize("reply_to", ["private/inbox", "ledger", "readable", "beyond", "nowhere/at/all"])
def test_a_reply_to_without_a_right_is_refused_at_the_request(
    place: Place, way: str, reply_to: str, capable: bool
) -> None:
    name = f"refused-{way}-{capable}-{reply_to.replace('/', '-')}"
    service = Inbox(place.core, f"services/{name}", capable=capable)
    client = asks(place, way, name)
    sent = message(b"mine", to=f"svc/{name}", reply_to=reply_to, message_id="m")
    outcome = client.send(sent)
    assert outcome.matches(REFUSED)
    assert outcome["error"]["description"].startswith(f"reply-to '{reply_to}': the requester must have the right")
    assert service.empty()


@pytest.mark.row("X-10")
@pytest.mark.parametrize("capable", [True, False], ids=["annotated", "rewritten"])
def test_the_target_of_a_previous_gateway_needs_the_right_too(place: Place, capable: bool) -> None:
    """The response goes to the address in the inner cookie, whatever the reply-to, so that address needs the right."""
    service = Inbox(place.core, f"services/inner-{capable}", capable=capable)
    client = Outbox(place.edge, f"svc/inner-{capable}")
    assert SUPPORTED in client.attach.target["capabilities"].items
    client.credit()
    annotations = {"response-address-cookie": b"any", "response-link-target-address": "private/inbox"}
    assert client.send(message(reply_to="q/1", da=annotations)).matches(REFUSED)
    assert service.empty()
    annotations["response-link-target-address"] = "q/1"
    client.post(message(reply_to="unknown/here", da=annotations))  # only the previous gateway can resolve this reply-to
    service.take()


def test_a_settled_request_without_a_right_ends_its_link(place: Place) -> None:
    service = Inbox(place.core, "services/settled")
    client = Outbox(place.edge, "svc/settled")
    client.credit()
    detach = client.fails(message(reply_to="private/inbox"), settled=True)
    assert detach.error.matches("amqp:unauthorized-access")
    assert service.empty()


@pytest.mark.parametrize("capable", [True, False], ids=["annotated", "rewritten"])
def test_the_right_of_one_user_is_not_that_of_another(place: Place, capable: bool) -> None:
    """Both send to one node, one after the other: the result for the owner must not be reused for the next user."""
    name = f"two-{capable}"
    service = Inbox(place.core, f"services/{name}", capable=capable)
    owner, anybody = Outbox(place.owner(), f"svc/{name}"), Outbox(place.edge, f"svc/{name}")
    sent = message(reply_to="private/inbox", message_id="m")
    owner.credit()
    anybody.credit()
    for _ in range(3):
        delivery = owner.post(sent)
        service.take()
        assert owner.outcome(delivery).matches("accepted")
        assert anybody.send(sent).matches(REFUSED)


def respond(place: Place, asked: bytes, capable: bool) -> Callable[[], Any]:
    """Send the response; the returned function waits for its outcome."""
    address = "$replies.core" if capable else sections(asked)["properties"]["reply_to"]
    replies = Outbox(place.core, address)
    replies.credit()
    delivery = replies.post(answer(cookie_of(asked), b"answer") if capable else message(b"answer"))
    return lambda: replies.outcome(delivery)


@pytest.mark.parametrize("capable", [True, False], ids=["annotated", "rewritten"])
def test_a_requester_may_be_answered_where_it_may_receive_or_send(place: Place, capable: bool) -> None:
    name = f"allowed-{capable}"
    service = Inbox(place.core, f"services/{name}", capable=capable)
    client = Outbox(place.edge, f"svc/{name}")
    client.credit()
    drop = Inbox(place.owner(), f"drop/{capable}")
    for address, inbox in ((f"q/{capable}", Inbox(place.edge, f"q/{capable}")), (f"drop/{capable}", drop)):
        client.post(message(reply_to=address, message_id="m"))
        asked = service.take()
        outcome = respond(place, asked, capable)
        assert sections(inbox.take())["data"] == b"answer"
        assert outcome().matches("accepted")


@pytest.mark.parametrize("capable", [True, False], ids=["annotated", "rewritten"])
def test_a_temporary_node_of_its_own_needs_no_right(place: Place, capable: bool) -> None:
    service = Inbox(place.core, f"services/temporary-{capable}", capable=capable)
    peer = connected(place.edge)
    answers = Inbox(peer, None, 0, source=frames.source(dynamic=True))
    client = Outbox(peer, f"svc/temporary-{capable}", 1)
    client.credit()
    client.post(message(reply_to=answers.attach.source["address"]))
    outcome = respond(place, service.take(), capable)
    assert sections(answers.take())["data"] == b"answer"
    assert outcome().matches("accepted")


def test_a_service_answers_only_where_its_requester_may_be_answered(place: Place) -> None:
    client = Outbox(place.edge, "echo")
    assert client.send_with_credit(message(b"x", reply_to="private/inbox")).matches(REFUSED)
    answers = Inbox(place.edge, "q/echo")
    delivery = client.post(message(b"x", reply_to="q/echo"))
    assert sections(answers.take())["data"] == b"x"
    assert client.outcome(delivery).matches("accepted")


def test_a_reload_takes_the_right_away(place: Place) -> None:
    service = Inbox(place.core, "services/reload", capable=True)
    client = Outbox(place.edge, "svc/reload")
    client.credit()
    client.post(message(reply_to="q/reload"))
    service.take()
    text = place.gateway.policy.read_text()
    less = text.replace('on: ["q/*", readable, beyond]', 'on: "other/*"')
    assert less != text
    place.gateway.reload(less)
    try:
        assert client.send(message(reply_to="q/reload")).matches(REFUSED)
    finally:
        place.gateway.reload(text)
    client.post(message(reply_to="q/reload"))
    service.take()


@pytest.fixture
def far(start_gateway: Gateways) -> Iterator[Far]:
    """A container behind a connector, from whose queue the gateway pulls requests for another scope.

    Everybody may send to and receive at `open/…`; nothing else is granted in the connector's scope.
    """
    with Listener() as listener:
        made = Far(start_gateway, listener, ", pull: [{from: requests, to: in/1}]", open='"open/**"')
        yield made.accept()


ANSWERED = {"here/x": False, "far/answers": True, "nowhere": False, "open/x": True}
"""Reply-tos of a container's messages, and whether responses may go there."""


def pulled(far: Far) -> int:
    """Accept the gateway's receiver at the queue; return our handle."""
    attach = far.attach()
    assert (attach.role, attach.source["address"]) == (RECEIVER, "requests")
    return far.agree(attach)


@pytest.mark.row("X-10")
@pytest.mark.parametrize("capable", [True, False], ids=["annotated", "rewritten"])
def test_a_pulled_request_is_answered_at_its_container_and_where_everybody_may(far: Far, capable: bool) -> None:
    """The author of a queued message is unknown, so responses to it must not reach a direct node of the scope."""
    inbox = Inbox(far.edge, "q/1", capable=capable)
    handle = pulled(far)
    far.peer.until("flow")
    for reply_to, allowed in ANSWERED.items():
        far.peer.transfer(message(b"ask", reply_to=reply_to, message_id="m"), handle)
        if allowed:
            inbox.take()
        state = far.peer.until("disposition", role=RECEIVER).state
        assert state.matches("accepted" if allowed else REFUSED), reply_to
    assert inbox.empty()


@pytest.mark.parametrize("capable", [True, False], ids=["annotated", "rewritten"])
def test_so_is_what_a_container_sends_to_a_receiver_of_another_scope(far: Far, capable: bool) -> None:
    pulled(far)
    target = frames.target("here", capabilities=[SUPPORTED] if capable else None)
    peer = connected(far.edge)
    peer.attach("r", RECEIVER, source=frames.source("far/x"), target=target)
    handle = far.agree(far.attach())
    peer.until("attach")
    inbox = Inbox.adopt(peer)
    peer.flow(0, link_credit=10, delivery_count=0)
    far.peer.until("flow")
    for reply_to, allowed in ANSWERED.items():
        far.peer.transfer(message(b"ask", reply_to=reply_to, message_id="m"), handle)
        if allowed:
            inbox.take()
        state = far.peer.until("disposition", role=RECEIVER).state
        assert state.matches("accepted" if allowed else REFUSED), reply_to


@pytest.mark.row("X-10")
def test_so_is_what_a_bridge_brings_from_a_container(start_gateway: Gateways) -> None:
    """The gateway itself forwards the event, and its own right to send is not a right of the event's author."""
    bridge = "{name: b, from: {connector: far, address: log}, to: in/1}"
    with Listener() as listener:
        far = Far(start_gateway, listener, "", bridge, open='"open/**"').accept()
        inbox = Inbox(far.edge, "q/1")
        attach = far.attach()
        handle = far.agree(attach)
        far.peer.until("flow", handle=attach.handle)
        for reply_to, allowed in ANSWERED.items():
            far.peer.transfer(message(b"event", reply_to=reply_to, message_id="m"), handle)
            if allowed:
                inbox.take()
            far.peer.until("disposition", role=RECEIVER)
        assert inbox.empty()


def test_what_needs_no_access_entry_asks_for_another_right(place: Place) -> None:
    """A reply address needs a cookie, the null target a right for each `to`, a temporary node its connection (A8)."""
    replies = Outbox(place.edge, "$replies.edge")
    assert replies.send_with_credit(message(b"no cookie")).matches(REFUSED)
    relay = Outbox(place.edge, None)
    assert relay.send_with_credit(message(to="private/inbox")).matches(REFUSED)
    mine = Inbox(place.edge, None, source=frames.source(dynamic=True))
    other = connected(place.edge)
    other.attach("r", RECEIVER, source=frames.source(mine.attach.source["address"]))
    assert other.until("detach").error.matches("amqp:not-allowed")


@pytest.mark.row("ES-6-10")
def test_whoever_may_send_or_receive_may_ask_for_info(place: Place) -> None:
    """The owner's entries do not mention `info`; other users have no right at the log (R11)."""
    info = Inbox(place.owner(), "ledger/$info")
    assert sections(info.take())
    other = connected(place.edge)
    other.attach("r", RECEIVER, source=frames.source("ledger/$info"))
    assert other.until("detach").error.matches("amqp:unauthorized-access")
