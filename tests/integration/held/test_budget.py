"""Every place where a message can wait is on one account, and whoever fills one is stopped (docs/design.md, memory)."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from gateway.amqp.codec.codec import Described, Symbol
from tests.bench.running import resident_kib
from tests.support.amqp import frames
from tests.support.amqp.links import connected, passes, receiving, sending
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer
from tests.support.gateway.document import Document
from tests.support.gateway.flood import pushed, transfer
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, wait_until

MIB = 2**20
LIMIT = 4 * MIB
"""What one connection may hold in these tests."""
SIZE = 32 * 1024
MUCH = 64 * MIB
"""What is sent, if anybody takes it."""
GROWN = MUCH // 4
"""Bytes that one attack more may make the gateway grow by: the limits of two connections, what is on its way."""
REFUSED = 'scopegate_messages_refused_total{condition="amqp:resource-limit-exceeded",scope="edge"}'
READING = 'scopegate_held_back_total{how="reading"}'
KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()
ANY = 2**31 - 1
"""As much credit as there can be."""


class LimitedGateway:
    """A gateway with small limits, a bystander, and how much it grows with each attack."""

    def __init__(self, start: Gateways) -> None:
        document = Document()
        document.scope()["listen"][0]["limits"] = {
            "memory": f"{LIMIT}B",
            "user_memory": "64MiB",
            "idle_timeout": "10m",  # bystanders say nothing while a test goes on
        }
        self.port = document.edge
        self.gateway: Gateway = start(document.text)
        self.peers: list[Peer] = []

    def grows_little(self, attack: Callable[[str], None]) -> None:
        """Attack to warm up, then once more: what the second costs while the first goes on. Each has a node."""
        sizes = []
        for address in ("chat/first", "chat/second"):
            attack(address)
            sizes.append(resident_kib(self.gateway.process.pid) * 1024)
        assert sizes[1] - sizes[0] < GROWN, sizes

    def held(self, kind: str) -> float:
        return self.gateway.metrics().get(f'scopegate_held_bytes{{kind="{kind}"}}', 0.0)

    def has_held_back(self, how: str) -> None:
        self.gateway.wait_metric(f'scopegate_held_back_total{{how="{how}"}}', lambda count: count >= 1)

    def push(self, peer: Peer, data: bytes, sample: str = READING) -> int:
        """Send until this sample says that enough came, however slow the machine is; how many bytes were taken."""
        at, before = 0, self.gateway.metrics().get(sample, 0)

        def reported() -> bool:
            nonlocal at
            at += pushed(peer, data[at : at + 2 * MIB], 1)
            return at >= len(data) or self.gateway.metrics().get(sample, 0) > before

        wait_until(reported, f"{sample}, or all to be taken", 2 * PATIENCE)
        return at + pushed(peer, data[at:], 1)  # and goes on: it must come to nothing

    def keep(self, peer: Peer) -> Peer:
        self.peers.append(peer)
        return peer

    def leave(self) -> None:
        for peer in self.peers:
            peer.disconnect()


@pytest.fixture
def held(start_gateway: Gateways) -> Iterator[LimitedGateway]:
    found = LimitedGateway(start_gateway)
    bystanders = receiving(found.port, "chat/bystander", 100), sending(found.port, "chat/bystander")
    passes(bystanders[1], bystanders[0])
    yield found
    passes(bystanders[1], bystanders[0], 1)
    found.leave()
    wait_until(lambda: found.held("received") + found.held("unsettled") + found.held("output") == 0, "all is let go of")


def test_unfinished_messages_are_bounded(held: LimitedGateway) -> None:
    def attack(address: str) -> None:
        peer, links = held.keep(connected(held.port)), 40
        held.keep(receiving(held.port, address, 100))
        for handle in range(links):
            peer.attach_sender(address, handle)
        piece = message(bytes(50_000))
        data = b"".join(transfer(handle, piece, handle=handle, more=True) for handle in range(links))
        held.push(peer, data * (MUCH // len(data)), REFUSED)

    held.grows_little(attack)
    held.has_held_back("reading")
    held.gateway.wait_metric(REFUSED, bool)


def test_messages_that_nobody_has_credit_for_are_bounded_on_the_anonymous_terminus(held: LimitedGateway) -> None:
    def attack(address: str) -> None:
        for each in range(20):
            held.keep(receiving(held.port, f"{address}-{each}", 0))
        peer = held.keep(sending(held.port, None))
        body = bytes(SIZE)
        held.push(peer, b"".join(transfer(n, message(body, to=f"{address}-{n % 20}")) for n in range(MUCH // SIZE)))

    held.grows_little(attack)
    held.has_held_back("reading")
    assert held.held("received") <= 2 * (LIMIT + 2 * MIB)


def test_a_receiver_that_does_not_read_stops_its_senders(held: LimitedGateway) -> None:
    data = b"".join(transfer(each, message(bytes(SIZE))) for each in range(MUCH // SIZE))

    def attack(address: str) -> None:
        receiver = held.keep(connected(held.port))
        receiver.attach_receiver(address)
        receiver.flow(0, link_credit=ANY, incoming_window=ANY)
        assert held.push(held.keep(sending(held.port, address)), data) < len(data)

    held.grows_little(attack)
    held.has_held_back("reading")
    assert held.held("received") <= 2 * (LIMIT + 2 * MIB)


@pytest.mark.parametrize("filtered", [False, True], ids=["all", "filtered"])
def test_credit_is_handed_on_in_lots(held: LimitedGateway, filtered: bool) -> None:
    receiver = held.keep(connected(held.port))
    wanted = {"filter": {Symbol("selector"): Described(Symbol("apache.org:selector-filter:string"), "JMSType = 'red'")}}
    receiver.attach_receiver("chat/lots", source=frames.source("chat/lots", **(wanted if filtered else {})))
    receiver.flow(0, link_credit=ANY, incoming_window=ANY)
    peer = held.keep(connected(held.port))
    peer.attach_sender("chat/lots")
    granted = peer.until("flow", handle=0).link_credit
    assert 100 <= granted <= 10_000
    payload = message(b"", subject="red")
    peer.send_raw(b"".join(transfer(each, payload, settled=True) for each in range(granted)))
    while (flow := peer.until("flow", handle=0)).delivery_count + flow.link_credit < 2 * granted - granted // 2:
        pass


def test_deliveries_that_are_never_settled_are_bounded(held: LimitedGateway) -> None:
    payload, sample = message(bytes(1000)), 'scopegate_held_back_total{how="sending"}'
    data = b"".join(transfer(each, payload) for each in range(MUCH // 1000))

    def attack(address: str) -> None:
        receiver = held.keep(connected(held.port))
        receiver.attach_receiver(address)
        receiver.flow(0, link_credit=ANY, incoming_window=ANY)
        peer = held.keep(sending(held.port, address))
        connection = receiver.detached()
        connection.setblocking(False)
        at, before = 0, held.gateway.metrics().get(sample, 0)
        while at < len(data) and held.gateway.metrics().get(sample, 0) == before:
            at += pushed(peer, data[at : at + MIB], 1)
            with contextlib.suppress(BlockingIOError):
                while connection.recv(2**18):
                    pass

    held.grows_little(attack)
    held.has_held_back("sending")
    assert held.held("unsettled") <= 2 * LIMIT
    assert held.held("received") <= 2 * (LIMIT + 2 * MIB)


def test_who_receives_what_it_sends_is_slowed_down_and_never_stuck(held: LimitedGateway) -> None:
    """Its own outcomes come behind its own messages: what is read slowly is read on."""
    peer, count = held.keep(connected(held.port)), 120
    peer.attach_receiver("chat/self", 0)
    peer.attach_sender("chat/self", 1)
    peer.flow(0, link_credit=1000)
    peer.until("flow", handle=1)
    sending_end, turn, done = peer.detached().dup(), threading.Lock(), set[int]()
    sending_end.settimeout(PATIENCE)

    def send() -> None:
        for number in range(count):
            with turn:
                sending_end.sendall(transfer(number, message(bytes(SIZE)), handle=1))

    thread = threading.Thread(target=send)
    thread.start()
    held.has_held_back("reading")  # as nothing is read here, however slowly it is sent
    while len(done) < count:
        frame = peer.receive()
        assert frame is not None
        if frame.kind == "transfer":
            with turn:
                peer.disposition(frame.delivery_id, "accepted")
        elif frame.kind == "disposition" and frame.role:
            done.update(range(frame.first, (frame.first if frame.last is None else frame.last) + 1))
    thread.join()
    sending_end.close()


@pytest.mark.parametrize("place", ["chat/one", "all/one", "svc/one", "chat/settled"])
def test_wherever_a_message_waits_it_is_on_the_account_until_it_has_its_outcome(
    start_gateway: Gateways, place: str
) -> None:
    """Behind the anonymous terminus: for a direct node, a multicast one, another scope; settled by its sender, too."""
    document = Document()
    document.scope()["addresses"].append({"match": "all/**", "direct": "multicast"})
    core = document.relay(replies="none")
    gateway = start_gateway(document.text, env={"SCOPEGATE_TEST_KEY": KEY})
    port, address = (core, "services/one") if place == "svc/one" else (document.edge, place)

    def waits(count: int) -> None:
        gateway.wait_metric('scopegate_held_deliveries{kind="received"}', lambda value: value == count)

    with connected(port) as receiver, connected(document.edge) as peer:
        receiver.attach_receiver(address)
        peer.attach_sender(None)
        for _ in range(3):
            peer.transfer(message(bytes(20_000), to=place), settled=place == "chat/settled")
        waits(3)
        receiver.flow(0, link_credit=3)
        for _ in range(3):
            receiver.disposition(receiver.until("transfer").delivery_id, "accepted")
        waits(0)
