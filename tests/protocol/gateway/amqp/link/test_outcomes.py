"""Settlement, outcomes, drain and windows on the wire; receivers side by side (2.5.6, 2.6.7, 2.6.12, 3.4)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.codec import Described, Symbol, Ulong
from tests.protocol.conftest import Served
from tests.support.amqp.frames import composite, error, source, target
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer


def test_a_settled_message_passes_settled(served: Served) -> None:
    sender, receiver = served.pair("chat/settled")
    with sender, receiver:
        sender.transfer(message(), settled=True)
        assert receiver.expect("transfer").settled is True


def test_modes_of_an_attach_are_answered_as_asked(served: Served) -> None:
    with served.peer() as peer:
        assert peer.attach_sender("chat/modes", snd_settle_mode=1).snd_settle_mode == 1
        assert peer.attach_receiver("chat/modes", 1, snd_settle_mode=1).snd_settle_mode == 1


def test_a_receiver_that_asks_for_settled_messages_gets_them_settled(served: Served) -> None:
    with served.peer() as receiver, served.peer() as sender:
        receiver.attach_receiver("chat/asks", snd_settle_mode=1)
        receiver.flow(0, link_credit=1)
        sender.attach_sender("chat/asks")
        sender.until("flow")
        sender.transfer(message())
        assert receiver.expect("transfer").settled is True
        sender.until("disposition", settled=True, state="accepted")  # unmodified clients wait for a state


def test_settling_second_is_answered_with_our_settlement(served: Served) -> None:
    """2.6.12, rcv-settle-mode second: the receiver states the outcome, the sender settles, then the receiver."""
    with served.peer() as receiver, served.peer() as sender:
        receiver.attach_receiver("chat/second", rcv_settle_mode=1)
        receiver.flow(0, link_credit=1)
        sender.attach_sender("chat/second", rcv_settle_mode=1)
        sender.until("flow")
        sender.transfer(message())
        receiver.expect("transfer")
        receiver.disposition(0, "accepted", settled=False)
        assert receiver.expect("disposition", role=False, first=0).settled is True
        sender.expect("disposition", role=True, first=0, state="accepted")


OUTCOMES = {
    "accepted": composite("accepted"),
    "released": composite("released"),
    "rejected": composite("rejected"),
    "rejected with an error": composite(
        "rejected", error=error("vendor:no", "not today", {Symbol("why"): "because", Symbol("n"): 5})
    ),
    "modified": composite("modified"),
    "modified with annotations": composite(
        "modified",
        delivery_failed=True,
        undeliverable_here=True,
        message_annotations={Symbol("x-opt-a"): [1, b"\x00"], Symbol("x-opt-b"): "b"},
    ),
}


@pytest.mark.parametrize("address", ["chat/outcomes", "svc/outcomes"], ids=["direct", "relay"])
@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
def test_outcomes_pass_unchanged(served: Served, outcome: Described, address: str) -> None:
    with Peer(served.core if address.startswith("svc") else served.edge) as receiver, served.peer() as sender:
        receiver.start()
        receiver.attach_receiver(address.replace("svc", "services"))
        receiver.flow(0, link_credit=1)
        sender.attach_sender(address)
        sender.until("flow")
        sender.transfer(message())
        transfer = receiver.expect("transfer")
        receiver.disposition(transfer.delivery_id, outcome)
        state = sender.expect("disposition", first=0, settled=True).state
    assert state.name == OUTCOME_NAMES[int(outcome.descriptor)]
    given = list(state.values())
    expected = [*outcome.value, *[None] * (len(given) - len(outcome.value))]
    if address.startswith("svc") and outcome is OUTCOMES["rejected with an error"]:  # of another scope, the condition
        assert plain(given[0]) == ["vendor:no", "the node behind this address has refused this", None]
        return
    if address.startswith("svc") and outcome is OUTCOMES["modified with annotations"]:
        expected[2] = None
    assert [plain(a) for a in given] == [plain(b) for b in expected]


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
def test_what_is_settled_without_an_outcome_has_the_default_of_its_source(served: Served, outcome: Described) -> None:
    """3.5.3: default-outcome (KM-12), which proton does not decode."""
    with served.peer() as receiver, served.peer() as sender:
        receiver.attach_receiver("chat/default", source=source("chat/default", default_outcome=outcome))
        receiver.flow(0, link_credit=1)
        sender.attach_sender("chat/default")
        sender.until("flow")
        sender.transfer(message())
        receiver.disposition(receiver.expect("transfer").delivery_id, None)
        state = sender.expect("disposition", first=0, settled=True).state
    assert state.name == OUTCOME_NAMES[int(outcome.descriptor)]
    given = list(state.values())
    expected = [*outcome.value, *[None] * (len(given) - len(outcome.value))]
    assert [plain(a) for a in given] == [plain(b) for b in expected]


RECEIVED = composite("received", section_number=0, section_offset=0)


def test_what_is_settled_in_a_state_that_is_no_outcome_is_modified(served: Served) -> None:
    """It may have been processed or not, as where the receiver leaves (3.4): settled alone would say "done with"."""
    sender, receiver = served.pair("chat/received")
    with sender, receiver:
        sender.transfer(message())
        receiver.disposition(receiver.expect("transfer").delivery_id, RECEIVED)
        state = sender.expect("disposition", first=0, settled=True, state="modified").state
        assert state["delivery_failed"] is True


def test_the_default_of_a_source_is_also_for_states_that_are_no_outcomes(served: Served) -> None:
    """3.5.3: for what has not reached a terminal state when it is settled."""
    with served.peer() as receiver, served.peer() as sender:
        receiver.attach_receiver("chat/default", source=source("chat/default", default_outcome=composite("released")))
        receiver.flow(0, link_credit=1)
        sender.attach_sender("chat/default")
        sender.until("flow")
        sender.transfer(message())
        receiver.disposition(receiver.expect("transfer").delivery_id, RECEIVED)
        sender.expect("disposition", first=0, settled=True, state="released")


OUTCOME_NAMES = {0x24: "accepted", 0x25: "rejected", 0x26: "released", 0x27: "modified"}


def plain(value: Any) -> Any:
    """A value to compare: absent and false are one, and an error is its fields."""
    if isinstance(value, Described):
        return [plain(item) for item in value.value]
    if isinstance(value, dict) and hasattr(value, "name"):
        return [plain(item) for item in value.values()]
    return value or None


@pytest.mark.parametrize("address", ["chat/late", "svc/late"], ids=["direct", "relay"])
def test_nothing_is_settled_before_the_far_side_settled(served: Served, address: str) -> None:
    with Peer(served.core if address.startswith("svc") else served.edge) as receiver, served.peer() as sender:
        receiver.start()
        receiver.attach_receiver(address.replace("svc", "services"))
        receiver.flow(0, link_credit=5)
        sender.attach_sender(address)
        sender.until("flow")
        for _ in range(3):
            sender.transfer(message())
            receiver.expect("transfer")
        receiver.disposition(1, "accepted")
        sender.expect("disposition", first=1, state="accepted")  # nothing came for 0, and none for 2
        receiver.disposition(2, composite("received", section_number=0, section_offset=0), settled=False)
        receiver.disposition(0, "released")
        sender.expect("disposition", first=0, state="released")


@pytest.mark.parametrize("leave", [Peer.disconnect, Peer.detach, Peer.end, Peer.close])
def test_messages_whose_receiver_leaves_are_modified(served: Served, leave: Any) -> None:
    """It had them and said nothing: they may have been processed (3.4.5, delivery-failed)."""
    sender, receiver = served.pair("chat/leaves")
    with sender, receiver:
        sender.transfer(message())
        receiver.expect("transfer")
        leave(receiver)
        state = sender.expect("disposition", first=0, settled=True, state="modified").state
        assert state["delivery_failed"] is True


# -- drain


def test_a_receiver_that_drains_gets_its_credit_back(served: Served) -> None:
    with served.peer() as receiver:
        receiver.attach_receiver("chat/drain")
        receiver.flow(0, link_credit=10, drain=True)
        flow = receiver.expect("flow", handle=0, link_credit=0)
        assert flow.delivery_count == 10
        receiver.flow(0, delivery_count=10, link_credit=0, echo=True)


def test_a_drain_lets_pass_what_waits(served: Served) -> None:
    sender, receiver = served.pair("chat/drain-some", credit=2)
    with sender, receiver:
        sender.transfer(message(b"one"))
        sender.transfer(message(b"two"))
        receiver.expect("transfer")
        receiver.expect("transfer")
        receiver.flow(0, delivery_count=2, link_credit=5, drain=True)
        flow = receiver.until("flow", handle=0, link_credit=0)
        assert flow.delivery_count == 7


def test_credit_that_an_idle_sender_leaves_is_used_before_a_drain(served: Served) -> None:
    """Found as C18: one of three messages came, then the credit went back while two waited for it."""
    with served.peer() as receiver, served.peer() as idle, served.peer() as busy:
        receiver.attach_receiver("chat/idle")
        idle.attach_sender("chat/idle")
        busy.attach_sender("chat/idle")
        receiver.flow(0, link_credit=3)
        for number in range(3):
            busy.until("flow")
            busy.transfer(message(b"%d" % number))
            assert receiver.expect("transfer").payload == message(b"%d" % number)
        receiver.flow(0, delivery_count=3, link_credit=1, drain=True)
        assert receiver.until("flow", link_credit=0).delivery_count == 4


# -- senders side by side


def test_what_fifty_senders_sent_settled_within_their_credit_arrives(served: Served) -> None:
    """Found as C8: 50 senders share a credit of 10, each sends one message and closes before there is more."""
    with served.peer() as receiver, served.peer() as sender:
        receiver.attach_receiver("chat/fifty")
        for handle in range(50):
            sender.attach_sender("chat/fifty", handle)
        receiver.flow(0, link_credit=10)
        for _ in range(50):
            sender.expect("flow")
        sent = {message(b"%d" % handle) for handle in range(50)}
        for handle in range(50):
            sender.transfer(message(b"%d" % handle), handle, settled=True).detach(handle)
        for _ in range(50):
            sender.until("detach")
        came = {bytes(receiver.expect("transfer").payload) for _ in range(10)}
        receiver.flow(0, delivery_count=10, link_credit=100)
        came |= {bytes(receiver.expect("transfer").payload) for _ in range(40)}
        assert came == sent


# -- receivers side by side


def test_a_receiver_that_takes_nothing_slows_no_other_address(served: Served) -> None:
    """One connection does not read at all; another address passes 200 messages meanwhile."""
    slow_sender, stuck = served.pair("chat/stuck", credit=2000)
    sender, receiver = served.pair("chat/quick", credit=500)
    with slow_sender, stuck, sender, receiver:
        for _ in range(300):
            slow_sender.transfer(b"x" * 15_000, settled=True)
        for number in range(200):
            sender.transfer(message(b"%d" % number))
            assert receiver.expect("transfer").payload == message(b"%d" % number)
            receiver.disposition(number, "accepted")
            sender.until("disposition", first=number)


@pytest.mark.parametrize("window", [1, 3])
def test_the_sessions_window_is_honoured(served: Served, window: int) -> None:
    with served.peer() as sender, Peer(served.edge) as receiver:
        receiver.sasl_anonymous()
        receiver.send_raw(b"AMQP\x00\x01\x00\x00").expect_header()
        receiver.open().expect("open")
        receiver.begin(incoming_window=window).expect("begin")
        receiver.attach_receiver("chat/window")
        receiver.flow(0, link_credit=100, incoming_window=window)
        sender.attach_sender("chat/window")
        sender.until("flow")
        for number in range(10):
            sender.transfer(message(b"%d" % number))
        got = 0
        while got < 10:
            for _ in range(min(window, 10 - got)):
                assert receiver.expect("transfer").payload == message(b"%d" % got)
                got += 1
            with pytest.raises(AssertionError, match="nothing within"):
                receiver.receive(0.05)
            receiver.flow(incoming_window=window)


def test_a_source_and_a_target_are_echoed(served: Served) -> None:
    with served.peer() as peer:
        answer = peer.attach_sender("chat/echo", source=source("mine"), target=target("chat/echo", timeout=7))
        assert answer.source["address"] == "mine"
        assert answer.target["address"] == "chat/echo"
        assert peer.attach_receiver("chat/echo", 1, target=target("mine")).target["address"] == "mine"


def test_described_states_that_nobody_knows_count_as_settled(served: Served) -> None:
    sender, receiver = served.pair("chat/unknown-state")
    with sender, receiver:
        sender.transfer(message())
        receiver.expect("transfer")
        receiver.disposition(0, Described(Ulong(0x99), []))
        sender.expect("disposition", first=0, settled=True)
