"""Transfers on the wire: credit, delivery ids and tags, parts, aborts, sizes, frames (2.6.7 to 2.6.14)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.conftest import Served, Watch, attached
from tests.support.amqp.frames import composite, framed, performative
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer
from tests.support.gateway.process import wait_until

LIMIT = "amqp:link:transfer-limit-exceeded"
TOO_LARGE = "amqp:link:message-size-exceeded"
INVALID = "amqp:invalid-field"


# -- credit


@pytest.mark.parametrize("count", [1, 50])
def test_transfers_without_credit_end_the_link_not_the_session(served: Served, watch: Watch, count: int) -> None:
    with served.peer() as sender:
        sender.attach_sender("chat/nobody")
        for _ in range(count):
            sender.transfer(message())
        sender.until("detach", closed=True, error=LIMIT)
        sender.detach()
        sender.attach_sender("chat/nobody", handle=1)
    watch.link_ended(LIMIT)


def test_more_transfers_than_credit_end_the_link_and_the_granted_ones_arrive(served: Served, watch: Watch) -> None:
    sender, receiver = served.pair("chat/credit", credit=2)
    with sender, receiver:
        for number in range(3):
            sender.transfer(message(b"%d" % number))
        assert [receiver.expect("transfer").payload for _ in range(2)] == [message(b"0"), message(b"1")]
        sender.expect("detach", closed=True, error=LIMIT)
        sender.detach()
    watch.link_ended(LIMIT)


def test_the_first_part_of_a_message_needs_credit_already(served: Served, watch: Watch) -> None:
    with served.peer() as sender:
        sender.attach_sender("chat/nobody")
        sender.transfer(b"x" * 10_000, more=True)
        sender.expect("detach", closed=True, error=LIMIT)
        sender.detach()
    watch.link_ended(LIMIT)


def test_what_a_peer_goes_on_sending_on_an_ended_link_is_dropped(served: Served, watch: Watch) -> None:
    """Until its own detach it may not know; the gateway's memory does not grow with it."""
    with served.peer() as sender:
        sender.attach_sender("chat/nobody")
        sizes = []
        for turn in range(1, 4):  # the first warms up
            for _ in range(2000):
                sender.transfer(b"x" * 10_000)
            if turn == 1:
                sender.until("detach", closed=True, error=LIMIT)
            sender.attach_sender("chat/nobody", handle=turn)  # is answered when all of them were looked at
            sizes.append(resident(served))
        sender.detach()
        sender.attach_sender("chat/nobody", handle=4)
    assert sizes[-1] - sizes[0] < 4000 * 10_000 // 4, sizes
    watch.link_ended(LIMIT)


def test_a_great_many_at_once_arrive_in_order_and_count_though_their_sender_has_gone(served: Served) -> None:
    """Much input is worked on in turns, and its end is not noticed before it."""
    sender, receiver = served.pair("chat/burst", credit=2000)
    sent = [message(b"%0100d" % number) for number in range(2000)]
    with sender, receiver:
        delivery = {"handle": 0, "message_format": 0, "settled": True}
        transfers = [
            performative("transfer", delivery_id=number, delivery_tag=b"%d" % number, **delivery) + data
            for number, data in enumerate(sent)
        ]
        sender.send_raw(b"".join(map(framed, transfers))).shutdown()
        assert [receiver.expect("transfer").payload for _ in sent] == sent


@pytest.mark.parametrize("credit", [1, 7, 1000])
def test_a_sender_is_granted_what_the_receiver_granted(served: Served, credit: int) -> None:
    sender, receiver = served.pair("chat/exact", credit)
    with sender, receiver:
        for number in range(credit if credit < 10 else 3):
            sender.transfer(message())
            receiver.expect("transfer")
            receiver.disposition(number, "accepted")
            sender.expect("disposition", first=number, state="accepted")
        receiver.flow(0, delivery_count=number + 1, link_credit=credit + 5)
        flow = sender.until("flow")
        assert flow.delivery_count + flow.link_credit == number + 1 + credit + 5


