"""The orderly end: SIGTERM and SIGINT wait for outcomes, then close with a reason (issue 3, section 2)."""

from __future__ import annotations

import contextlib
import signal
import threading
import time

import pytest

from gateway.amqp.codec.codec import Symbol
from tests.support.amqp import frames
from tests.support.amqp.links import connected, outcomes, receiving, sending
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer
from tests.support.amqp.proton_clients import Failed, Login, receive
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import answers, free_port, wait_until
from tests.support.kafka.streams import position

BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])


def ask_to_end(gateway: Gateway, number: int = signal.SIGTERM) -> float:
    """Send the signal, wait until the gateway says that it drains; return the time."""
    started = time.monotonic()
    gateway.process.send_signal(number)
    gateway.wait_log("draining")
    return started


def unsettled_pair(document: Document) -> tuple[Peer, Peer, int]:
    """A sender and a receiver that holds the sender's message without an outcome, and that delivery's id."""
    receiver, sender = receiving(document.edge, "chat/room"), sending(document.edge, "chat/room")
    sender.transfer(message(b"held"))
    return sender, receiver, receiver.until("transfer").delivery_id


def forced(peer: Peer) -> None:
    """The connection is closed with a reason that a person understands; answer, as a client library does."""
    error = peer.until("close", error="amqp:connection:forced").error
    assert "shutting down" in error["description"]
    with contextlib.suppress(OSError):  # it waits two seconds for our answer, and this machine may be busy
        peer.close()
    peer.expect_eof()


@BOTH
def test_an_idle_gateway_ends_at_once(start_gateway: Gateways, number: int) -> None:
    document = Document(drain="60s")
    document.kafka("embedded")
    gateway = start_gateway(document.text)
    client = receive(Login(document.edge), "chat/room", 1).attached()
    started = ask_to_end(gateway, number)
    assert gateway.process.wait() == 0
    took = time.monotonic() - started
    print(f"{signal.Signals(number).name} when idle: {took:.2f} s")
    assert took < 30
    with pytest.raises(Failed, match="amqp:connection:forced"):
        client.finish()


def test_an_idle_gateway_without_its_backends_ends_at_once(start_gateway: Gateways) -> None:
    document = Document(drain="60s")
    document.kafka(f"127.0.0.1:{free_port()}")
    document.connector(free_port())
    gateway = start_gateway(document.text, ready=False)
    started = ask_to_end(gateway)
    assert gateway.process.wait() == 0
    assert time.monotonic() - started < 30


@BOTH
def test_it_waits_for_outcomes_and_lets_nobody_in(start_gateway: Gateways, number: int) -> None:
    document = Document(drain="60s")
    gateway = start_gateway(document.text)
    sender, receiver, delivery = unsettled_pair(document)
    ask_to_end(gateway, number)
    wait_until(lambda: not answers(document.edge), "the listener to refuse connections")
    assert gateway.get("/healthz")[0] == 200
    receiver.disposition(delivery, "accepted")
    sender.until("disposition", first=0, state="accepted")
    forced(sender)
    forced(receiver)
    assert gateway.process.wait() == 0
    assert gateway.wait_log("stopped")["unsettled"] == 0


def test_it_waits_no_longer_than_the_policy_says(start_gateway: Gateways) -> None:
    document = Document(drain="700ms")
    gateway = start_gateway(document.text)
    sender, receiver, _ = unsettled_pair(document)
    started = ask_to_end(gateway)
    forced(sender)
    assert time.monotonic() - started >= 0.7
    forced(receiver)
    lines = [line for line in sender.transcript if "disposition" in line]
    assert all("state=modified(delivery_failed=True" in line for line in lines), "which connection closes first is open"
    assert gateway.process.wait() == 0
    assert gateway.wait_log("stopped")["unsettled"] == 1


