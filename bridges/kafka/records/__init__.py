"""The mapping of AMQP messages and Kafka records onto each other (KM-1 to KM-13): `encode` writes records,
`decode` reads them.

Pure: uses `gateway.amqp.codec`, `gateway.amqp.message` and `gateway.errors`; no Kafka client.
"""
