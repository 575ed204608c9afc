"""SASL over a scripted peer's socket, with the gateway's own client machine (proton speaks SCRAM only with Cyrus)."""

from __future__ import annotations

from gateway.amqp.sasl.client import SaslClient
from tests.support.amqp.peer import Peer


def authenticate(peer: Peer, mechanism: str, user: str | None = None, password: str | None = None) -> SaslClient:
    """Go through a whole exchange; the client says how it ended."""
    client = SaslClient((mechanism,), user, password, "localhost", tls=True)
    peer.send_raw(client.take())
    client.receive(peer.read(8))
    while not (client.done or client.failed):
        head = peer.read(4)
        if len(head) < 4:
            break
        client.receive(head + peer.read(int.from_bytes(head, "big") - 4))
        if out := client.take():
            peer.send_raw(out)
    return client
