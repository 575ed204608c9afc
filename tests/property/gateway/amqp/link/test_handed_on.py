"""Messages that need no look at each are handed on as those that do: the same calls, counts and answers.

So are those with events between them that nobody hears of, and which C throws away.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.link import Link
from gateway.amqp.link.outcomes import ACCEPTED, RELEASED
from gateway.amqp.message.bounds import ANNOTATIONS
from gateway.errors import AmqpError
from tests.support.amqp.frames import AMQP_HEADER, framed, performative, target
from tests.support.amqp.messages import message
from tests.unit.gateway.amqp.engine.test_engine import Owner

CREDIT = 6
MOST = 2 * ANNOTATIONS
ANNOTATED = {"x-opt-jms-msg-type": 1}
DATA = (
    message(b"a"),
    message(b"b" * 3000),
    message(b"c", da=ANNOTATED),
    message(b"d", da={"response-address-supported": "x" * ANNOTATIONS}),
    message(b"e" * (MOST + 1)),
)


class Sent(NamedTuple):
    """A message of the peer, and what the node does with it."""

    data: bytes
    settled: bool
    deed: str


class Node(Incoming):
    """Takes messages, and grants, settles or ends the link meanwhile."""

    def __init__(self, link: Link, deeds: list[str]) -> None:
        self.link, self.deeds, self.seen = link, deeds, list[Any]()

    def on_transfer(self, delivery: int, data: bytes, settled: bool) -> None:
        link, deed = self.link, self.deeds[len(self.seen)]
        self.seen.append((data, settled, link.granted, link.transfers, link.open))
        if deed == "accept":
            link.settle(delivery, ACCEPTED)
        elif deed == "release":
            link.settle(delivery, RELEASED)
        elif deed == "grant":
            link.grant(1)
        elif deed == "end":
            link.detach(AmqpError("amqp:internal-error", "enough"))
        elif deed == "refuse":
            link.engine.refusing = True

    def on_detach(self, error: AmqpError | None) -> None:
        self.seen.append(error and error.condition)


class Takes(Owner):
    """Accepts a link; `general` looks at each message."""

    def __init__(self, sent: list[Sent], *, announced: bool, general: bool) -> None:
        self.sent, self.announced, self.general = sent, announced, general
        super().__init__()
        if general:
            self.engine._heard_events = bytes([1]) * 256  # type: ignore[misc]  # no event is thrown away unseen

    def link_requested(self, link: Link) -> None:
        self.link, self.node = link, Node(link, [each.deed for each in self.sent])
        link.accept(self.node, max_message_size=MOST)
        link.unannounced = not self.announced
        if self.general:
            link.__class__ = _Each
        link.grant(CREDIT)


class _Each(Link):
    """One of which no batch is usual."""

    __slots__ = ()

    def _usual(self, messages: Any) -> bool:
        return False


def outcome(sent: list[Sent], mode: int, *, announced: bool, general: bool) -> tuple[list[Any], list[Any], Any]:
    """What the node, the peer and the counters saw."""
    owner = Takes(sent, announced=announced, general=general)
    begin = performative("begin", next_outgoing_id=0, incoming_window=100, outgoing_window=100)
    fields = {"target": target("q"), "initial_delivery_count": 0, "snd_settle_mode": mode}
    attach = performative("attach", name="a", handle=0, role=False, **fields)
    owner.say(AMQP_HEADER + framed(performative("open", container_id="p")) + framed(begin) + framed(attach))
    answers = owner.say(
        b"".join(
            framed(
                performative("transfer", handle=0, delivery_id=at, delivery_tag=b"%d" % at, settled=each.settled)
                + each.data
            )
            for at, each in enumerate(sent)
        )
    )
    link, tally = owner.link, owner.engine.tally
    held = (tally.in_bytes, tally.in_count)
    counts = (link.transfers, link.granted, link.accepted, link.outcome_counts, link.open, *held)
    owner.engine.lost(None)
    owner.engine.free()
    return owner.node.seen, [(frame.kind, frame.fields) for frame in answers], counts


deeds = st.sampled_from(["keep", "accept", "release", "grant", "end", "refuse"])


@given(
    sent=st.lists(st.builds(Sent, st.sampled_from(DATA), st.booleans(), deeds), max_size=CREDIT + 2),
    mode=st.sampled_from([0, 1, 2]),
    announced=st.booleans(),
)
def test_usual_messages_are_handed_on_like_all_others(sent: list[Sent], mode: int, announced: bool) -> None:
    assert outcome(sent, mode, announced=announced, general=False) == outcome(
        sent, mode, announced=announced, general=True
    )
