"""What operators see: logs, counters, metrics, readiness, and the one redaction."""
