"""A bridge from an event log behind a connector, against a scripted log that sees every frame (ES-E2E-14, KM-24)."""

from __future__ import annotations

import pytest

from gateway.amqp.codec.codec import Symbol
from gateway.amqp.codec.types import Array
from gateway.amqp.message.sections import HEADER, section
from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import SENDER, Listener
from tests.support.gateway.crossing import Inbox
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until
from tests.support.kafka.remote_log import (
    GROUP,
    PARTITION,
    STREAMS,
    Fars,
    accept_receiver,
    body,
    credit,
    event,
    moved,
    offset,
    outcome,
    position,
)

# -- what is desired and offered


@pytest.mark.row("ES-3.1-3", "X-9")
def test_a_log_that_offers_event_streams_is_asked_as_one(fars: Fars) -> None:
    far = fars(partition="'2'", start="earliest").accept(STREAMS)
    assert STREAMS in far.opened.desired_capabilities.items
    attach, _ = accept_receiver(far, properties={Symbol(PARTITION): Symbol("2")})
    assert attach.properties[PARTITION] == "2"
    assert position(attach) == "@earliest"
    assert attach.source["durable"] == 1
    assert attach.source["expiry_policy"] == "never"


@pytest.mark.row("ES-3.1-4", "X-9")
def test_without_event_streams_it_works_plainly(fars: Fars) -> None:
    far = fars(partition="'2'").accept()
    attach, handle = accept_receiver(far)
    assert not attach.properties
    assert position(attach) is None
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    far.peer.transfer(message(b"plain"), handle)
    assert sections(inbox.take())["data"] == b"plain"
    assert outcome(far).matches("accepted")


@pytest.mark.row("ES-3.1-4")
def test_a_policy_may_require_event_streams(start_gateway: Gateways) -> None:
    with Listener() as listener:
        far = Far(start_gateway, listener, ", require_event_streams: true")
        far.begin_open()
        close = far.peer.until("close")
        assert close.error.matches("amqp:not-implemented")
        assert STREAMS in close.error["description"]
        far.peer.close()
        assert STREAMS in far.gateway.wait_log("connector down")["detail"]
        wait_until(lambda: "does not offer it" in far.gateway.get("/readyz")[1], "the reason in /readyz")
        far.accept(STREAMS)


# -- what is moved


@pytest.mark.row("ES-4.6.4-3", "ES-4.6.5-3")
def test_what_the_log_said_of_an_event_is_left_behind(fars: Fars) -> None:
    far = fars().accept(STREAMS)
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    changed = {"event-streams-associated-partitions-changed": Array("symbol", (Symbol("0"), Symbol("1")))}
    kept = {"event-streams-group-key": "k"}
    far.peer.transfer(event(3, "0", da=changed, ma=kept, subject="s"), handle)
    assert inbox.take() == message(b"3", ma=kept, subject="s")
    assigned = {"event-streams-assigned-partitions-changed": Array("symbol", (Symbol("0"), Symbol("1")))}
    far.peer.transfer(event(4, "0", da={"mine": 1, **assigned}), handle)
    assert inbox.take() == message(b"4")


@pytest.mark.row("ES-4.6.4-3")
def test_it_is_left_behind_on_the_way_to_another_container_too(fars: Fars) -> None:
    far = fars(to="{connector: far, address: queue}").accept(STREAMS)
    target = far.attach()
    assert target.role is SENDER
    assert target.target["address"] == "queue"
    far.take(target, credit=5)
    attach, handle = accept_receiver(far)
    assert credit(far, attach) == 5
    far.peer.transfer(event(1, "0"), handle)
    assert far.transfer(target) == section(HEADER, [True]) + message(b"1"), "durable, as in the log that it comes from"
    far.peer.disposition(0, "accepted")
    assert outcome(far).matches("accepted")


def test_a_request_is_not_moved_to_a_target_that_does_not_take_its_annotations(fars: Fars) -> None:
    far = fars(to="{connector: far, address: queue}").accept(STREAMS)
    target = far.attach()
    far.take(target, credit=5)
    attach, handle = accept_receiver(far)
    credit(far, attach)
    far.peer.transfer(event(0, da={"response-address-cookie": b"c"}), handle)
    assert outcome(far)["error"].matches("amqp:not-implemented")
    far.peer.transfer(event(1), handle)
    assert body(far.transfer(target)) == 1, "and the next one is"


def test_partitions_are_kept_where_the_policy_says_so(fars: Fars) -> None:
    far = fars(to="{connector: far, address: other}", keep_partitions="true").accept(STREAMS)
    target = far.attach()
    far.take(target, credit=5)
    attach, handle = accept_receiver(far)
    credit(far, attach)
    far.peer.transfer(event(1, "7"), handle)
    assert sections(far.transfer(target))["delivery_annotations"] == {"event-streams-target-partition": "7"}


@pytest.mark.row("ES-5.1.2-4")
def test_events_are_moved_in_the_order_of_the_log_whatever_their_times(fars: Fars) -> None:
    far = fars().accept(STREAMS)
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    for number in range(10):
        far.peer.transfer(event(number, at=1_700_000_000_000 - number), handle)
    assert [body(inbox.take()) for _ in range(10)] == list(range(10))


def test_no_more_is_in_flight_than_the_policy_says(fars: Fars) -> None:
    far = fars(credit=2).accept(STREAMS)
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.core, "here/1", credit=100)
    assert credit(far, attach) == 2
    far.peer.transfer(event(0), handle).transfer(event(1), handle)
    first, _ = inbox.transfer(), inbox.transfer()
    inbox.peer.disposition(first.delivery_id, "accepted")
    flow = far.peer.until("flow", handle=attach.handle)
    assert (flow.delivery_count, flow.link_credit) == (2, 1)


