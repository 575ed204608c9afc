"""Which outcomes a sender takes, by the literal bytes of its attach (AT 2.2.2, conformance CORE-4)."""

from __future__ import annotations

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.messages import message

EMPTY = b"\xe0\x02\x00\xa3"
ONE = b"\xa3\x12amqp:accepted:list"
BOTH = b"\xe0\x28\x02\xa3\x12amqp:accepted:list\x12amqp:rejected:list"


@pytest.mark.row("AT-2.2.2-3", "CORE-4")
@pytest.mark.parametrize(
    ("outcomes", "taken"), [(b"\x40", True), (EMPTY, True), (BOTH, True), (ONE, False)], ids=["no", "[]", "both", "one"]
)
def test_outcomes_as_they_are_on_the_wire(served: Served, outcomes: bytes, taken: bool) -> None:
    """Null, an explicit empty array, an array of two, and one symbol in place of an array of one (1.4)."""
    fields = b"\xa1\x01s\x43\x42\x40\x40" + listed(b"\x28", b"\x40" * 9 + outcomes, 10) + listed(b"\x29", b"", 0)
    attach = listed(b"\x12", fields + b"\x40\x40\x43", 10)
    peer = served.peer()
    peer.send_raw((len(attach) + 8).to_bytes(4) + b"\x02\x00\x00\x00" + attach)
    answered = peer.until("attach").raw
    for named in (b"\x12amqp:accepted:list", b"\x12amqp:rejected:list"):
        assert (named in answered) is (named in outcomes)  # what is in force is echoed, all of them by saying nothing
    peer.until("flow")
    peer.transfer(message(to="nope"))
    if not taken:
        peer.expect("detach", closed=True, error="amqp:not-found")
        return
    peer.expect("disposition", first=0, settled=True, state={"error": "amqp:not-found"})
    peer.transfer(message(to="nope"))
    peer.expect("disposition", first=1, settled=True, state={"error": "amqp:not-found"})


def listed(descriptor: bytes, items: bytes, count: int) -> bytes:
    """A described list with a short descriptor and one byte each for its size and count."""
    return b"\x00\x53" + descriptor + b"\xc0" + bytes((len(items) + 1, count)) + items
