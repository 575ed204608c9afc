"""Monitoring of a running archive job: progress, metrics, and outages."""
