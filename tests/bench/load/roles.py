"""The roles of the load generator's connections: send, receive, request, respond."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter, perf_counter_ns
from typing import Any, Final, cast

from cproton_ffi import ffi, lib

from tests.bench.load import messages
from tests.bench.load.clock import SAMPLE_EVERY, Clock
from tests.bench.load.peer import BUFFER, BUFFER_SIZE, Peer, remote_source_address
from tests.bench.shapes import shapes

SUPPORTED: Final = ("response-address-supported",)
# More tags than any credit the bench gives, so that no two unsettled deliveries share one.
TAG_MASK: Final = 0x3FFF
_tag_store = ffi.new("char[]", b"".join(number.to_bytes(4, "big") for number in range(TAG_MASK + 1)))
_tags = [ffi.new("pn_bytes_t *", (4, _tag_store + number * 4))[0] for number in range(TAG_MASK + 1)]


def tag(number: int) -> Any:
    """The tag of a sender's delivery."""
    return _tags[number & TAG_MASK]


class BenchError(Exception):
    """The peer refused or went away: the case did not run."""


class Base:
    """Keeps the connection and passes trouble to the driver."""

    def __init__(self, on_trouble: Callable[[str], None]) -> None:
        self.on_trouble = on_trouble
        self.peer: Peer
        self.ready = False

    def opened(self, peer: Peer) -> None:
        self.peer = peer
        self.attach()

    def attach(self) -> None: ...
    def attached(self, link: Any) -> None: ...
    def delivery(self, delivery: Any) -> None: ...
    def turn(self) -> None: ...

    def failed(self, reason: str) -> None:
        self.on_trouble(f"{type(self).__name__}: {reason}")


class Sender(Base):
    """Sends as much as credit allows; `in_flight` bounds what is unsettled, `limit` the total."""

    def __init__(
        self,
        on_trouble: Callable[[str], None],
        address: str,
        size: int,
        *,
        settled: bool = False,
        in_flight: int = 1 << 30,
        limit: int = 1 << 60,
        shaped: Sequence[bytes] = (),
    ) -> None:
        """`shaped`: messages to send in turns, in place of the synthetic one."""
        super().__init__(on_trouble)
        self.address, self.settled, self.in_flight, self.limit = address, settled, in_flight, limit
        self.shaped = shaped
        self.head = messages.data_section(size)
        self.sample_every = 1 if in_flight < SAMPLE_EVERY else SAMPLE_EVERY
        """Every message carries a clock reading when few are on the way, else one in 64."""
        self.clock = Clock(self.sample_every) if shaped else None
        self.sent = self.outcomes = self.not_accepted = 0
        self.link: Any = None

    def attach(self) -> None:
        self.link = self.peer.sender(self.address)

    def attached(self, link: Any) -> None:
        self.ready = True

    def delivery(self, delivery: Any) -> None:
        if lib.pn_delivery_remote_state(delivery) != lib.PN_ACCEPTED:
            self.not_accepted += 1
        lib.pn_delivery_settle(delivery)
        self.outcomes += 1

    def turn(self) -> None:
        if self.ready:
            self.pump()

    def pump(self) -> None:
        """Sends what credit, `in_flight` and `limit` allow now."""
        room = min(lib.pn_link_credit(self.link), self.limit - self.sent)
        if not self.settled:
            room = min(room, self.in_flight - self.sent + self.outcomes)
        if room > 0:
            self._send_shaped(room) if self.shaped else self._send(room)
            self.peer.flush_soon()

    def _send_shaped(self, count: int) -> None:
        link, settled, shaped, many = self.link, self.settled, self.shaped, len(self.shaped)
        new, write, advance, sent = lib.pn_delivery, lib.pn_link_send, lib.pn_link_advance, cast(Clock, self.clock).sent
        for number in range(self.sent, self.sent + count):
            delivery, data = new(link, _tags[number & TAG_MASK]), shaped[number % many]
            write(link, data, len(data))
            sent(number)
            advance(link)
            if settled:
                lib.pn_delivery_settle(delivery)
        self.sent += count

    def _send(self, count: int) -> None:
        link, head, settled = self.link, self.head, self.settled
        new, write, advance, tags = lib.pn_delivery, lib.pn_link_send, lib.pn_link_advance, _tags
        plain, size, every = head + messages.PLAIN_TAIL, len(head) + messages.STAMP.size, self.sample_every
        for number in range(self.sent, self.sent + count):
            delivery = new(link, tags[number & TAG_MASK])
            if number % every:
                write(link, plain, size)
            else:
                write(link, head + messages.STAMP.pack(perf_counter_ns(), 1), size)
            advance(link)
            if settled:
                lib.pn_delivery_settle(delivery)
        self.sent += count


