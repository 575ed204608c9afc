"""Kafka records, links and logs, as tests read and write them."""
