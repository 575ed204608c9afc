"""The tables of a relay through a connector and of its reply address: every event in every state has one meaning."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import product

import pytest

from gateway.connectors import relay_states, reply_states
from gateway.connectors.relay_states import RelayAction, RelayEvent, RelayState
from gateway.connectors.reply_states import ReplyAction, ReplyEvent, ReplyState

RELAY, REPLY = relay_states.TRANSITIONS, reply_states.TRANSITIONS
TABLES = [
    (RELAY, RelayState, RelayEvent, RelayAction, RelayState.ATTACHING),
    (REPLY, ReplyState, ReplyEvent, ReplyAction, ReplyState.DISCONNECTED),
]
Table = Mapping[tuple[Enum, Enum], tuple[Enum, Enum]]


@pytest.mark.parametrize(("table", "states", "events"), [each[:3] for each in TABLES])
def test_every_event_in_every_state_has_a_row(table: Table, states: type[Enum], events: type[Enum]) -> None:
    assert set(table) == set(product(states, events))


@pytest.mark.parametrize(("table", "states", "_events", "actions", "first"), TABLES)
def test_every_state_can_be_reached_and_every_action_is_taken(
    table: Table, states: type[Enum], _events: type[Enum], actions: type[Enum], first: Enum
) -> None:
    reached = {first}
    while more := {after for (before, _), (after, _) in table.items() if before in reached} - reached:
        reached |= more
    assert reached == set(states)
    assert {action for _, action in table.values()} == set(actions)


@pytest.mark.parametrize("event", RelayEvent)
def test_a_relay_that_has_ended_stays_ended(event: RelayEvent) -> None:
    """Only a remote link that was still asked for is attached after that, and goes at once."""
    late = RelayAction.DETACH_REMOTE if event is RelayEvent.ATTACHED else RelayAction.IGNORE
    assert RELAY[RelayState.ENDED, event] == (RelayState.ENDED, late)


def test_a_local_attach_is_answered_once() -> None:
    """It is accepted or refused where its relay leaves `ATTACHING`, or refused where the answer cannot be given."""
    answers = {RelayAction.ACCEPT_LOCAL, RelayAction.REFUSE_LOCAL}
    rows = {key: action for key, (_, action) in RELAY.items() if action in answers}
    late = (RelayState.OPEN, RelayEvent.UNANSWERABLE)
    assert rows.pop(late) is RelayAction.REFUSE_LOCAL
    assert {state for state, _ in rows} == {RelayState.ATTACHING}
    assert all(RELAY[key][0] is not RelayState.ATTACHING for key in rows)


def test_a_lost_connection_ends_no_relay() -> None:
    for state in RelayState:
        after, action = RELAY[state, RelayEvent.REMOTE_LOST]
        assert action is RelayAction.IGNORE
        assert (after is RelayState.ENDED) == (state is RelayState.ENDED)


@pytest.mark.parametrize("state", ReplyState)
def test_each_connection_asks_for_the_reply_address_anew(state: ReplyState) -> None:
    assert REPLY[state, ReplyEvent.CONNECTED] == (ReplyState.UNUSED, ReplyAction.RESET)
    assert REPLY[state, ReplyEvent.DISCONNECTED] == (ReplyState.DISCONNECTED, ReplyAction.RESET)


@pytest.mark.parametrize("state", ReplyState)
def test_requests_go_at_once_where_an_address_is_in_force(state: ReplyState) -> None:
    known = {ReplyState.KNOWN, ReplyState.LOST, ReplyState.REATTACHING}
    assert (REPLY[state, ReplyEvent.NEEDED][1] is ReplyAction.ANSWER) == (state in known)


def test_one_link_at_a_time_is_asked_for() -> None:
    """A pause that began before the connection was lost must not ask for a second link on the next one."""
    asked = {state for state, step in ((key[0], step) for key, step in REPLY.items()) if step[1] is ReplyAction.ATTACH}
    assert asked == {ReplyState.UNUSED, ReplyState.REFUSED, ReplyState.LOST}
