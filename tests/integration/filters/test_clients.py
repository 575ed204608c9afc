"""Filters of unmodified clients at nodes that store nothing, and at the far end of a connector (FX 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from proton import Described as ProtonDescribed
from proton import Message, symbol
from proton.reactor import Filter, Selector

from gateway.amqp.codec.codec import Described, Symbol
from tests.support.amqp import frames
from tests.support.amqp.foreign import Foreign
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, Listener, Peer
from tests.support.amqp.proton_clients import Login, receive, send
from tests.support.gateway.crossing import Inbox, connected
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

POLICY = """
gateway: {{id: gw-filters, http: off, log: json}}
filters: {{unknown: refuse, max_tokens: 20}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "chat/**", direct: balanced}}
      - {{match: "news/**", direct: multicast}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
SQL = "amqp:sql-filter"


@pytest.fixture(scope="module")
def edge(start_module_gateway: Gateways) -> int:
    (port,) = ports(1)
    start_module_gateway(POLICY.format(edge=port))
    return port


class SqlFilter(Filter):
    """Proton's own way to give a filter it has no class for."""

    def __init__(self, text: str) -> None:
        super().__init__({symbol(SQL): ProtonDescribed(symbol(SQL), text)})


def numbered(count: int) -> list[Message]:
    return [Message(body=f"hello {n}", properties={"n": n}) for n in range(count)]


# -- the libraries


@pytest.mark.parametrize("options", [Selector("n BETWEEN 3 AND 4"), SqlFilter("n IN (3, 4)")], ids=["selector", "sql"])
def test_proton(edge: int, options: Filter) -> None:
    receiver = receive(Login(edge), "news/proton", 2, options=options).attached()
    outcomes = send(Login(edge), "news/proton", numbered(5)).finish()
    assert [each.name for each in outcomes] == ["accepted"] * 5
    assert [each.message.body for each in receiver.finish()] == ["hello 3", "hello 4"]


@pytest.mark.parametrize(
    ("library", "options"),
    [
        ("jms", {"selector": "n > 2 AND n < 7 AND JMSPriority = 4 AND JMSDeliveryMode = 'PERSISTENT'"}),
        ("rhea", {"selector": "n > 2 AND n < 7"}),
        ("rhea", {"sql": "a.n > 2 AND n < 7 AND h.priority = 4"}),
    ],
    ids=["jms", "rhea-selector", "rhea-sql"],
)
def test_foreign_clients(edge: int, library: str, options: dict[str, str]) -> None:
    client = Foreign(library, edge)
    running = client.run("receive", "news/foreign", count=2, **options).attached()
    sent = client.run("send", "news/foreign", count=5, body="hello {n}").finish()
    assert [each["outcome"] for each in sent] == ["accepted"] * 5
    assert [each["body"] for each in running.finish()] == ["hello 3", "hello 4"]


def test_a_jms_client_is_told_what_is_wrong_with_its_selector(edge: int) -> None:
    error = Foreign("jms", edge).run("receive", "news/foreign", selector="lower(x) = 1").fail()
    assert error["type"] == "InvalidSelectorException" or "line 1, column 6" in error["message"]


# -- the policy


def refused(port: int, kind: str, content: Any) -> dict[str, Any]:
    peer = connected(port)
    given = {Symbol("f"): Described(Symbol(kind), content)}
    peer.attach("refused", RECEIVER, source=frames.source("chat/x", filter=given))
    return dict(peer.until("detach", closed=True).error)


@pytest.mark.row("CORE-3")
def test_unknown_types_can_be_refused_by_policy(edge: int) -> None:
    error = refused(edge, "com.example:filter", 1)
    assert (error["condition"], error["info"]) == ("amqp:not-implemented", {"filter": "f"})


def test_limits_come_from_the_policy(edge: int) -> None:
    error = refused(edge, SQL, " OR ".join(["x"] * 11))
    assert (error["condition"], error["info"]) == ("amqp:resource-limit-exceeded", {"filter": "f"})
    assert "20" in error["description"]


# -- a container behind a connector


@pytest.fixture(scope="module")
def far(start_module_gateway: Gateways) -> Iterator[Far]:
    with Listener() as listener:
        yield Far(start_module_gateway, listener, "").accept("AMQP_EVENT_STREAMS_V1_0")


def relayed(far: Far, address: str, *, echoed: tuple[str, ...], **source: Any) -> tuple[Inbox, int]:
    """A client with two filters at a relay; the container echoes some of them. Returns its inbox, our handle there."""
    given = {Symbol(color): Described(Symbol(SQL), f"{color} = TRUE") for color in ("red", "big")}
    client = connected(far.edge)
    client.attach("relayed", RECEIVER, source=frames.source(address, filter=given))
    attach = far.attach()
    assert attach.source["filter"] == given
    kept = {name: value for name, value in given.items() if name in echoed}
    handle = far.agree(attach, source=frames.source(attach.source["address"], filter=kept or None, **source))
    answer = client.until("attach")
    assert answer.source["filter"] == given
    inbox = Inbox.__new__(Inbox)
    inbox.peer, inbox.handle, inbox.received = client, 0, 0
    return inbox, handle


def sized(red: bool, big: bool) -> bytes:
    return message(app={"red": red, "big": big})


MESSAGES = [sized(False, True), sized(True, False), sized(True, True)]


@pytest.mark.parametrize(
    ("echoed", "source", "taken", "outcome"),
    [
        ((), {}, [2], "modified"),
        (("red",), {}, [0, 2], "modified"),
        (("red", "big"), {}, [0, 1, 2], None),
        ((), {"distribution_mode": "copy"}, [2], "accepted"),
    ],
    ids=["none", "one", "both", "copies"],
)
def test_what_the_container_does_not_filter_is_filtered_here(
    far: Far, echoed: tuple[str, ...], source: dict[str, Any], taken: list[int], outcome: Any
) -> None:
    inbox, handle = relayed(far, f"far/{len(echoed)}-{len(source)}", echoed=echoed, **source)
    inbox.peer.flow(0, link_credit=3, delivery_count=0)
    far.peer.until("flow", link_credit=3)
    first = far.peer.transfer(MESSAGES[0], handle).last_delivery
    far.peer.transfer(MESSAGES[1], handle).transfer(MESSAGES[2], handle)
    assert [sections(inbox.take()) for _ in taken] == [sections(MESSAGES[n]) for n in taken]
    states = outcomes(far.peer, first, len(MESSAGES))
    for n, state in enumerate(states):
        assert state.name == ("accepted" if n in taken else outcome)
        assert n in taken or outcome == "accepted" or state["undeliverable_here"] is True
    inbox.peer.detach().until("detach")


def outcomes(peer: Peer, first: int, count: int) -> list[Any]:
    """The outcomes of deliveries that follow each other."""
    found: dict[int, Any] = {}
    while len(found) < count:
        frame = peer.until("disposition")
        found |= dict.fromkeys(range(frame.first, (frame.first if frame.last is None else frame.last) + 1), frame.state)
    return [found[first + n] for n in range(count)]


def test_a_drain_goes_past_what_is_not_wanted(far: Far) -> None:
    inbox, handle = relayed(far, "far/drained", echoed=())
    inbox.peer.flow(0, link_credit=2, delivery_count=0)
    far.peer.until("flow", link_credit=2)
    inbox.peer.flow(0, link_credit=2, delivery_count=0, drain=True)
    far.peer.until("flow", drain=True)
    far.peer.transfer(MESSAGES[0], handle)
    far.peer.until("disposition")  # of two at once the gateway asks again after the first, for one
    far.peer.transfer(MESSAGES[1], handle)
    asked = far.peer.until("flow", drain=True, link_credit=2)
    far.peer.transfer(MESSAGES[2], handle)
    assert sections(inbox.take()) == sections(MESSAGES[2])
    far.peer.flow(handle, delivery_count=asked.delivery_count + 2, link_credit=0, drain=True)
    assert inbox.peer.until("flow", drain=True, link_credit=0).delivery_count == 2


@pytest.mark.row("ES-5.1.1-2")
def test_offsets_of_an_event_log_over_there_are_carried_as_they_are(far: Far) -> None:
    """Neither read nor made here: of a form that is not ours, in the filter and with an event."""
    position = {Symbol("event-streams-offset"): Symbol("~9.x/A")}
    given = {Symbol("p"): Described(Symbol("amqp:event-streams-delivery-annotations-filter"), position)}
    client = connected(far.edge)
    client.attach("relayed", RECEIVER, source=frames.source("far/log", filter=given))
    attach = far.attach()
    assert attach.source["filter"] == given
    handle = far.agree(attach, source=frames.source(attach.source["address"], filter=given))
    assert client.until("attach").source["filter"] == given
    client.flow(0, link_credit=1, delivery_count=0)
    far.peer.until("flow", link_credit=1)
    far.peer.transfer(message(da={"event-streams-offset": Symbol("zz-10")}), handle)
    payload = client.until("transfer").payload
    assert sections(payload)["delivery_annotations"]["event-streams-offset"] == Symbol("zz-10")
    client.detach().until("detach")


def test_a_malformed_filter_that_the_container_does_not_know_is_refused_here(far: Far) -> None:
    client = connected(far.edge)
    wrong = {Symbol("f"): Described(Symbol(SQL), "red =")}
    client.attach("relayed", RECEIVER, source=frames.source("far/wrong", filter=wrong))
    attach = far.attach()
    far.agree(attach, source=frames.source(attach.source["address"]))
    assert client.until("attach").source is None
    assert client.until("detach", error="amqp:invalid-field").error["info"] == {"filter": "f"}
    far.peer.until("detach")