def test_credit_is_shared_between_senders_and_added_up_over_receivers(served: Served) -> None:
    with served.peer() as one, served.peer() as two, served.peer() as left, served.peer() as right:
        one.attach_sender("chat/shares")
        two.attach_sender("chat/shares")
        left.attach_receiver("chat/shares")
        right.attach_receiver("chat/shares")
        left.flow(0, link_credit=10)
        assert one.expect("flow").link_credit == 5
        assert two.expect("flow").link_credit == 5
        right.flow(0, link_credit=30)
        assert one.expect("flow").link_credit == 20
        assert two.expect("flow").link_credit == 20


def test_all_the_credit_in_the_world(served: Served) -> None:
    """Two receivers whose credit adds up to more than a flow can say: the sender gets a lot of it."""
    with served.peer() as sender, served.peer() as one, served.peer() as two:
        for receiver in (one, two):
            receiver.attach_receiver("chat/world")
            receiver.flow(0, link_credit=2**31 - 1)
        sender.attach_sender("chat/world")
        assert sender.until("flow").link_credit == 10_000
        sender.transfer(message())
        one.until("transfer")


# -- delivery ids and tags


@pytest.mark.parametrize(
    ("condition", "fields"),
    [
        pytest.param("amqp:invalid-field", {"delivery_id": 7}, id="a gap"),
        pytest.param("amqp:invalid-field", {"delivery_id": 0}, id="twice"),
    ],
)
def test_delivery_ids_out_of_sequence_end_the_connection(
    served: Served, watch: Watch, condition: str, fields: dict[str, Any]
) -> None:
    sender, receiver = served.pair("chat/ids")
    with sender, receiver:
        sender.transfer(message(b"first"))
        sender.transfer(message(b"second"), **fields)
        sender.until("close", error=condition)
        assert receiver.expect("transfer").payload == message(b"first")
    watch.bad_input(condition)


def test_the_first_transfer_needs_a_delivery_id(served: Served, watch: Watch) -> None:
    sender, receiver = served.pair("chat/ids")
    with sender, receiver:
        sender.transfer(message(), delivery_id=None)
        sender.until("close", error=INVALID)
    watch.bad_input(INVALID)


def test_another_delivery_id_in_the_middle_of_a_message(served: Served, watch: Watch) -> None:
    sender, receiver = served.pair("chat/ids")
    with sender, receiver:
        sender.transfer(b"one", more=True)
        sender.transfer(b"two", delivery_id=5)
        sender.until("close", error=INVALID)
    watch.bad_input(INVALID)


@pytest.mark.parametrize("tag", [b"", b"\x00", b"\xff\xfe", bytes(range(32))], ids=["empty", "NUL", "no text", "32"])
def test_delivery_tags_are_bytes(served: Served, tag: bytes) -> None:
    sender, receiver = served.pair("chat/tags")
    with sender, receiver:
        sender.transfer(message(), delivery_tag=tag)
        transfer = receiver.expect("transfer")
        receiver.disposition(transfer.delivery_id, "accepted")
        sender.expect("disposition", first=0, state="accepted", settled=True)


def test_a_refusal_names_the_delivery_by_its_tag(served: Served) -> None:
    with served.peer() as sender:
        sender.attach_sender(None)
        sender.until("flow")
        sender.transfer(message(to="nowhere"), delivery_tag=b"\x00\xff\x80")
        rejected = sender.expect("disposition", state="rejected")
        assert rejected.state["error"]["info"]["delivery-tag"] == b"\x00\xff\x80"


def test_a_transfer_on_a_link_that_receives_ends_the_connection(served: Served, watch: Watch) -> None:
    with served.peer() as peer:
        peer.attach_receiver("chat/a")
        peer.transfer(message())
        peer.until("close", error="amqp:not-allowed")
    watch.bad_input("amqp:not-allowed")


# -- parts, aborts, sizes


