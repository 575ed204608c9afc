"""Kafka topics as AMQP event-stream nodes. Uses the gateway's messages, links and state; never its server."""
