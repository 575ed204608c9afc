"""The engine with no socket: what becomes of a connection whose protocol engine gives up, and of its output."""

from __future__ import annotations

import pytest
from cproton_ffi import lib

from gateway.amqp.engine import Engine
from gateway.amqp.engine_config import EngineConfig
from gateway.amqp.link import Link
from gateway.errors import AmqpError
from tests.support.frames import AMQP_HEADER, Frame, framed, parse, performative


class Owner:
    """Opens at once, and keeps how the connection ended."""

    def __init__(self, **config: int) -> None:
        self.engine = Engine(EngineConfig("gw", **config), self, server=True)
        self.error: AmqpError | None = None

    def say(self, data: bytes) -> list[Frame]:
        """Frames to the engine, and its answers."""
        self.engine.receive(data)
        return self.frames()

    def frames(self) -> list[Frame]:
        data, found = self.engine.take().removeprefix(AMQP_HEADER), []
        while data:
            size = int.from_bytes(data[:4], "big")
            if (frame := parse(data[:size])) is not None:
                found.append(frame)
            data = data[size:]
        return found

    def engine_opened(self, engine: Engine) -> None:
        engine.open()

    def engine_closed(self, engine: Engine, error: AmqpError | None) -> None:
        self.error = error

    def engine_dirty(self) -> None: ...
    def link_requested(self, link: Link) -> None: ...
    def link_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_ended(self, link: Link, error: AmqpError | None) -> None: ...
    def message_refused(self, link: Link, error: AmqpError) -> None: ...


def opened(**config: int) -> Owner:
    owner = Owner(**config)
    assert [frame.kind for frame in owner.say(AMQP_HEADER + framed(performative("open", container_id="p")))] == ["open"]
    return owner


def test_a_silence_of_proton_ends_the_connection(capfd: pytest.CaptureFixture[str]) -> None:
    owner = opened(channel_max=0)
    engine = owner.engine
    for _ in range(2):  # past the gateway's own count of channels: proton has one, and gives up at the second
        lib.pn_session_open(lib.pn_session(engine._connection))
    *_, close = owner.frames()
    assert (close.kind, close.error["condition"]) == ("close", "amqp:internal-error")
    assert owner.error is not None
    assert "process error" in str(owner.error.__cause__)
    assert "process" not in close.error["description"]
    assert engine.faulted
    assert engine.finished
    assert capfd.readouterr().err == ""
    engine.free()
