"""AMQP 1.0 in layers: codec, message, sasl, transport, engine, link. Knows no node and no policy."""
