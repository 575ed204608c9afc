"""The NATS sink, core NATS and JetStream (NATS binding): `client` is nats-py's with TLS and shared confirmations.

Only this room imports nats-py.
"""

from __future__ import annotations

from bridges.cloudevents.sinks.nats.sink import NatsSink, NatsTarget, open_nats

__all__ = ["NatsSink", "NatsTarget", "open_nats"]
