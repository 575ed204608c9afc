"""Gives an engine without a connection what its peer sends."""

from __future__ import annotations

from gateway.amqp.engine.engine import Engine


def receive_all(engine: Engine, data: bytes) -> None:
    """Let the engine process all of the bytes, in as many parts as it takes."""
    engine.receive(data)
    while engine.behind:
        engine.go_on()
