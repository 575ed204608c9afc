"""States of many messages at a time: the same posts and outcomes as one by one, however the input is cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.link import transacted_receiver
from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.link import Link
from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, Outcome, Provisional
from gateway.amqp.link.transactions import TransactedLink
from gateway.amqp.proton import batch
from gateway.errors import AmqpError
from tests.support.amqp.frames import AMQP_HEADER, Frame, composite, framed, parse, performative, target
from tests.support.amqp.messages import message
from tests.support.transactions.controller import in_transaction
from tests.unit.gateway.amqp.engine.test_engine import Owner

IDS = b"one", b"two", b"\x00" * 60
"""The last one is longer than the part of a transfer that is scanned."""
Message = tuple[int, bytes, bool]


class Sent(NamedTuple):
    """A message of the peer: the number of its transaction, and how many bytes its first frame has; None: all."""

    txn: int | None
    settled: bool
    first: int | None
    tag: bytes


class Node(Incoming):
    """Keeps what it gets outside of transactions, and accepts it."""

    def __init__(self, link: Link) -> None:
        self.link, self.seen = link, list[Any]()

    def on_transfer(self, delivery: int, data: bytes, settled: bool) -> None:
        self.seen.append((None, data, settled))
        self.link.settle(delivery, ACCEPTED)

    def on_detach(self, error: AmqpError | None) -> None: ...


class Known:
    """Transactions that keep their messages, as `Transactions` of a connection."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.held: list[tuple[bytes, list[int]]] = []

    def knows(self, txn_id: bytes) -> bool:
        return True

    def post_all(self, link: TransactedLink, txn_id: bytes, messages: list[Message]) -> None:
        for each in messages:
            self.post(link, txn_id, *each)

    def post(self, link: TransactedLink, txn_id: bytes, delivery: int, data: bytes, settled: bool) -> None:
        self.seen.append((txn_id, data, settled))
        if not settled:
            if not self.held or self.held[-1][0] != txn_id:
                self.held.append((txn_id, []))
            self.held[-1][1].append(delivery)

    def part(self, link: TransactedLink, txn_id: bytes | None) -> None: ...


class Takes(Owner):
    """Accepts a link; `general` looks at the state of each message."""

    def __init__(self, *, general: bool) -> None:
        self.general, self.known = general, Known()
        super().__init__()
        self.engine.peer.transactions = self.known  # type: ignore[assignment]

    def link_requested(self, link: Link) -> None:
        self.link, self.node = link, Node(link)
        link.accept(self.node)
        if self.general:
            link.__class__ = _Each
        link.grant(1000)


class _Each(Link):
    """One that compares the states."""

    __slots__ = ()

    def received_with_states(self, messages: list[Message], alike: bool) -> None:
        super().received_with_states(messages, False)


def _frames(number: int, sent: Sent) -> Iterator[bytes]:
    state = None if sent.txn is None else in_transaction(IDS[sent.txn])
    fields = {"handle": 0, "delivery_id": number, "delivery_tag": sent.tag, "settled": sent.settled, "state": state}
    data = message(b"message %d" % number)
    if sent.first is not None:
        yield framed(performative("transfer", **fields, more=True) + data[: sent.first])
        fields, data = {"handle": 0, "state": in_transaction(IDS[0])}, data[sent.first :]  # a state means nothing there
    yield framed(performative("transfer", **fields) + data)


def _outcomes(frames: list[Frame]) -> list[tuple[int, Any]]:
    """Number and state of each delivery that a disposition settles."""
    found: list[tuple[int, Any]] = []
    for each in frames:
        if each.kind == "disposition":
            assert each.role
            assert each.settled
            last = each.first if each.last is None else each.last
            found += [(number, repr(each.state)) for number in range(each.first, last + 1)]
    return sorted(found)


def _settled(link: Link, deliveries: list[int], sizes: list[int], outcome: Outcome) -> None:
    for size in [*sizes, len(deliveries)]:
        now, deliveries = deliveries[:size], deliveries[size:]
        link.settle_all(now, outcome)  # type: ignore[arg-type]


def results(sent: list[Sent], cuts: list[int], sizes: list[int], general: bool) -> tuple[list[Any], Any, Any, Any]:
    """What transactions and node got, the outcomes that the peer got, and the counts."""
    owner = Takes(general=general)
    begin = performative("begin", next_outgoing_id=0, incoming_window=1000, outgoing_window=1000)
    attach = performative("attach", name="a", handle=0, role=False, target=target("q"), initial_delivery_count=0)
    owner.say(AMQP_HEADER + framed(performative("open", container_id="p")) + framed(begin) + framed(attach))
    data = b"".join(frame for number, each in enumerate(sent) for frame in _frames(number, each))
    frames, start = list[Frame](), 0
    for end in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        frames += owner.say(data[start:end]) if end > start else []
        start = end
    with patch.object(transacted_receiver, "_MERGED", 10_000 if general else 1):
        for at, (txn_id, deliveries) in enumerate(owner.known.held):
            _settled(owner.link, deliveries, sizes, Provisional(txn_id, RELEASED if at % 5 == 4 else ACCEPTED))
    frames += owner.frames()
    tally = owner.engine.tally
    counts = owner.link.transfers, owner.link.accepted, owner.link.outcome_counts, tally.in_count, tally.in_bytes
    owner.engine.lost(None)
    owner.engine.free()
    return owner.known.seen, owner.node.seen, _outcomes(frames), counts


messages = st.builds(
    Sent,
    st.sampled_from([0, 0, 0, 0, 1, 2, None]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([None] * 8 + [0, 3]),
    st.sampled_from([b"t", b"eight by", b"a tag of thirty-two bytes, at most"[:32]]),
)


@given(
    sent=st.lists(messages, max_size=30),
    cuts=st.lists(st.integers(0, 10_000), max_size=6),
    sizes=st.lists(st.integers(1, 12), max_size=4),
)
def test_states_of_many_messages_are_those_of_each(sent: list[Sent], cuts: list[int], sizes: list[int]) -> None:
    assert results(sent, cuts, sizes, False) == results(sent, cuts, sizes, True)


numbers = st.sampled_from([0, 1, 200, 255, 256, 70_000, 2**32 - 1])
dispositions = st.fixed_dictionaries(
    {"role": st.booleans(), "first": numbers, "last": st.none() | numbers, "settled": st.booleans()}
)


@given(fields=st.lists(dispositions | st.none(), max_size=5), size=st.integers(1, 400))
def test_every_disposition_has_the_other_state_and_nothing_else_changes(fields: list[Any], size: int) -> None:
    state = in_transaction(b"x" * size, "accepted")
    given = [_disposition(each, composite("accepted")) for each in fields]
    wanted = [_disposition(each, state) for each in fields]
    encoded = _disposition({"role": True, "first": 0, "last": None, "settled": True}, state)
    made = batch.restated(b"".join(given), encoded[encoded.index(b"\x00\x53\x34") :])
    found = list[Frame | None]()
    while made:
        end = int.from_bytes(made[:4], "big")
        found.append(parse(made[:end]))
        made = made[end:]
    assert [each and (each.kind, repr(each.fields)) for each in found] == [
        frame and (frame.kind, repr(frame.fields)) for frame in map(parse, wanted)
    ]


def _disposition(fields: Any, state: Any) -> bytes:
    """A disposition; None: a flow in its place."""
    if fields is None:
        return framed(performative("flow", incoming_window=1, next_outgoing_id=0, outgoing_window=1))
    return framed(performative("disposition", **fields, state=state))
