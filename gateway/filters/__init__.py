"""AMQP filters (FX): `parse` turns each language into a predicate, `evaluate` matches predicates with messages, `index`
finds the predicates that match among many, `position` finds where reading of an event log may begin.

Pure: uses `gateway.amqp.codec`, `gateway.amqp.message` and `gateway.errors`.
"""
