"""The AMQP 1.0 type system: bytes to values and back (part 1). Pure."""
