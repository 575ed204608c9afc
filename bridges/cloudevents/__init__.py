"""CloudEvents subscriptions: events of Kafka topics, pushed to sinks (CloudEvents Subscriptions API 0.1-rc01).

`subscription` (the object), `events` (records as CloudEvents and their encodings) and `delivery` (what one subscription
has under way) are pure. `reading` takes records from the topics, `sinks` speaks one protocol a module, and `manager`
offers the operations over HTTP and AMQP. The room uses `bridges.kafka` for records and `gateway` for what gateways
share; nothing but `gateway.server.composition` imports it.
"""
