"""Kafka topics as AMQP event-stream nodes (ES; KM).

Each cluster of the policy is a `bridge.ClusterBridge`, which makes a `node.KafkaNode` for each route. Rooms: `admin`
(topics and offsets), `consume` (topics to receive links), `groups` (consumer groups and durable positions), `produce`
(send links to topics) and `records` (the mapping of messages and records). Uses the gateway's messages, links, filters
and state; never its server.
"""
