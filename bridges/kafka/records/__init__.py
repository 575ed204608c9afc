"""AMQP messages and Kafka records, mapped onto each other (KM-1 to KM-13). Pure."""
