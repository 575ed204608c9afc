"""SASL in front of the engine (AMQP 1.0 part 5, 5.3): proton only ever sees what follows the exchange.

Both machines are sans-IO: `receive(data)`, `take()`, then `done` (with `user`, `mechanism` and `rest`) or
`failed` (with `reason`). This is their face; a listener needs the server's half alone, and imports that.
"""

from __future__ import annotations

from gateway.amqp.sasl_client import SaslClient
from gateway.amqp.sasl_frames import AMQP_HEADER, MAX_FRAME, SASL_HEADER
from gateway.amqp.sasl_mechanisms import ANONYMOUS_USER
from gateway.amqp.sasl_server import SaslServer, offered

__all__ = ["AMQP_HEADER", "ANONYMOUS_USER", "MAX_FRAME", "SASL_HEADER", "SaslClient", "SaslServer", "offered"]
