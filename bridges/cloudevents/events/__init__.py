"""CloudEvents: events read from Kafka records, the filters on them, and their forms in each protocol. Pure.

`event` reads a record; `dialects` parses filters, `filter` evaluates one and `index` many; `bindings` encodes events
for sinks. The room uses `gateway.filters` for predicates and indexes, and `bridges.kafka.records`.
"""