def test_peers_that_say_nothing_do_not_keep_it(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    silent, greeting = connected(document.edge), Peer(document.edge)
    ask_to_end(gateway)
    silent.until("close", error="amqp:connection:forced")
    assert gateway.process.wait() == 0
    greeting.disconnect()


@BOTH
def test_a_second_signal_ends_it_at_once(start_gateway: Gateways, number: int) -> None:
    document = Document(drain="60s")
    gateway = start_gateway(document.text)
    _held = unsettled_pair(document)  # without whose message the drain would be over
    ask_to_end(gateway, number)
    gateway.process.send_signal(number)
    assert gateway.process.wait(30) == 1


def test_what_is_on_its_way_to_kafka_gets_its_outcome(start_gateway: Gateways) -> None:
    document = Document()
    document.kafka("embedded", topics={"orders": 1})
    gateway = start_gateway(document.text)
    sender = sending(document.edge, "events/orders")
    for number in range(500):
        sender.transfer(message(b"%d" % number))
    gateway.process.send_signal(signal.SIGTERM)
    assert set(outcomes(sender, 500).values()) == {"accepted"}
    forced(sender)
    assert gateway.process.wait() == 0


def test_a_busy_consumer_does_not_keep_it(start_gateway: Gateways) -> None:
    document = Document(drain="60s")
    document.kafka("embedded", topics={"orders": 1})
    gateway = start_gateway(document.text)
    sender = sending(document.edge, "events/orders")
    for _ in range(10):
        for number in range(100):
            sender.transfer(message(b"%d" % number))
        sender.until("disposition")
    consumer = connected(document.edge)
    start = position(**{"event-streams-offset": Symbol("@earliest")})
    consumer.attach_receiver("events/orders", source=frames.source("events/orders", filter=start))
    consumer.flow(0, link_credit=1000)
    first = consumer.until("transfer").delivery_id
    started = ask_to_end(gateway)
    while (frame := consumer.receive()) is not None and frame.kind != "close":
        if frame.kind == "transfer":
            consumer.disposition(first, "accepted", last=frame.delivery_id)
            first = frame.delivery_id + 1
    assert frame is not None
    with contextlib.suppress(OSError):  # as in `forced`
        consumer.close()
    consumer.expect_eof()
    assert gateway.process.wait() == 0
    assert time.monotonic() - started < 40


def test_what_a_receiver_accepts_while_the_gateway_drains_is_accepted_to_its_sender(start_gateway: Gateways) -> None:
    """A sender that never pauses: at some moment nothing is unsettled, and then more comes."""
    document = Document(drain="60s")
    gateway = start_gateway(document.text)
    receiver = connected(document.edge)
    receiver.attach_receiver("chat/busy")
    receiver.flow(0, link_credit=100_000)
    sender = sending(document.edge, "chat/busy")
    stop, taken = threading.Event(), set[int]()

    def send() -> None:
        with contextlib.suppress(OSError):
            for number in range(9_000):
                sender.transfer(message(b"%d" % number))
                if number % 10 == 9:
                    stop.wait(0.002)

    def accept() -> None:
        while (frame := receiver.receive()) is not None and frame.kind != "close":
            if frame.kind == "transfer":
                receiver.disposition(frame.delivery_id, "accepted")
                taken.add(int(frame.payload[5:]))
        receiver.close()

    threads = [threading.Thread(target=each) for each in (send, accept)]
    for each in threads:
        each.start()
    said, frame = dict[int, str](), sender.until("disposition")
    gateway.process.send_signal(signal.SIGTERM)
    while frame is not None and frame.kind != "close":
        if frame.kind == "disposition":
            last = frame.first if frame.last is None else frame.last
            said |= dict.fromkeys(range(frame.first, last + 1), frame.state.name)
        frame = sender.receive()
    stop.set()
    sender.disconnect()
    for each in threads:
        each.join()
    assert gateway.process.wait() == 0
    assert sorted(taken - said.keys()) == []
    assert {said[number] for number in taken} == {"accepted"}
