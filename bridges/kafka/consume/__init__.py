"""Topics to receive links: fetching, selecting, filtering, delivering, redelivering."""
