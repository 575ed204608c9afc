"""Stored subscriptions, in memory or in Redis, with a stream of their changes."""
