"""The mapping between AMQP messages and Kafka records (KM-1 to KM-13): `encode` makes records, `decode` makes messages.

Pure: uses `gateway.amqp.codec`, `gateway.amqp.message` and `gateway.errors`, but no Kafka client.
"""
