"""The states of a direct node: every event in every state is handled or refused, and a node is where the table says."""

from __future__ import annotations

from itertools import product

import pytest

from gateway.nodes.direct.multicast import Multicast
from gateway.nodes.direct.node import DirectNode
from gateway.nodes.direct.state import TRANSITIONS, Facts, NodeEvent, NodeState, next_state
from tests.support.amqp.direct import Wire

FACTS = [Facts(*each) for each in product((0, 1, 2), (True, False), (True, False), (True, False))]
REFUSED = {
    (NodeState.UNATTENDED, NodeEvent.MESSAGE_WAITS),
    (NodeState.UNATTENDED, NodeEvent.COOKIE_PENDING),
    (NodeState.SOLE, NodeEvent.LAST_LINK_LEFT),
    (NodeState.SHARED, NodeEvent.LAST_LINK_LEFT),
    (NodeState.CLOSED, NodeEvent.LAST_LINK_LEFT),
}


@pytest.mark.parametrize(("state", "event"), [*product(NodeState, NodeEvent)])
def test_every_event_in_every_state_is_handled_or_refused(state: NodeState, event: NodeEvent) -> None:
    for facts in FACTS:
        if (state, event) in REFUSED:
            with pytest.raises(RuntimeError, match=f"{state.name} has the event {event.name}"):
                next_state(state, event, facts)
        else:
            assert next_state(state, event, facts) in NodeState


def test_the_table_has_no_other_state_or_event() -> None:
    assert set(TRANSITIONS) == set(NodeState)
    assert all(set(row) == set(NodeEvent) for row in TRANSITIONS.values())


@pytest.mark.parametrize("facts", FACTS)
def test_only_one_receiver_of_everything_is_the_sole_one(facts: Facts) -> None:
    state = next_state(NodeState.SHARED, NodeEvent.SETTLED_DOWN, facts)
    assert (state is NodeState.SOLE) == (facts == Facts(1, True, False, False))
    assert (state is NodeState.HOLDING) == facts.holding
    assert next_state(NodeState.CLOSED, NodeEvent.SETTLED_DOWN, facts) is NodeState.CLOSED


def node(kind: type[DirectNode] = DirectNode) -> DirectNode:
    return kind("queue", lambda origin, target: None, unused=lambda _: None)


def attached(at: DirectNode, *, incoming: bool, where: str | None = None) -> Wire:
    link = Wire(incoming=incoming, where=where)
    at.attach(link)  # type: ignore[arg-type]
    return link


def test_a_node_goes_through_its_states() -> None:
    at = node()
    assert at.state is NodeState.UNATTENDED
    sender, receiver = attached(at, incoming=True), attached(at, incoming=False)
    assert at.state is NodeState.SOLE
    assert at.sole_receiver is not None
    assert at.sole_receiver.link is receiver  # type: ignore[comparison-overlap]
    sender.handler.on_transfer(1, b"waits", False)
    assert (at.state, at.sole_receiver) == (NodeState.SHARED, None)
    receiver.flow(2)
    assert (at.state, receiver.got) == (NodeState.SOLE, [b"waits"])
    other = attached(at, incoming=False)
    assert (at.state, at.sole_receiver) == (NodeState.SHARED, None)
    other.leave()
    assert at.state is NodeState.SOLE
    receiver.leave()
    assert (at.state, at.sole_receiver) == (NodeState.UNATTENDED, None)
    sender.leave()
    assert at.state is NodeState.CLOSED


@pytest.mark.parametrize(("kind", "where"), [(DirectNode, "subject = 'a'"), (Multicast, None)])
def test_a_receiver_with_a_filter_or_of_copies_is_not_the_sole_one(kind: type[DirectNode], where: str | None) -> None:
    at = node(kind)
    attached(at, incoming=False, where=where)
    assert (at.state, at.sole_receiver) == (NodeState.SHARED, None)


def test_a_removed_node_stays_closed_while_its_links_leave() -> None:
    at = node()
    links = [attached(at, incoming=True), attached(at, incoming=False), attached(at, incoming=False)]
    at.close()
    assert at.state is NodeState.CLOSED
    assert not any(link.open for link in links)
    at.close()
    assert at.state is NodeState.CLOSED
