"""SASL: our client and server back to back, whole and byte by byte, and what must not get through."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from scramp import ScramClient

from gateway.amqp.codec.codec import Array, Described, Symbol, Ubyte, Ulong, decode, encode
from gateway.amqp.sasl.client import SaslClient
from gateway.amqp.sasl.frames import AMQP_HEADER, SASL_HEADER, Kind, frame, outcome
from gateway.amqp.sasl.frames import Code as SaslCode
from gateway.amqp.sasl.server import SaslServer
from tests.support.amqp.sasl import feed, run, users

ALL = ("EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "ANONYMOUS")
WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PIECES = pytest.mark.parametrize("piece", [1, 3, 1 << 20])


def server(*mechanisms: str, tls: bool = True, subject: str | None = None) -> SaslServer:
    return SaslServer(mechanisms or ALL, users(), tls=tls, client_subject=subject)


def client(
    *mechanisms: str, user: str = "alice", password: str = "wonderland", tls: bool = True
) -> SaslClient:
    return SaslClient(mechanisms, user, password, "gw.example", tls=tls)


def performatives(data: bytes) -> list[tuple[int, list[object]]]:
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        value, end = decode(data[:size], 8)
        assert end == size
        found.append((int(value.descriptor), value.value))
        data = data[size:]
    return found


def last_code(machine: SaslServer) -> int:
    kind, fields = performatives(machine.take().removeprefix(SASL_HEADER))[-1]
    assert kind == Kind.OUTCOME
    return int(fields[0])


@PIECES
@pytest.mark.parametrize("mechanism", WITH_PASSWORD)
def test_password_mechanisms_succeed(mechanism: str, piece: int) -> None:
    ours, theirs = client(mechanism), server()
    run(ours, theirs, piece, AMQP_HEADER + b"more")
    assert (ours.done, theirs.done, theirs.user, theirs.mechanism) == (True, True, "alice", mechanism)
    assert theirs.rest == AMQP_HEADER + b"more"
    assert theirs.rest == b""


@pytest.mark.parametrize("mechanism", WITH_PASSWORD)
def test_names_and_passwords_beyond_ascii(mechanism: str) -> None:
    # Decomposed on the client's side, composed in the file: SASLprep makes them one.
    ours, theirs = client(mechanism, user="jo\u0308rg,x=1", password="pa\u0308sswörd"), server()
    run(ours, theirs)
    assert theirs.user == "jörg,x=1"
    assert ours.done


@PIECES
def test_anonymous(piece: int) -> None:
    ours, theirs = client("ANONYMOUS"), server("ANONYMOUS", tls=False)
    run(ours, theirs, piece)
    assert ours.done
    assert theirs.user == "anonymous"


@PIECES
def test_external_takes_the_certificates_name(piece: int) -> None:
    ours, theirs = client("EXTERNAL"), server(subject="device-7")
    run(ours, theirs, piece)
    assert ours.done
    assert theirs.user == "device-7"


@pytest.mark.parametrize("name", ["anonymous", "*"])
def test_external_refuses_the_name_of_no_user(name: str) -> None:
    # Rules for everybody and for connections without a login would apply to a certificate with this name.
    ours, theirs = client("EXTERNAL"), server(subject=name)
    run(ours, theirs)
    assert (theirs.done, theirs.reason) == (False, "reserved-name")


def test_nothing_goes_on_while_a_password_is_checked() -> None:
    theirs = server()
    theirs.take()
    theirs.receive(frame(Kind.INIT, Symbol("PLAIN"), b"\0alice\0wonderland") + AMQP_HEADER + b"open")
    assert theirs.check is not None
    assert (theirs.take(), theirs.done, theirs.failed) == (b"", False, False)
    theirs.checked(theirs.check())
    assert (theirs.done, theirs.user, theirs.rest) == (True, "alice", AMQP_HEADER + b"open")


def test_external_refuses_another_identity() -> None:
    theirs = server(subject="device-7")
    feed(theirs, frame(Kind.INIT, Symbol("EXTERNAL"), b"device-8"))
    assert last_code(theirs) == SaslCode.AUTH
    assert theirs.failed


@PIECES
@pytest.mark.parametrize("mechanism", WITH_PASSWORD)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "wonderland"), ("alice", "")])
def test_bad_credentials_fail_alike(mechanism: str, user: str, password: str, piece: int) -> None:
    ours, theirs = client(mechanism, user=user, password=password), server()
    run(ours, theirs, piece, AMQP_HEADER)
    assert (theirs.done, theirs.failed, theirs.reason, theirs.user) == (False, True, "credentials", "")
    assert (ours.done, ours.failed, ours.reason) == (False, True, "credentials")
    assert theirs.rest == b""


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_an_unknown_user_looks_like_a_known_one(mechanism: str) -> None:
    def challenge(name: str) -> bytes:
        theirs = server()
        theirs.take()
        feed(theirs, frame(Kind.INIT, Symbol(mechanism), f"n,,n={name},r=nonce".encode()))
        ((kind, fields),) = performatives(theirs.take())
        assert kind == Kind.CHALLENGE
        assert isinstance(fields[0], bytes)
        return fields[0]

    known, unknown, again = (challenge(name) for name in ("alice", "nobody", "nobody"))
    assert len(known) == len(unknown)
    assert known.split(b",")[2] == unknown.split(b",")[2]
    assert unknown.split(b",")[1] == again.split(b",")[1]


def test_what_is_offered_depends_on_the_connection() -> None:
    def offered(machine: SaslServer) -> tuple[object, ...]:
        ((_, fields),) = performatives(machine.take().removeprefix(SASL_HEADER))
        assert isinstance(fields[0], Array)
        return fields[0].items

    assert offered(server(tls=False)) == ("SCRAM-SHA-512", "SCRAM-SHA-256", "ANONYMOUS")
    assert offered(server()) == ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "ANONYMOUS")
    assert offered(server(subject="device-7")) == ALL
    allowed = SaslServer(["PLAIN"], users(), tls=False, allow_plain_without_tls=True)
    assert offered(allowed) == ("PLAIN",)


def test_what_was_not_offered_cannot_be_used() -> None:
    theirs = server(tls=False)
    feed(theirs, frame(Kind.INIT, Symbol("PLAIN"), b"\0alice\0wonderland"))
    assert last_code(theirs) == SaslCode.AUTH
    assert theirs.reason == "mechanism"


def test_nothing_to_offer_fails_at_once() -> None:
    theirs = server("PLAIN", tls=False)
    assert last_code(theirs) == SaslCode.SYS_PERM
    assert theirs.reason == "nothing-to-offer"


def test_one_attempt_per_connection() -> None:
    theirs = server()
    feed(theirs, frame(Kind.INIT, Symbol("PLAIN"), b"\0alice\0wrong"))
    theirs.take()
    feed(theirs, frame(Kind.INIT, Symbol("PLAIN"), b"\0alice\0wonderland"))
    assert (theirs.done, theirs.take()) == (False, b"")


def test_init_and_more_in_one_piece() -> None:
    theirs = server()
    init = frame(Kind.INIT, Symbol("PLAIN"), b"\0alice\0wonderland", "gw.example")
    feed(theirs, init + AMQP_HEADER + b"open")
    assert theirs.done
    assert theirs.rest == AMQP_HEADER + b"open"
    feed(theirs, b" and more")
    assert theirs.rest == b" and more"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_an_absent_initial_response_is_asked_for(mechanism: str) -> None:
    theirs = server()
    theirs.take()
    feed(theirs, frame(Kind.INIT, Symbol(mechanism)))
    assert performatives(theirs.take()) == [(Kind.CHALLENGE, [b""])]
    theirs.receive(
        frame(Kind.RESPONSE, b"\0alice\0wonderland" if mechanism == "PLAIN" else b"n,,n=alice,r=x")
    )
    assert not theirs.failed


def test_symbolic_descriptors_and_extended_headers_are_understood() -> None:
    body = encode(Described(Symbol("amqp:sasl-init:list"), [Symbol("ANONYMOUS")]))
    theirs = server()
    feed(theirs, (12 + len(body)).to_bytes(4, "big") + b"\x03\x01\x00\x00extd" + body)
    assert theirs.done


@pytest.mark.parametrize(
    "response",
    [b"", b"alice", b"\0alice", b"bob\0alice\0wonderland", b"\0alice\0wonderland\0", b"\0\xff\0x", b"\0\0"],
)
def test_plain_messages_that_are_none(response: bytes) -> None:
    theirs = server()
    feed(theirs, frame(Kind.INIT, Symbol("PLAIN"), response))
    assert last_code(theirs) == SaslCode.AUTH


def test_plain_with_its_own_authorization_identity() -> None:
    theirs = server()
    feed(theirs, frame(Kind.INIT, Symbol("PLAIN"), b"alice\0alice\0wonderland"))
    assert theirs.user == "alice"


def scram_with_identity(user: str, password: str, identity: str, kept: str | None = None) -> SaslServer:
    """A SCRAM client that names an authorization identity (RFC 5802, 7), and `kept` instead in its last message."""
    theirs, client = server(), ScramClient(["SCRAM-SHA-256"], user, password)
    first = client.get_client_first().replace("n,,", f"n,a={identity},", 1)
    feed(theirs, frame(Kind.INIT, Symbol("SCRAM-SHA-256"), first.encode()))
    if theirs.failed:
        return theirs
    _, (challenge,) = performatives(theirs.take().removeprefix(SASL_HEADER))[-1]
    assert isinstance(challenge, bytes)
    client.set_server_first(challenge.decode())
    header = f"n,a={identity if kept is None else kept},".encode()
    client.gs2_header = SimpleNamespace(make_cbind_input=lambda binding: header)
    feed(theirs, frame(Kind.RESPONSE, client.get_client_final().encode()))
    return theirs


@pytest.mark.parametrize(
    ("user", "password", "identity"),
    [("alice", "wonderland", "alice"), ("jörg,x=1", "pässwörd", "jörg=2Cx=3D1")],
)
def test_scram_with_its_own_authorization_identity(user: str, password: str, identity: str) -> None:
    assert scram_with_identity(user, password, identity).user == user


@pytest.mark.parametrize(
    ("identity", "kept", "reason"),
    [
        ("bob", None, "authorization-identity"),
        ("alice=2C", None, "authorization-identity"),
        ("alice", "", "credentials"),
        ("", None, "authorization-identity"),
    ],
)
def test_scram_with_another_authorization_identity(identity: str, kept: str | None, reason: str) -> None:
    theirs = scram_with_identity("alice", "wonderland", identity, kept)
    assert last_code(theirs) == SaslCode.AUTH
    assert (theirs.reason, theirs.user) == (reason, "")


def test_channel_binding_is_not_pretended() -> None:
    theirs = server()
    feed(theirs, frame(Kind.INIT, Symbol("SCRAM-SHA-256"), b"p=tls-unique,,n=alice,r=x"))
    assert last_code(theirs) == SaslCode.AUTH


def raw(body: bytes, *, kind: int = 1, doff: int = 2) -> bytes:
    return (8 + len(body)).to_bytes(4, "big") + bytes([doff, kind, 0, 0]) + body


MALFORMED = {
    "amqp frame": raw(b"", kind=0),
    "no body": raw(b""),
    "doff below 2": raw(encode(None), doff=1),
    "doff past the end": raw(b"", doff=3),
    "size below 8": b"\0\0\0\7\2\1\0\0",
    "oversized": b"\0\1\0\0\2\1\0\0",
    "garbage": raw(b"\xff\xff"),
    "not described": raw(encode([Symbol("PLAIN")])),
    "not a list": raw(encode(Described(Ulong(0x41), {}))),
    "unknown performative": raw(encode(Described(Ulong(0x10), []))),
    "hostile descriptor": raw(encode(Described([1], []))),
    "two values": raw(encode(Described(Ulong(0x41), [Symbol("PLAIN")])) + b"\x40"),
    "no mechanism": frame(Kind.INIT),
    "mechanism is a string": frame(Kind.INIT, "PLAIN"),
    "response is a string": frame(Kind.INIT, Symbol("PLAIN"), "alice"),
    "hostname is binary": frame(Kind.INIT, Symbol("PLAIN"), b"", b"host"),
}


@PIECES
@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_malformed_frames_end_the_exchange(data: bytes, piece: int) -> None:
    theirs = server()
    for start in range(0, len(data), piece):
        feed(theirs, data[start : start + piece])
    assert last_code(theirs) == SaslCode.SYS_PERM
    assert (theirs.failed, theirs.reason) == (True, "malformed")


@pytest.mark.parametrize("kind", [Kind.MECHANISMS, Kind.CHALLENGE, Kind.RESPONSE, Kind.OUTCOME])
def test_frames_out_of_order(kind: Kind) -> None:
    theirs = server()
    feed(theirs, frame(kind, b"x"))
    assert last_code(theirs) == SaslCode.SYS_PERM
    assert theirs.reason == "out-of-order"


def test_a_truncated_frame_waits() -> None:
    theirs = server()
    theirs.take()
    feed(theirs, frame(Kind.INIT, Symbol("PLAIN"), b"\0alice\0wonderland")[:-1])
    assert (theirs.done, theirs.failed, theirs.take()) == (False, False, b"")


# The client's side.


def offer(ours: SaslClient, *mechanisms: str) -> None:
    assert ours.take() == SASL_HEADER
    ours.receive(SASL_HEADER + frame(Kind.MECHANISMS, Array("symbol", tuple(map(Symbol, mechanisms)))))


def test_the_client_takes_the_strongest() -> None:
    ours = client("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    offer(ours, "PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256", "X-OTHER")
    assert ours.mechanism == "SCRAM-SHA-512"


def test_the_client_takes_a_single_symbol_for_a_list() -> None:
    ours = client("PLAIN")
    ours.take()
    ours.receive(SASL_HEADER + frame(Kind.MECHANISMS, Symbol("PLAIN")))
    init = [Symbol("PLAIN"), b"\0alice\0wonderland", "gw.example"]
    assert performatives(ours.take()) == [(Kind.INIT, init)]


def test_the_client_never_sends_a_password_in_clear() -> None:
    ours = client("PLAIN", tls=False)
    offer(ours, "PLAIN")
    assert (ours.failed, ours.reason, ours.take()) == (True, "mechanism", b"")
    reported = SaslClient(["PLAIN"], "alice", "wonderland", tls=False, allow_plain_without_tls=True)
    offer(reported, "PLAIN")
    assert b"wonderland" in reported.take()


@pytest.mark.parametrize("header", [AMQP_HEADER, b"HTTP/1.1", b"AMQP\x03\x00\x00\x00"])
@PIECES
def test_the_client_wants_a_sasl_header(header: bytes, piece: int) -> None:
    ours = client("PLAIN")
    for start in range(0, len(header), piece):
        ours.receive(header[start : start + piece])
    assert (ours.failed, ours.reason) == (True, "protocol-header")


@pytest.mark.parametrize(
    "challenge",
    [b"", b"\xff", b"r=x,s=c2FsdA==,i=4096", b"r=%s,s=c2FsdHNhbHRzYWx0,i=9000000", b"e=other-error", b"r=%s"],
)
def test_the_client_checks_the_servers_challenge(challenge: bytes) -> None:
    ours = client("SCRAM-SHA-256")
    offer(ours, "SCRAM-SHA-256")
    ((_, fields),) = performatives(ours.take())
    assert isinstance(fields[1], bytes)
    nonce = fields[1].split(b"r=")[1]
    ours.receive(frame(Kind.CHALLENGE, challenge.replace(b"%s", nonce + b"more")))
    assert (ours.failed, ours.reason) == (True, "server-proof")


@pytest.mark.parametrize("proof", [None, b"", b"v=AAAA", b"\xff", b"e=other-error"])
def test_the_client_does_not_believe_a_server_without_proof(proof: bytes | None) -> None:
    ours, theirs = client("SCRAM-SHA-256"), server()
    feed(theirs, ours.take().removeprefix(SASL_HEADER))
    ours.receive(theirs.take())
    feed(theirs, ours.take())
    ours.receive(theirs.take())
    ours.take()
    ours.receive(outcome(SaslCode.OK, proof))
    assert (ours.done, ours.reason) == (False, "server-proof")


def test_the_client_takes_the_proof_as_a_challenge_too() -> None:
    ours, theirs = client("SCRAM-SHA-256"), server()
    feed(theirs, ours.take().removeprefix(SASL_HEADER))
    ours.receive(theirs.take())
    feed(theirs, ours.take())
    ours.receive(theirs.take())
    feed(theirs, ours.take())
    ((_, fields),) = performatives(theirs.take())
    ours.receive(frame(Kind.CHALLENGE, fields[1]))
    assert performatives(ours.take()) == [(Kind.RESPONSE, [b""])]
    ours.receive(outcome(SaslCode.OK) + AMQP_HEADER)
    assert (ours.done, ours.rest) == (True, AMQP_HEADER)


def test_a_server_that_answers_before_it_was_asked() -> None:
    ours = client("ANONYMOUS")
    ours.receive(SASL_HEADER + outcome(SaslCode.OK))
    assert (ours.done, ours.reason) == (False, "out-of-order")


def test_a_server_with_trouble_of_its_own() -> None:
    ours = client("ANONYMOUS")
    offer(ours, "ANONYMOUS")
    ours.receive(frame(Kind.OUTCOME, Ubyte(SaslCode.SYS_TEMP)))
    assert (ours.failed, ours.reason) == (True, "server-error")
