"""Response routing as pure functions (RA 2): cookies, annotations, rewriting of requests, restoring of responses.

Pure: uses `gateway.amqp.codec`, `gateway.amqp.message` and `gateway.errors`; the time is an argument.
"""
