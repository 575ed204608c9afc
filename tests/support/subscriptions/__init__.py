"""Subscriptions: sinks on their own, and what they were sent."""
