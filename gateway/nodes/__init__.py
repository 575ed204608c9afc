"""Nodes at addresses, and the resolver that finds them for a user."""
