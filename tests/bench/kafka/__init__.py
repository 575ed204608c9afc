"""Kafka's cases and what confluent-kafka does alone."""
