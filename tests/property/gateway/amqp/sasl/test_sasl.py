"""Any bytes either move a SASL exchange on or end it as failed; nothing else is ever raised."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.codec.codec import Array, Symbol
from gateway.amqp.sasl.client import SaslClient
from gateway.amqp.sasl.frames import SASL_HEADER, Kind, frame
from gateway.amqp.sasl.server import SaslServer
from gateway.amqp.transport.protocol_header import ProtocolHeader
from tests.support.amqp.sasl import users

ALL = ("EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "ANONYMOUS")
# Hashing a password per example would be most of the run: names that end before it are as hostile.
NO_PASSWORD = ("EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "ANONYMOUS")

scram_like = st.from_regex(r"\A[nyp]?(=[a-z-]*)?,(a=[a-z=]*)?,?([nrscipvem]=[^\0]{0,12},?){0,5}\Z").map(
    str.encode
)
payload = st.one_of(st.none(), st.binary(max_size=64), scram_like, st.text(max_size=8))
one_frame = st.builds(
    frame, st.sampled_from(Kind), st.one_of(st.sampled_from(ALL).map(Symbol), payload), payload
)
bodies = st.binary(max_size=40).map(lambda body: (8 + len(body)).to_bytes(4, "big") + b"\2\1\0\0" + body)
stream = st.lists(st.one_of(one_frame, one_frame, bodies, st.binary(max_size=12)), max_size=5).map(b"".join)
cuts = st.integers(1, 64)


def feed(machine: SaslServer | SaslClient | ProtocolHeader, data: bytes, piece: int) -> None:
    for start in range(0, len(data), piece):
        machine.receive(data[start : start + piece])


@given(stream, cuts)
def test_the_server_survives_any_bytes(data: bytes, piece: int) -> None:
    machine = SaslServer(NO_PASSWORD, users(), tls=True, client_subject="device")
    feed(machine, data, piece)
    assert not (machine.done and machine.failed)
    assert not machine.failed or (machine.reason and not machine.user)
    assert not machine.done or machine.user in ("anonymous", "device")
    machine.take()
    feed(machine, b"\xff" * 16, piece)
    assert machine.done or machine.failed


@given(st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]), scram_like, scram_like)
def test_scram_messages_of_any_shape(mechanism: str, first: bytes, last: bytes) -> None:
    machine = SaslServer([mechanism], users(), tls=True)
    machine.receive(frame(Kind.INIT, Symbol(mechanism), first) + frame(Kind.RESPONSE, last))
    assert machine.failed


@given(st.sampled_from(ALL), stream, cuts)
def test_the_client_survives_any_bytes(mechanism: str, data: bytes, piece: int) -> None:
    machine = SaslClient([mechanism], "alice", "wonderland", tls=True)
    offer = frame(Kind.MECHANISMS, Array("symbol", (Symbol(mechanism),)))
    feed(machine, SASL_HEADER + offer + data, piece)
    assert not (machine.done and machine.failed)
    assert not machine.done or not mechanism.startswith("SCRAM")


@given(st.sampled_from(ALL), stream, st.integers(0, 200))
def test_cutting_the_stream_changes_nothing(mechanism: str, data: bytes, cut: int) -> None:
    def state(*pieces: bytes) -> tuple[bool, bool, str, bytes]:
        machine = SaslServer(
            [name for name in ALL if name == mechanism != "PLAIN"] or NO_PASSWORD, None, tls=True
        )
        for piece in pieces:
            machine.receive(piece)
        return machine.done, machine.failed, machine.reason, machine.rest

    assert state(data) == state(data[:cut], data[cut:])


greetings = st.one_of(
    st.binary(max_size=12),
    st.binary(max_size=8).map(lambda tail: b"AMQP" + tail),
    st.binary(max_size=8).map(lambda tail: b"AMQP\3\1\0\0" + tail),
    st.binary(max_size=8).map(lambda tail: b"GET /" + tail),
)


@given(greetings, st.booleans())
def test_a_greeting_is_judged_alike_however_it_is_cut(data: bytes, plain: bool) -> None:
    def state(piece: int) -> tuple[object, ...]:
        machine = ProtocolHeader(plain_amqp=plain)
        feed(machine, data, piece)
        return machine.speaks, machine.failed, machine.reason, machine.take(), machine.speaks and machine.rest

    whole, bytewise = state(1 << 20), state(1)
    assert whole == bytewise
    assert len(data) < 8 or whole[0] or whole[1]
