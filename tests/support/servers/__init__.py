"""Real servers of the suite: Kafka, Artemis, Redis, their certificates and disks."""
