"""HTTP sinks: requests, the meaning of their answers, consent (web hooks), and tokens."""
