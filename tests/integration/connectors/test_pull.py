"""Messages fetched from a queue behind a connector (`pull`), against a scripted container that sees every frame."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.amqp import frames
from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Listener
from tests.support.gateway.crossing import Inbox, connected, hop_annotations
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until

Fars = Callable[..., Far]


@pytest.fixture
def fars(start_gateway: Gateways) -> Iterator[Fars]:
    """A container that the gateway pulls from: `requests` to another scope, unless told otherwise."""
    with Listener() as listener:
        yield lambda to="in/1", **more: Far(start_gateway, listener, f", pull: [{entry(to, **more)}]")


def entry(to: str, **more: Any) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in {"from": "requests", "to": to, **more}.items()) + "}"


def accept_receiver(far: Far, address: str = "requests") -> tuple[Frame, int]:
    """Wait for the gateway's receiver and accept it; return its attach and our handle."""
    attach = far.attach()
    assert attach.role is RECEIVER
    assert attach.source["address"] == address
    return attach, far.agree(attach)


def credit(far: Far, attach: Frame) -> int:
    return int(far.peer.until("flow", handle=attach.handle).link_credit)


def outcome(far: Far) -> Any:
    """What the queue hears of its delivery."""
    frame = far.peer.until("disposition", role=RECEIVER)
    assert frame.first == far.peer.last_delivery
    return frame.state


def test_as_much_is_fetched_as_somebody_takes(fars: Fars) -> None:
    far = fars().accept()
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.edge, "q/1", credit=3)
    assert credit(far, attach) == 3
    sent = message(b"ask", to="requests", message_id="m", subject="s")
    far.peer.transfer(sent, handle)
    assert inbox.take() == sent
    assert outcome(far).matches("accepted")


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("accepted", {}),
        ("released", {}),
        ("rejected", {"error": frames.error("vendor:no", "not this")}),
        ("modified", {"delivery_failed": True, "undeliverable_here": True}),
    ],
)
def test_the_outcome_at_the_queue_is_that_of_the_far_side(fars: Fars, name: str, fields: dict[str, Any]) -> None:
    far = fars().accept()
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.edge, "q/1", credit=3)
    credit(far, attach)
    far.peer.transfer(message(b"ask"), handle)
    transfer = inbox.transfer()
    sender = connected(far.core)
    sender.attach("sender", SENDER, target=frames.target("far/x"))
    far.peer.expect("attach")  # the next frame: before the receiver has spoken, nothing has been said to the queue
    inbox.peer.disposition(transfer.delivery_id, frames.composite(name, **fields))
    state = outcome(far)
    assert state.matches(name)
    assert name != "rejected" or state["error"].matches("vendor:no")
    assert name != "modified" or state.matches(fields)


def test_the_policy_bounds_what_is_in_flight(fars: Fars) -> None:
    far = fars(credit=2).accept()
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.edge, "q/1", credit=100)
    assert credit(far, attach) == 2
    far.peer.transfer(message(b"0"), handle).transfer(message(b"1"), handle)
    first, _ = inbox.transfer(), inbox.transfer()
    inbox.peer.disposition(first.delivery_id, "accepted")
    flow = far.peer.until("flow", handle=attach.handle)
    assert (flow.delivery_count, flow.link_credit) == (2, 1)


def test_a_queue_that_is_not_there_is_asked_for_again(fars: Fars) -> None:
    far = fars().accept()
    far.refuse(far.attach())
    warning = far.gateway.wait_log("not pulling")
    assert (warning["source"], warning["to"]) == ("requests", "in/1")
    assert "amqp:not-implemented" in warning["detail"]
    attach, handle = accept_receiver(far)
    far.gateway.wait_log("pulling")
    inbox = Inbox(far.edge, "q/1")
    credit(far, attach)
    far.peer.transfer(message(b"late"), handle)
    assert sections(inbox.take())["data"] == b"late"
    assert far.gateway.metrics()['scopegate_pull_failures_total{connector="far"}'] == 1


def test_a_queue_that_is_taken_away_is_asked_for_again(fars: Fars) -> None:
    far = fars().accept()
    _, handle = accept_receiver(far)
    far.peer.detach(handle, error=frames.error("amqp:resource-deleted", "gone"))
    again, handle = accept_receiver(far)
    inbox = Inbox(far.edge, "q/1")
    credit(far, again)
    far.peer.transfer(message(b"back"), handle)
    assert sections(inbox.take())["data"] == b"back"


def test_readiness_says_what_is_not_pulled(fars: Fars) -> None:
    far = fars().accept()
    attach = far.attach()
    assert "not pulling from requests" in far.gateway.get("/readyz")[1]
    far.agree(attach)
    wait_until(lambda: "not pulling" not in far.gateway.get("/readyz")[1], "the pull to stand")


def test_after_a_lost_connection_the_pull_stands_again(fars: Fars) -> None:
    far = fars().accept()
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.edge, "q/1")
    credit(far, attach)
    far.peer.transfer(message(b"under way"), handle)
    transfer = inbox.transfer()
    far.peer.disconnect()
    far.accept()
    again, handle = accept_receiver(far)
    inbox.peer.disposition(transfer.delivery_id, "accepted")  # of a delivery whose connection is gone
    credit(far, again)
    far.peer.transfer(message(b"under way"), handle)
    assert sections(inbox.take())["data"] == b"under way"
    assert outcome(far).matches("accepted")


