"""The tick of a proton transport: heartbeats to the peer, and its silence (AMQP 1.0 part 2, 2.4.5)."""

from __future__ import annotations

from cproton_ffi import lib

from gateway.amqp.proton.handles import ProtonTransport


def tick(transport: ProtonTransport, now_ms: int, unheard: bool) -> int:
    """Tick; returns the time of the next one in ms, 0: never.

    `unheard`: some of what the peer has sent waits outside of proton, which would take it for silence.
    """
    silence = lib.pn_transport_get_idle_timeout(transport) if unheard else 0
    if not silence:
        return int(lib.pn_transport_tick(transport, now_ms))
    lib.pn_transport_set_idle_timeout(transport, 0)
    deadline = int(lib.pn_transport_tick(transport, now_ms))
    lib.pn_transport_set_idle_timeout(transport, silence)
    return min(deadline or now_ms + silence, now_ms + silence)
