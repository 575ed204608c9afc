"""Subscription managers in tests: their policy, a client of their API, and who writes events."""