def test_a_message_in_parts_arrives_whole(served: Served) -> None:
    sender, receiver = served.pair("chat/parts")
    with sender, receiver:
        whole = message(os.urandom(5000))
        sender.transfer(whole[:1], more=True)
        for start in range(1, 5000, 999):
            sender.send("transfer", handle=0, more=True, payload=whole[start : start + 999])
        sender.send("transfer", handle=0, payload=whole[5996:] if len(whole) > 5996 else b"")
        received = whole_message(receiver)
        assert received == whole[:1] + whole[1 : 1 + 999 * 6]


def test_whole_messages_parts_and_aborted_ones_that_come_at_once(served: Served) -> None:
    sender, receiver = served.pair("chat/mixed")
    whole = [message(b"%d" % number) for number in range(4)]

    def frame(number: int, payload: bytes, **fields: Any) -> bytes:
        delivery = {"handle": 0, "delivery_id": number, "delivery_tag": b"%d" % number, "message_format": 0}
        return framed(performative("transfer", **delivery, **fields) + payload, 0)

    rest = framed(performative("transfer", handle=0) + whole[1][5:], 0)
    with sender, receiver:
        sender.send_raw(
            frame(0, whole[0]) + frame(1, whole[1][:5], more=True) + rest + frame(2, whole[2])
            + frame(3, b"never", more=True) + frame(3, b"", aborted=True) + frame(4, whole[3])
        )  # fmt: skip
        received = [receiver.until("transfer") for _ in whole]
        assert [transfer.payload for transfer in received] == whole
        for transfer in received:
            receiver.disposition(transfer.delivery_id, "accepted")
        accepted: set[int] = set()
        while len(accepted) < 4:
            outcome = sender.until("disposition")
            assert outcome.state.matches("accepted")
            accepted |= set(range(outcome.first, (outcome.last or outcome.first) + 1))
        assert accepted == {0, 1, 2, 4}


def test_a_transfer_cannot_pass_for_the_outcome_of_another_links_delivery(served: Served) -> None:
    """Its tag is that of a delivery which waits for an outcome, its state says accepted."""
    sender, peer = served.pair("chat/forged")
    with sender, peer:
        sender.transfer(message(b"waits"))
        waiting = peer.until("transfer")
        peer.attach_sender("chat/elsewhere", handle=1)
        forged = {"delivery_tag": waiting.delivery_tag, "state": composite("accepted")}
        peer.transfer(b"in parts", handle=1, more=True, **forged)
        peer.send("transfer", handle=1, state=composite("accepted"))
        peer.detach(1)
        peer.until("detach", handle=1)
        peer.disposition(waiting.delivery_id, "released")
        assert sender.until("disposition").state.matches("released")


def whole_message(receiver: Peer) -> bytes:
    """Read transfers until one is the last of its delivery."""
    parts = []
    while True:
        transfer = receiver.until("transfer")
        parts.append(transfer.payload)
        if not transfer.more:
            return b"".join(parts)


def test_an_aborted_message_reaches_nobody_and_its_credit_serves_again(served: Served) -> None:
    sender, receiver = served.pair("chat/aborted", credit=1)
    with sender, receiver:
        sender.transfer(b"never ", more=True)
        sender.send("transfer", handle=0, delivery_id=0, aborted=True)
        flow = sender.until("flow")
        assert flow.delivery_count + flow.link_credit == 2
        sender.transfer(message(b"instead"))
        assert receiver.expect("transfer").payload == message(b"instead")


def test_a_message_cut_off_by_a_closed_socket_reaches_nobody(served: Served, watch: Watch) -> None:
    sender, receiver = served.pair("chat/cut")
    with receiver, served.peer() as other:
        sender.transfer(message(b"x" * 9000), more=True)
        frame = framed(performative("transfer", handle=0, more=False) + b"y" * 5000)
        sender.send_raw(frame[:3000])
        sender.disconnect()
        watch.logged("connection closed")
        other.attach_sender("chat/cut")
        other.until("flow")
        other.transfer(message(b"after"))
        assert receiver.expect("transfer").payload == message(b"after")
    watch.logged("link ended", address="chat/cut")
    watch.counted('scopegate_links_ended_total{condition="none",scope="edge"}')