def test_what_a_receiver_leaves_behind_goes_back_to_the_queue(fars: Fars) -> None:
    far = fars("here/1").accept()
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.core, "here/1", credit=1)
    assert credit(far, attach) == 1
    far.peer.transfer(message(b"under way"), handle)
    inbox.transfer()
    inbox.peer.disconnect()
    assert outcome(far).matches({"delivery_failed": True})


def test_annotations_that_nobody_asked_for_cost_one_message_only(fars: Fars) -> None:
    far = fars("here/1").accept()
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.core, "here/1")
    credit(far, attach)
    annotated = message(b"no", da={"response-address-cookie": b"c", "response-link-target-address": "t"})
    far.peer.transfer(annotated, handle)
    assert outcome(far).matches({"error": "amqp:not-implemented"})
    far.peer.transfer(message(b"yes"), handle)
    assert sections(inbox.take())["data"] == b"yes"


def test_a_pulled_request_is_answered_at_the_container(fars: Fars) -> None:
    """The service is the gateway's own; its response goes to the reply-to, an address of the container's scope."""
    far = fars("echo").accept()
    attach, handle = accept_receiver(far)
    credit(far, attach)
    far.peer.transfer(message(b"ask", reply_to="far/temp-1", message_id="m"), handle)
    home = far.attach()
    assert home.target["address"] == "far/temp-1"
    far.take(home)
    got = far.transfer(home)
    assert sections(got)["data"] == b"ask"
    assert sections(got)["properties"]["correlation_id"] == "m"
    assert not hop_annotations(got)
    far.peer.disposition(0, "accepted")
    assert outcome(far).matches("accepted")


def test_a_reload_moves_a_pull_to_where_its_address_leads_now(fars: Fars) -> None:
    far = fars().accept()
    accept_receiver(far)
    policy = far.gateway.policy.read_text()
    far.gateway.reload(policy.replace('address: "q/{name}"', 'address: "q/moved-{name}"'))
    far.peer.until("detach")
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.edge, "q/moved-1")
    credit(far, attach)
    far.peer.transfer(message(b"moved"), handle)
    assert sections(inbox.take())["data"] == b"moved"


def test_a_reload_keeps_a_pull_whose_address_leads_where_it_did(fars: Fars) -> None:
    far = fars().accept()
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.edge, "q/1")
    policy = far.gateway.policy.read_text()
    assert far.gateway.reload(f"{policy}\n# nothing new\n")["links_closed"] == 0
    credit(far, attach)
    far.peer.transfer(message(b"still"), handle)
    assert sections(inbox.take())["data"] == b"still"
    assert far.gateway.metrics().get("scopegate_task_failures_total", 0) == 0


def test_the_end_waits_for_what_was_pulled(fars: Fars) -> None:
    far = fars().accept()
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.edge, "q/1")
    credit(far, attach)
    far.peer.transfer(message(b"under way"), handle)
    transfer = inbox.transfer()
    far.gateway.reload(far.gateway.policy.read_text().replace("drain: 1s", "drain: 10m"))  # however late it comes
    far.gateway.process.send_signal(signal.SIGTERM)
    far.gateway.wait_log("draining")
    inbox.peer.disposition(transfer.delivery_id, "accepted")
    assert outcome(far).matches("accepted")
    far.peer.until("close")
    far.peer.close()
    inbox.peer.close()
    assert far.gateway.process.wait() == 0


def test_pulled_messages_are_counted_where_they_go(fars: Fars) -> None:
    far = fars().accept()
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.edge, "q/1")
    credit(far, attach)
    far.peer.transfer(message(b"one"), handle)
    inbox.take()
    outcome(far)
    name = 'scopegate_deliveries_total{direction="in",rule="in/{name}",scope="core"}'
    assert far.gateway.metrics()[name] == 1


@pytest.mark.row("RA-1-1")
@pytest.mark.parametrize(
    ("to", "condition", "words"),
    [
        ("asked", "amqp:not-found", "the node behind this address does not exist"),
        ("echo", "amqp:precondition-failed", "the request has no reply-to"),
    ],
)
def test_the_container_does_not_hear_why_a_node_of_another_scope_refuses(
    fars: Fars, to: str, condition: str, words: str
) -> None:
    far = fars(to).accept()
    attach, handle = accept_receiver(far)
    credit(far, attach)
    far.peer.transfer(message(b"ask"), handle)
    error = outcome(far)["error"]
    assert (error["condition"], error["description"]) == (condition, words)


@pytest.mark.row("RA-1-1")
def test_the_container_does_not_hear_the_limit_of_a_receiver_in_another_scope(fars: Fars) -> None:
    far = fars().accept()
    attach, handle = accept_receiver(far)
    inbox = Inbox(far.edge, "q/1", max_message_size=64)
    credit(far, attach)
    far.peer.transfer(message(b"x" * 100), handle)
    error = outcome(far)["error"]
    assert error["description"] == "the node behind this address does not accept messages of this size"
    inbox.peer.close()
