"""Containers that the gateway connects to: links there, relays, pulls and their reply addresses."""
