"""HTTP sinks: requests, what their answers mean, consent (web hooks), and tokens."""
