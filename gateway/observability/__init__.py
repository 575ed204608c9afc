"""What operators see: logs, counters, metrics and readiness, with redaction of secrets."""
