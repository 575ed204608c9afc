"""What all rooms of the bridge use: librdkafka's settings and errors, counters, partition names, state tables."""
