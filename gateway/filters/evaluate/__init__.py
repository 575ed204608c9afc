"""Predicates against one message at a time, and the access to its fields. Pure."""
