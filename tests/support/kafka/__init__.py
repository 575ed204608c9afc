"""Records, links and logs of Kafka as tests read and write them."""
