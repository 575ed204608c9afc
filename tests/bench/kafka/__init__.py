"""The Kafka cases, and confluent-kafka alone as their baseline."""
