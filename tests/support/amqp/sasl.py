"""Two SASL machines back to back, and the users that the SASL tests share."""

from __future__ import annotations

from functools import cache

from gateway.amqp.sasl.client import SaslClient
from gateway.amqp.sasl.frames import SASL_HEADER
from gateway.amqp.sasl.server import SaslServer
from gateway.amqp.sasl.user_file import UserStore, load_users, make_entry, put_user


@cache
def users() -> UserStore:
    """`alice` with the password `wonderland`, and `jörg,x=1` with `pässwörd`."""
    text = put_user("", "alice", make_entry("wonderland", salt=b"salt for alice!!"))
    return load_users(put_user(text, "jörg,x=1", make_entry("pässwörd", salt=b"salt for joerg!!")))


def run(client: SaslClient, server: SaslServer, piece: int = 1 << 20, after: bytes = b"") -> None:
    """Carry bytes to and fro, `piece` at a time, until nobody has anything to say.

    The server machine starts after the header, so the client's is taken off here; `after` follows the
    client's last bytes at once.
    """
    outgoing = client.take()
    assert outgoing.startswith(SASL_HEADER)
    outgoing = outgoing.removeprefix(SASL_HEADER)
    while True:
        incoming = server.take()
        if not (outgoing or incoming):
            break
        feed(server, outgoing, piece)
        feed(client, incoming, piece)
        outgoing = client.take()
    feed(server, after, piece)


def feed(machine: SaslClient | SaslServer, data: bytes, piece: int = 1 << 20) -> None:
    """Hand bytes to a machine, `piece` at a time; a server's password checks are made at once."""
    for start in range(0, len(data), piece):
        machine.receive(data[start : start + piece])
        if (check := machine.check) is not None:
            machine.checked(check())