class PacedSender(Sender):
    """Sends `rate` messages a second, a few each millisecond, every one with a clock reading."""

    def __init__(
        self, on_trouble: Callable[[str], None], address: str, size: int, rate: float, shaped: Sequence[bytes] = ()
    ) -> None:
        super().__init__(on_trouble, address, size, shaped=shaped)
        self.rate, self.began, self.sample_every = rate, 0.0, 1
        self.clock = Clock(1) if shaped else None

    def attached(self, link: Any) -> None:
        self.ready = True
        self.began = perf_counter()
        self._tick()

    def turn(self) -> None: ...

    def _tick(self) -> None:
        self.limit = int((perf_counter() - self.began) * self.rate)
        self.pump()
        asyncio.get_running_loop().call_later(0.001, self._tick)


class Receiver(Base):
    """Accepts everything, keeps `credit` open, samples latency; with `hold` it waits for `go`."""

    def __init__(
        self,
        on_trouble: Callable[[str], None],
        address: str | None,
        credit: int,
        filters: bytes = b"",
        *,
        settled: bool = False,
        hold: bool = False,
        binding: bytes = b"",
        capabilities: tuple[str, ...] = (),
        clock: Clock | None = None,
    ) -> None:
        """`clock`: that of the only sender, if its messages have no clock reading at their end."""
        super().__init__(on_trouble)
        self.address, self.credit, self.filters, self.settled, self.hold = address, credit, filters, settled, hold
        self.binding, self.capabilities, self.clock = binding, capabilities, clock
        self.received = self.spent = 0
        self.latencies: list[int] = []
        self.link: Any = None

    def attach(self) -> None:
        self.link = self.peer.receiver(
            self.address,
            capabilities=self.capabilities,
            filters=self.filters,
            settled=self.settled,
            binding=self.binding,
        )

    def attached(self, link: Any) -> None:
        self.ready = True
        if not self.hold:
            self.go()

    def go(self) -> None:
        """Grants the first credit."""
        lib.pn_link_flow(self.link, self.credit)
        self.peer.flush_soon()

    def delivery(self, delivery: Any) -> None:
        if lib.pn_delivery_partial(delivery):
            return
        link, buffer = self.link, BUFFER
        size = lib.pn_link_recv(link, buffer, BUFFER_SIZE)
        if self.clock is not None:
            if (taken := self.clock.received(self.received)) is not None:
                self.latencies.append(taken)
        elif buffer[size - 1] == b"\x01":
            self._sample(buffer, size)
        lib.pn_link_advance(link)
        if not self.settled:
            lib.pn_delivery_update(delivery, lib.PN_ACCEPTED)
        lib.pn_delivery_settle(delivery)
        self.received += 1
        self.spent += 1
        if self.spent * 2 >= self.credit:
            lib.pn_link_flow(link, self.spent)
            self.spent = 0

    def _sample(self, buffer: Any, size: int) -> None:
        tail = ffi.unpack(buffer + (size - messages.STAMP.size), messages.STAMP.size)
        self.latencies.append(perf_counter_ns() - messages.STAMP.unpack(tail)[0])


class Requester(Base):
    """Sends requests and counts the answers.

    Answers come to a dynamic address, or to `reply_address`, which the other scope may know as `reply_to`.
    """

    def __init__(
        self,
        on_trouble: Callable[[str], None],
        address: str,
        size: int,
        in_flight: int,
        reply_address: str | None = None,
        reply_to: str | None = None,
        shaped: Sequence[bytes] = (),
    ) -> None:
        super().__init__(on_trouble)
        self.address, self.reply_to, self.in_flight = address, reply_to, in_flight
        self.clock = Clock() if shaped else None
        self._shaped = shaped
        self._split: list[tuple[bytes, bytes]] = []
        self.head = messages.data_section(size)
        self.sent = self.not_accepted = 0
        # Half of it may be used up before more is granted: then there still is credit for all that is under way.
        self.replies = Receiver(on_trouble, reply_address, 2 * in_flight, clock=self.clock)
        self.link: Any = None
        self._after_id = b""

    @property
    def received(self) -> int:
        return self.replies.received

    @property
    def latencies(self) -> list[int]:
        return self.replies.latencies

    def attach(self) -> None:
        self.replies.opened(self.peer)

    def attached(self, link: Any) -> None:
        if lib.pn_link_is_sender(link):
            self.ready = True
            return
        self.replies.attached(link)
        reply_to = self.reply_to or remote_source_address(link)
        self._after_id = b"\x40\x40\x40" + messages.string(reply_to.encode())
        self._split = [shapes.split_request(message, reply_to) for message in self._shaped]
        self.link = self.peer.sender(self.address)

    def delivery(self, delivery: Any) -> None:
        if not lib.pn_link_is_receiver(lib.pn_delivery_link(delivery)):
            if lib.pn_delivery_remote_state(delivery) != lib.PN_ACCEPTED:
                self.not_accepted += 1
            lib.pn_delivery_settle(delivery)
            return
        self.replies.delivery(delivery)

    def turn(self) -> None:
        if self.ready:
            self.pump()

    def pump(self) -> None:
        """Asks as often as credit and the answers still out allow."""
        room = min(lib.pn_link_credit(self.link), self.in_flight - self.sent + self.received)
        for _ in range(room):
            self._ask(self.sent)
        if room > 0:
            self.peer.flush_soon()

    def _ask(self, number: int) -> None:
        if self.clock is not None:
            head, tail = self._split[number % len(self._split)]
            self.clock.sent(number)
            post(self.link, number, head + b"%016x" % number + tail)
            self.sent += 1
            return
        raw = b"\x80" + number.to_bytes(8, "big") + self._after_id
        stamp = messages.PLAIN_TAIL if number % SAMPLE_EVERY else messages.STAMP.pack(perf_counter_ns(), 1)
        data = b"\x00\x53\x73" + messages.compound(0xC0, 5, raw) + self.head + stamp
        post(self.link, number, data)
        self.sent += 1


