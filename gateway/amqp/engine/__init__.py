"""One AMQP connection, sans-IO, around proton's: bytes in, events to handlers, bytes out (part 2)."""
