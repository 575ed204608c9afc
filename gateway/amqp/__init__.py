"""AMQP 1.0 in layers: codec, message, proton, link, engine, sasl, transport. Knows no node and no policy."""
