"""Bridges of a policy (`bridge`): the gateway itself forwards events and stores checkpoints (KM-24)."""
