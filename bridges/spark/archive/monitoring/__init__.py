"""What an archive job tells while it runs: progress, metrics, and outages that it waits out."""
