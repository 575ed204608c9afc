"""The AMQP 1.0 type system: bytes to values and back (part 1).

Pure: it uses `gateway.errors` and nothing else. Import from `codec`; `types` alone has all value classes as `t.Uint`.
"""
