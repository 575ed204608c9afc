"""Kafka topics as AMQP event-stream nodes (ES; KM).

Each cluster of the policy is a `bridge.ClusterBridge`, which makes a `node.KafkaNode` for each route. From the ground
up: `common` (the client library, errors, counters), `records` (messages to records and back), `admin` (topics and
offsets), `consume` (readers for many links), `clusters`, `produce`, `transactions`, `links` (of peers to topics) and
`groups` (consumer groups). Uses the gateway's messages, links, filters and state, but not its server.
"""
