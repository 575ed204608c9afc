"""Bridges of a policy (`bridge`): events moved by the gateway itself, with checkpoints (KM-24)."""
