"""CloudEvents subscriptions: events of Kafka topics, pushed to sinks (CloudEvents Subscriptions API 0.1-rc01).

`subscription` (the object), `events` (records as CloudEvents and their encodings) and `delivery` (the events of one
subscription that are not done) are pure. `reading` reads the topics, `sinks` has one protocol per module, and `manager`
offers the operations over HTTP and AMQP. The room uses `bridges.kafka` for records and `gateway` for shared
services; only `gateway.server.composition` imports it.
"""
