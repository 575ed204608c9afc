"""proton's structures for one connection, configured and bound together. Part of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cproton_ffi import lib

if TYPE_CHECKING:
    from gateway.amqp.link.config import EngineConfig
    from gateway.amqp.proton.handles import ProtonCollector, ProtonConnection, ProtonTransport


def connected(config: EngineConfig, *, server: bool) -> tuple[ProtonConnection, ProtonTransport, ProtonCollector]:
    """A connection with its transport and its collector of events; all three are the caller's to free.

    `server`: the peer has connected to us.
    """
    connection: ProtonConnection = lib.pn_connection()
    transport: ProtonTransport = lib.pn_transport()
    collector: ProtonCollector = lib.pn_collector()
    if server:
        lib.pn_transport_set_server(transport)
    lib.pn_transport_set_max_frame(transport, config.max_frame_size)
    lib.pn_transport_set_channel_max(transport, config.channel_max)
    lib.pn_transport_set_idle_timeout(transport, config.idle_timeout)
    lib.pn_connection_collect(connection, collector)
    lib.pn_connection_set_container(connection, config.container_id.encode())
    if config.hostname is not None:
        lib.pn_connection_set_hostname(connection, config.hostname.encode())
    lib.pn_transport_bind(transport, connection)
    return connection, transport, collector
