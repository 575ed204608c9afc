"""CloudEvents subscriptions: events of Kafka topics, pushed to sinks (CloudEvents Subscriptions API 0.1-rc01).

`service` runs one manager per entry of the policy. A manager (`manager`) keeps subscriptions (`subscription`, `model`)
in the store and answers the API; its dispatcher (`dispatch`) runs a delivery worker for each, which reads the streams
(`reading`), selects events (`events`), queues them (`delivery`) and sends them (`sinks`). `cli` has the commands. The
package uses `bridges.kafka` for logs and records, and services of `gateway`; only `gateway.server.composition` imports
it.
"""
