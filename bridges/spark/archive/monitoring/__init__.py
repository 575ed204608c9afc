"""What an archive job reports while it runs: progress, metrics, and outages."""
