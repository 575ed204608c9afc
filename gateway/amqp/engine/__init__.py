"""One AMQP connection, sans-IO, around proton's C engine: bytes in, events to handlers, bytes out (part 2).

Uses proton, link, codec, message and the limits of `gateway.held`. There is no socket, and a timer only in `pressure`,
for peers that are slowed down. Links know their engine only as `link.port.EnginePort`, and an engine its owner only as
`listener.EngineListener`.
"""
