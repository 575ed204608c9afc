"""Connections as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin.documents.common import Document, moment, shown

if TYPE_CHECKING:
    from gateway.amqp.transport.connection import Connection
    from gateway.observability.roster import Entry


def connection_document(entry: Entry[Connection]) -> Document:
    """A connection of a listener or connector."""
    connection = entry.item
    peer, engine, account = connection.peer, connection.engine, connection.account
    return {
        "id": str(entry.number),
        "name": connection.name,
        "state": state_of(connection),
        "scope": peer.scope,
        "connector": peer.connector or None,
        "peer": peer.address,
        "user": peer.user if engine is not None else None,
        "mechanism": peer.mechanism or None,
        "tls": tls_of(connection),
        "container": None if engine is None else shown(engine.remote_container),
        "since": moment(entry.since),
        "links": 0 if engine is None else engine.live_links,
        "unsettled": 0 if engine is None else engine.unsettled,
        "held_bytes": 0 if account is None else account.held.size,
        "bytes_in": connection.bytes_in,
        "bytes_out": connection.bytes_out,
    }


def state_of(connection: Connection) -> str:
    """`opening` (before its open), `open` or `closing`."""
    engine = connection.engine
    if engine is None or not engine.opened:
        return "opening"
    return "closing" if engine.closed else "open"


def tls_of(connection: Connection) -> str | None:
    """The version of TLS, as `TLSv1.3`; None: the connection has no TLS."""
    found = connection.ssl_object
    return None if found is None else found.version()
