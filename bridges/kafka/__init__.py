"""Kafka topics as AMQP event-stream nodes (ES; KM).

Each cluster of the policy is a `bridge.ClusterBridge`, which makes a `node.KafkaNode` for each route. Packages: `admin`
(topics and offsets), `consume` (topics to receive links), `groups` (consumer groups and durable positions), `produce`
(send links to topics) and `records` (messages to records and back). Uses the gateway's messages, links, filters and
state, but not its server.
"""
