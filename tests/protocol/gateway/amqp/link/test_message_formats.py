"""Transfers of another message-format than 0 (2.7.5, FX-1-4): every node refuses them, no receiver gets one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.codec.codec import Described, Uint, Ulong, encode
from gateway.amqp.proton.batch import OTHER_FORMAT, SCAN_STATE, WITH_STATE, scan
from tests.protocol.conftest import Served, Watch
from tests.support.amqp.frames import AMQP_HEADER, framed, performative
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer

REFUSED = "amqp:not-implemented"


def sender(served: Served, address: str | None) -> Peer:
    peer = served.peer(desired_capabilities=["ANONYMOUS-RELAY"])
    peer.attach_sender(address)
    peer.until("flow", handle=0)
    return peer


@pytest.fixture
def receivers(served: Served) -> Iterator[list[Peer]]:
    """At the nodes that store nothing: direct, multicast, and behind a relay."""
    made = []
    for scope, address in (("edge", "chat/f"), ("edge", "news/f"), ("core", "services/f")):
        peer = Peer(served.edge if scope == "edge" else served.core)
        peer.start()
        peer.attach_receiver(address)
        peer.flow(0, link_credit=10)
        made.append(peer)
    yield made
    for peer in made:
        peer.disconnect()


@pytest.mark.row("FX-1-4")
@pytest.mark.parametrize("number", [99, 0x80013700])
@pytest.mark.parametrize(
    ("address", "reader"), [("chat/f", 0), ("news/f", 1), ("svc/f", 2), (None, 0), ("events/orders", None)]
)
def test_every_node_refuses(
    served: Served, watch: Watch, receivers: list[Peer], address: str | None, reader: int | None, number: int
) -> None:
    with sender(served, address) as peer:
        to = {"to": "chat/f"} if address is None else {}
        peer.transfer(message(b"other", **to), message_format=number)
        state = peer.until("disposition", first=0, settled=True).state
        assert (state.name, state["error"]["condition"]) == ("rejected", REFUSED)
        assert f"{number:#x}" in state["error"]["description"]
        peer.transfer(message(b"usual", **to))
        if reader is None:
            peer.until("disposition", first=1, state="accepted")
        else:
            assert b"usual" in receivers[reader].until("transfer").payload
    watch.logged("message refused", condition=REFUSED)


@pytest.mark.row("FX-1-4")
def test_a_settled_one_ends_the_link(served: Served) -> None:
    with sender(served, "events/orders") as peer:
        peer.transfer(message(b"other"), message_format=99, settled=True)
        peer.until("detach", handle=0, closed=True, error=REFUSED)


@pytest.mark.row("FX-1-4")
def test_one_in_parts_and_its_credit(served: Served, receivers: list[Peer]) -> None:
    with sender(served, "chat/f") as peer:
        for number in range(30):  # more than the receiver's credit: what is refused costs none
            delivery = {"delivery_id": number, "delivery_tag": b"%d" % number, "message_format": 7}
            peer.send("transfer", handle=0, more=True, payload=b"a", **delivery)
            peer.send("transfer", handle=0, more=False, payload=b"b")
            assert peer.until("disposition", first=number).state.name == "rejected"
        peer.transfer(message(b"usual"), delivery_id=30, delivery_tag=b"30")
        assert b"usual" in receivers[0].until("transfer").payload


TAGS = st.binary(max_size=32)
NUMBERS = st.integers(0, 2**32 - 1).map(Uint)


def other_format(state: bytearray, data: bytes, start: int, end: int) -> bool:
    """Whether the scan wants transfers looked at."""
    return any(what == OTHER_FORMAT for _, what, _ in scan(state, data, start, end) or ())


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, TAGS, st.booleans(), st.binary(max_size=200)), max_size=8),
    st.sampled_from([None, 0, 1, 255, 256, 0x80013700]),
    st.integers(0, 8),
    st.data(),
)
def test_the_scan_finds_another_format_however_the_bytes_are_cut(
    transfers: list[tuple[int, int, bytes, bool, bytes]], odd: int | None, place: int, data: st.DataObject
) -> None:
    stream = AMQP_HEADER + framed(performative("open", container_id="x")) + framed(b"")
    for number, (handle, delivery, tag, more, payload) in enumerate(transfers):
        message_format = odd if number == place else 0
        fields = {"handle": handle, "delivery_id": delivery, "delivery_tag": tag, "message_format": message_format}
        stream += framed(performative("transfer", more=more, **fields) + payload)
        stream += framed(performative("transfer", handle=handle, more=False) + payload)
    state, start, found = bytearray(SCAN_STATE), 0, False
    while start < len(stream):
        end = data.draw(st.integers(start + 1, min(len(stream), start + 150)))
        found |= other_format(state, stream, start, end)
        start = end
    assert found == (bool(odd) and place < len(transfers))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"\x00\x53\x14\x45", False),
        (b"\x00\x80" + bytes(7) + b"\x14\x45", True),  # not the usual descriptor: to be looked at closely
        (b"\x00\x53\x14\xd0\x00\x00\x00\x0b\x00\x00\x00\x04\x43\x43\xa0\x01x\x52\x05", True),
        (b"\x00\x53\x14\xd0\x00\x00\x00\x0a\x00\x00\x00\x04\x43\x43\xa0\x01x\x43", False),
        (b"\x00\x53\x14\xc0\x0d\x04\x70\x00\x00\x00\x00\x43\xa0\x01x\x52\x00", False),
        (b"\x00\x53\x14\xc0\x09\x04\x43\x43\xb0\x00\x00\x00\x01x\x43", True),
        (b"\x00\x53\x14\xc0", True),
        (b"\x00\x53\x15\xc0", False),
    ],
)
def test_the_scan_knows_the_usual_forms(body: bytes, found: bool) -> None:
    assert other_format(bytearray(SCAN_STATE), framed(body), 0, len(framed(body))) is found


STATE = b"\x00\x53\x34\xc0\x04\x01\xa0\x01x"


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        (b"\x08\x43\x43\xa0\x01x\x43\x42\x42\x40" + STATE, {WITH_STATE}),
        (b"\x08\x43\x43\xa0\x01x\x43\x42\x42\x40\x00\x53\x24\x45", {WITH_STATE}),
        (b"\x0b\x43\x43\xa0\x01x\x43\x42\x42\x40" + STATE + b"\x42\x42\x42", {WITH_STATE}),
        (b"\x09\x43\x43\xa0\x01x\x43\x42\x42\x40" + STATE + b"\x41", {OTHER_FORMAT}),  # resumed
        (b"\x09\x43\x43\xa0\x01x\x43\x42\x42\x40\x00\xa3\x01s\xc0\x01\x00\x42", {OTHER_FORMAT}),
        (b"\x09\x43\x43\xa0\x01x\x43\x42\x42\x40\x00\x53\x34\xc0\x7f", {OTHER_FORMAT}),  # its end is not there
        (b"\x08\x43\x43\xa0\x01x\x52\x05\x42\x42\x40" + STATE, {OTHER_FORMAT}),
        (b"\x08\x43\x43\xa0\x01x\x43\x42\x42\x40\x40", set()),
    ],
)
def test_the_scan_tells_states_from_formats(fields: bytes, found: set[int]) -> None:
    data = framed(b"\x00\x53\x14\xc0" + bytes([len(fields)]) + fields)
    assert {what for _, what, _ in scan(bytearray(SCAN_STATE), data, 0, len(data)) or ()} == found


def test_a_long_descriptor_hides_no_format(served: Served) -> None:
    with sender(served, "events/orders") as peer:
        fields = {"handle": 0, "delivery_id": 0, "delivery_tag": b"0", "message_format": 5}
        body = performative("transfer", **fields)
        assert body.startswith(b"\x00\x53\x14")
        peer.send_raw(framed(b"\x00\x80" + bytes(7) + b"\x14" + body[3:] + message(b"other")))
        assert peer.until("disposition", first=0).state.name == "rejected"


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("handle", [[Uint(1)], Uint(1), b"1", Uint(9)]),
        ("handle", [None, Uint(1), b"1", Uint(9)]),
        ("delivery-id", [Uint(0), "1", b"1", Uint(9)]),
        ("delivery-tag", [Uint(0), Uint(1), "1", Uint(9)]),
        ("message-format", [Uint(0), Uint(1), b"1", "9"]),
    ],
)
def test_a_field_of_a_wrong_type_hides_no_format(served: Served, watch: Watch, field: str, values: list[Any]) -> None:
    with sender(served, "events/orders") as peer:
        peer.send_raw(framed(encode(Described(Ulong(0x14), values)) + message(b"other")))
        close = peer.until("close", error="amqp:invalid-field")
        assert close.error["description"].startswith(f"{field} ")
    watch.bad_input("amqp:invalid-field")