@pytest.mark.parametrize("how", ["released", "modified"])
def test_what_the_target_gives_back_it_gets_again_before_what_follows(fars: Fars, how: str) -> None:
    """As often as it takes, and the log hears nothing of it: it would give the event up in the end."""
    far = fars().accept(STREAMS)
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.core, "here/1", credit=1)
    credit(far, attach)
    far.peer.transfer(event(0), handle)
    for turn in range(7):
        transfer = inbox.transfer()
        assert body(transfer.payload) == 0
        fields = {"delivery_failed": True} if how == "modified" else {}
        state = frames.composite(how, **fields) if turn < 6 else "accepted"
        inbox.peer.disposition(transfer.delivery_id, state)
        inbox.peer.flow(0, link_credit=1, delivery_count=turn + 1)
    assert outcome(far).matches("accepted")
    assert count(far, "repeated") == 6


def test_what_the_target_rejects_the_log_hears_of(fars: Fars) -> None:
    far = fars().accept(STREAMS)
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    far.peer.transfer(event(0), handle)
    inbox.take(frames.composite("rejected", error=frames.error("vendor:no", "not this")))
    assert outcome(far)["error"].matches("vendor:no")
    warning = far.gateway.wait_log("bridge dropped an event")
    assert (warning["bridge"], warning["offset"]) == ("b", offset(0))
    moved(far, attach, handle, inbox, 1)


def test_a_receiver_that_leaves_costs_nothing(fars: Fars) -> None:
    far = fars().accept(STREAMS)
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.core, "here/1", credit=2)
    credit(far, attach)
    far.peer.transfer(event(0), handle).transfer(event(1), handle)
    inbox.transfer()
    inbox.peer.disconnect()
    inbox = Inbox(far.core, "here/1")
    assert [body(inbox.take()) for _ in range(2)] == [0, 1]


# -- partitions


@pytest.mark.row("ES-4.4-3")
def test_an_event_of_another_partition_is_rejected(fars: Fars) -> None:
    far = fars(partition="'2'").accept(STREAMS)
    attach, handle = accept_receiver(far, properties={Symbol(PARTITION): Symbol("2")})
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    far.peer.transfer(event(0, "3"), handle)
    assert outcome(far)["error"].matches("amqp:invalid-field")
    far.peer.transfer(event(1, "2"), handle)
    assert body(inbox.take()) == 1
    assert outcome(far).matches("accepted")
    assert count(far, "misplaced") == 1


@pytest.mark.row("ES-4-14", "ES-4.5.1-6")
def test_a_link_that_is_closed_is_attached_anew_and_in_a_group_without_a_partition(fars: Fars) -> None:
    far = fars(group="g").accept(STREAMS)
    inbox = Inbox(far.core, "here/1")
    for partition in ("0", "1"):
        attach, handle = accept_receiver(far, properties={Symbol(PARTITION): Symbol(partition), Symbol(GROUP): "g"})
        assert attach.properties == {GROUP: "g"}
        credit(far, attach)
        far.peer.transfer(event(0, partition), handle)
        inbox.take()
        outcome(far)
        far.peer.detach(handle, error=frames.error("amqp:link:detach-forced", "dealt anew"))
        far.peer.until("detach", handle=attach.handle)
    assert "amqp:link:detach-forced" in far.gateway.wait_log("bridge link down", end="from")["detail"]
    accept_receiver(far)


# -- positions


def test_a_filter_that_the_log_does_not_know_is_applied_here(fars: Fars) -> None:
    far = fars(filter="\"properties.subject = 'yes'\"").accept(STREAMS)
    attach, handle = accept_receiver(far, source=frames.source("log"))
    assert "amqp:sql-filter" in attach.source["filter"]
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    far.peer.transfer(event(0, subject="no"), handle)
    assert outcome(far).matches("accepted")
    far.peer.transfer(event(1, subject="yes"), handle)
    assert body(inbox.take()) == 1
    assert count(far, "skipped") == 1


# -- what operators see


def test_a_log_cannot_have_any_name_stored_for_a_partition(fars: Fars) -> None:
    far = fars().accept(STREAMS)
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    moved(far, attach, handle, inbox, 0, 1)
    far.peer.transfer(event(2, "p" * 257), handle)
    detach = far.peer.until("detach", handle=attach.handle)
    assert not detach.closed, "the terminus there stays, and nothing is lost"
    assert "256 characters" in far.gateway.wait_log("bridge link down", end="from")["detail"]
    assert inbox.empty()


def test_what_operators_see(fars: Fars) -> None:
    far = fars().accept(STREAMS)
    attach = far.attach()
    wait_until(lambda: "not forwarding, from: not attached yet" in far.gateway.get("/readyz")[1], "what is missing")
    handle = far.agree(attach, source=frames.source("log"))
    wait_until(lambda: "forwarding from log at connector far to here/1" in far.gateway.get("/readyz")[1], "the bridge")
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    moved(far, attach, handle, inbox, 0, 1)
    metrics = far.gateway.metrics()
    assert count(far, "moved") == 2
    assert metrics['scopegate_bridge_up{bridge="b",scope="core"}'] == 1
    assert metrics['scopegate_bridge_held{bridge="b",scope="core"}'] == 0
    assert metrics['scopegate_bridge_delay_seconds{bridge="b",scope="core"}'] > 1000
    opened = far.gateway.wait_log("bridge link open", end="from")
    assert (opened["bridge"], opened["position"]) == ("b", "position kept here")


def count(far: Far, what: str) -> float:
    return far.gateway.metrics()[f'scopegate_bridge_events_total{{bridge="b",event="{what}",scope="core"}}']