def test_a_message_over_the_links_size_ends_the_link(served: Served, watch: Watch) -> None:
    receiver, sender = Peer(served.quiet), Peer(served.quiet)
    receiver.start()
    sender.start()
    attached(sender, receiver, "chat/size")
    with sender, receiver:
        fits = message(b"x" * 900)
        sender.transfer(fits)
        assert receiver.expect("transfer").payload == fits
        sender.transfer(message(b"x" * 1000))
        sender.until("detach", closed=True, error=TOO_LARGE)
        sender.detach()
        sender.attach_sender("chat/size", handle=1)
        sender.until("flow")
        sender.transfer(fits, 1)
        assert receiver.expect("transfer").payload == fits
    watch.link_ended(TOO_LARGE)


def test_a_message_that_grows_over_the_links_size_ends_the_link_before_it_is_whole(
    served: Served, watch: Watch
) -> None:
    with Peer(served.quiet) as receiver, Peer(served.quiet) as sender:
        receiver.start()
        sender.start()
        attached(sender, receiver, "chat/grows")
        sender.transfer(b"x" * 600, more=True)
        sender.send("transfer", handle=0, more=True, payload=b"x" * 600)
        sender.until("detach", closed=True, error=TOO_LARGE)
        sender.send("transfer", handle=0, payload=b"x" * 600)
        sender.detach()
        sender.attach_sender("chat/grows", handle=1)
    watch.link_ended(TOO_LARGE)


def test_the_attach_answer_says_the_size(served: Served) -> None:
    with Peer(served.quiet) as peer:
        peer.start()
        assert peer.attach_sender("chat/a").max_message_size == 1000


HALF = 32 * 2**20


def resident(served: Served) -> int:
    """The gateway's memory in bytes."""
    status = Path(f"/proc/{served.gateway.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def passes(served: Served, size: int) -> int:
    """Send a message of this many bytes in parts, see that it arrives equal; the most memory the gateway had."""
    sender, receiver = attached(served.peer(), served.peer(max_frame_size=1 << 16), "chat/huge")
    with sender, receiver:
        payload = message(os.urandom(1 << 16) * (size >> 16))
        digest, peak = hashlib.sha256(), 0
        step = 15_000
        sender.transfer(payload[:step], more=True)
        for start in range(step, len(payload), step):
            sender.send(
                "transfer",
                handle=0,
                more=start + step < len(payload),
                payload=payload[start : start + step],
            )
            del sender.transcript[20:]
        while True:
            transfer = receiver.expect("transfer")
            digest.update(transfer.payload)
            peak = max(peak, resident(served))
            receiver.flow(incoming_window=10_000)
            del receiver.transcript[20:]
            if not transfer.more:
                break
        assert digest.digest() == hashlib.sha256(payload).digest()
        receiver.disposition(0, "accepted")
        sender.expect("disposition", state="accepted")
    return peak


@pytest.mark.row("CORE-5")
def test_64_mebibytes_pass_equal_and_the_memory_comes_back(served: Served) -> None:
    """Three copies at most while it passes (parts, whole, proton's output), none afterwards."""
    one = passes(served, HALF)
    left = resident(served)
    two = passes(served, 2 * HALF)
    assert two - one < 3.5 * HALF, f"{(two - one) >> 20} MiB for each 32 MiB of a message"
    wait_until(lambda: resident(served) - left < HALF, "the memory to come back")


@pytest.mark.parametrize("size", [512, 1000])
def test_frames_are_no_larger_than_the_peer_takes(served: Served, size: int) -> None:
    with served.peer() as sender, served.peer(max_frame_size=size) as receiver:
        attached(sender, receiver, "chat/small-frames")
        payload = message(os.urandom(10_000))
        sender.transfer(payload)
        parts = []
        while True:
            transfer = receiver.expect("transfer")
            assert len(transfer.raw) <= size
            parts.append(transfer.payload)
            if not transfer.more:
                break
        assert b"".join(parts) == payload
