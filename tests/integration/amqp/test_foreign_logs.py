"""What a peer hears of an event log in another scope that refuses it: the condition, and no word more (RA 1).

The same links and messages in the scope of the log hear the words, which would tell others how the log is set up.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.codec import Symbol
from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER
from tests.support.gateway.crossing import Outbox, connected
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.transactions.controller import Controller, in_transaction

PARTITION, GROUP = Symbol("event-streams-partition"), Symbol("event-streams-consumer-group")
TARGETED = {Symbol("event-streams-target-partition"): Symbol("9")}


class Place:
    """A gateway whose scope `edge` shows event logs of `core` under their own addresses."""

    def __init__(self, gateways: Gateways) -> None:
        document = Document()
        document.kafka("embedded", topics={"orders": 2})
        log: dict[str, Any] = {"kafka": "main", "topic": "orders"}
        core = document.add_scope(
            "core",
            {"match": "log/bound", **log, "binding": "client"},
            {"match": "log/events", **log, "mode": "cloudevents"},
            {"match": "log/grouped", **log, "groups": ["one"]},
            {"match": "log/missing", "kafka": "main", "topic": "missing"},
            {"match": "log/plain", **log},
        )
        document.scope("edge")["addresses"] = [{"match": "log/**", "relay": "core", "replies": "none"}]
        self.gateway: Gateway = gateways(document.text)
        self.ports = {"edge": document.edge, "core": core}


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return Place(start_module_gateway)


def assert_told(error: Any, scope: str, condition: str, words: str, elsewhere: str) -> None:
    assert error["condition"] == condition
    if scope == "core":
        assert words in error["description"]
    else:
        assert error["description"] == f"the node behind this address {elsewhere}"
        assert set(error["info"] or ()) <= {"delivery-tag"}


LINKS: dict[str, tuple[dict[Any, Any], str, str, str]] = {
    "log/bound": ({}, "amqp:not-allowed", "links of this node have to name their partition", "does not permit this"),
    "log/missing": ({}, "amqp:not-found", "there is no event log behind this address", "does not exist"),
    "log/plain": ({PARTITION: Symbol("9")}, "amqp:not-found", "only 0 to 1", "does not exist"),
    "log/grouped": ({GROUP: "two"}, "amqp:not-found", "there is no consumer group", "does not exist"),
}


@pytest.mark.row("RA-1-1")
@pytest.mark.parametrize("scope", ["edge", "core"])
@pytest.mark.parametrize("address", LINKS)
def test_a_link_that_a_log_refuses(place: Place, scope: str, address: str) -> None:
    properties, condition, words, elsewhere = LINKS[address]
    peer = connected(place.ports[scope])
    peer.attach("link", RECEIVER, source=frames.source(address), properties=properties or None)
    assert_told(peer.until("detach", closed=True).error, scope, condition, words, elsewhere)


@pytest.mark.row("RA-1-1", "AT-2.2-2", "AT-2.2.2-2")
@pytest.mark.parametrize("scope", ["edge", "core"])
@pytest.mark.parametrize("anonymous", [False, True])
@pytest.mark.parametrize("transacted", [False, True])
def test_a_message_that_a_log_refuses(place: Place, scope: str, anonymous: bool, transacted: bool) -> None:
    peer = connected(place.ports[scope])
    state = in_transaction(Controller(peer).declare()) if transacted else None
    sender = Outbox(peer, None if anonymous else "log/events", 1 if transacted else 0)
    sender.credit()
    outcome = sender.send(message(to="log/events"), state=state)
    error = (outcome["outcome"] if transacted else outcome)["error"]
    assert_told(error, scope, "amqp:invalid-field", "accepts only CloudEvents", "has refused this")
    assert set(error["info"]) == {"delivery-tag"}


@pytest.mark.row("RA-1-1")
@pytest.mark.parametrize("anonymous", [False, True])
def test_a_settled_message_that_a_log_refuses_ends_the_link(place: Place, anonymous: bool) -> None:
    sender = Outbox(place.ports["edge"], None if anonymous else "log/events")
    sender.credit()
    error = sender.fails(message(to="log/events"), settled=True).error
    assert_told(error, "edge", "amqp:invalid-field", "", "has refused this")


@pytest.mark.row("RA-1-1")
def test_the_log_of_the_gateway_has_the_words(place: Place) -> None:
    before = len(place.gateway.log())
    peer = connected(place.ports["edge"])
    peer.attach("link", RECEIVER, source=frames.source("log/bound"))
    peer.until("detach", closed=True)
    line = place.gateway.wait_log("link refused", after=before, address="log/bound")
    assert "links of this node have to name their partition" in line["description"]
