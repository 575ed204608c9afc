"""Bytes of a SASL exchange, for the server, the client and whatever comes first on a connection."""

from __future__ import annotations

from gateway.amqp.codec.codec import Array, Symbol
from gateway.amqp.sasl.client import SaslClient
from gateway.amqp.sasl.frames import SASL_HEADER, Kind, frame
from gateway.amqp.sasl.server import SaslServer
from gateway.amqp.transport.protocol_header import ProtocolHeader
from tests.support.amqp.sasl import users

MECHANISMS = ("EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "ANONYMOUS")
"""Without PLAIN, which would spend the time on hashing."""
CLIENT = (*MECHANISMS, "PLAIN")
WORDS = (
    *(name.encode() for name in MECHANISMS),
    frame(Kind.INIT, Symbol("SCRAM-SHA-256"), b"n,,n=alice,r=abc"),
    frame(Kind.INIT, Symbol("EXTERNAL"), b""),
    frame(Kind.RESPONSE, b"c=biws,r=abc,p=AAAA"),
    frame(Kind.CHALLENGE, b"r=abc,s=AAAA,i=4096"),
    frame(Kind.OUTCOME, 0, b"v=AAAA"),
    b"n,,", b"n=alice", b"r=", b"i=4096", b"s=", b"p=", b"c=biws",
)  # fmt: skip
USERS = users()


def one(data: bytes) -> None:
    """The first byte says how the rest is cut and what the client would use."""
    if not data:
        return
    piece, mechanism, stream = (data[0] % 63) + 1, CLIENT[data[0] % len(CLIENT)], data[1:]
    server = SaslServer(MECHANISMS, USERS, tls=True, client_subject="device")
    _feed(server, stream, piece)
    assert not (server.done and server.failed)
    assert not server.failed or (server.reason and not server.user)
    assert not server.done or server.user in ("anonymous", "device")
    client = SaslClient([mechanism], "alice", "wonderland", tls=True)
    offer = frame(Kind.MECHANISMS, Array("symbol", (Symbol(mechanism),)))
    _feed(client, SASL_HEADER + offer + stream, piece)
    assert not (client.done and client.failed)
    assert not client.done or not mechanism.startswith("SCRAM")
    _feed(ProtocolHeader(plain_amqp=True), stream, piece)


def _feed(machine: SaslServer | SaslClient | ProtocolHeader, data: bytes, piece: int) -> None:
    for start in range(0, len(data), piece):
        machine.receive(data[start : start + piece])
