"""One AMQP connection, sans-IO, around proton's C engine: bytes in, events to handlers, bytes out (part 2).

Uses codec, message, link and the limits of `gateway.held`. There is no socket and no clock, but for `pressure`, which
looks after a while at a peer that is slowed down. Links know their engine by `port.EnginePort` alone, and an engine its
owner by `listener.EngineListener`.
"""