class Responder(Base):
    """Answers every request: over the annotated link with its cookie, or to reply-to over a null target."""

    def __init__(self, on_trouble: Callable[[str], None], address: str, credit: int, *, annotated: bool) -> None:
        super().__init__(on_trouble)
        self.address, self.credit, self.annotated = address, credit, annotated
        self.received = self.sent = self.spent = self.not_accepted = 0
        self.waiting: list[tuple[bytes, bytes]] = []
        self.outgoing: dict[bytes, Any] = {}
        self.link: Any = None

    def attach(self) -> None:
        self.link = self.peer.receiver(self.address, capabilities=SUPPORTED if self.annotated else ())
        if not self.annotated:
            self.outgoing[b""] = self.peer.sender(None)

    def attached(self, link: Any) -> None:
        if lib.pn_link_is_receiver(link):
            lib.pn_link_flow(link, self.credit)
            self.peer.flush_soon()
            self.ready = True

    def turn(self) -> None:
        waiting, self.waiting = self.waiting, []
        for target, data in waiting:
            self._answer(target, data)

    def delivery(self, delivery: Any) -> None:
        link = lib.pn_delivery_link(delivery)
        if not lib.pn_link_is_receiver(link):
            if lib.pn_delivery_remote_state(delivery) != lib.PN_ACCEPTED:
                self.not_accepted += 1
            lib.pn_delivery_settle(delivery)
            return
        if lib.pn_delivery_partial(delivery):
            return
        size = lib.pn_link_recv(link, BUFFER, BUFFER_SIZE)
        request = ffi.unpack(BUFFER, size)
        lib.pn_link_advance(link)
        lib.pn_delivery_update(delivery, lib.PN_ACCEPTED)
        lib.pn_delivery_settle(delivery)
        self._received(link)
        self._answer(*reply(request))

    def _received(self, link: Any) -> None:
        self.received += 1
        self.spent += 1
        if self.spent * 2 >= self.credit:
            lib.pn_link_flow(link, self.spent)
            self.spent = 0

    def _answer(self, target: bytes, data: bytes) -> None:
        link = self.outgoing.get(target)
        if link is None:
            link = self.outgoing[target] = self.peer.sender(messages.text(target))
        if lib.pn_link_credit(link) <= 0:
            self.waiting.append((target, data))
            return
        post(link, self.sent, data)
        self.sent += 1
        self.peer.flush_soon()


def reply(data: bytes) -> tuple[bytes, bytes]:
    """The answer to a request and the encoded address of the link to put it on (empty: null target)."""
    request = messages.read_request(data)
    fields = b"\x40\x40" + request.reply_to + b"\x40\x40" + request.message_id
    head = b"\x00\x53\x73" + messages.compound(0xC0, 6, fields)
    if request.cookie:  # RA 2.3: every response carries the cookie as `address-cookie`
        entry = b"\xa3\x0eaddress-cookie" + request.cookie
        cookie = b"\x00\x53\x71" + messages.compound(0xC1, 2, entry)
        return request.link_target, request.header + cookie + request.annotations + head + request.after
    return request.link_target, request.header + request.annotations + head + request.after


def post(link: Any, number: int, data: bytes) -> None:
    """Puts one unsettled message on a link that has credit."""
    lib.pn_delivery(link, _tags[number & TAG_MASK])
    lib.pn_link_send(link, data, len(data))
    lib.pn_link_advance(link)
