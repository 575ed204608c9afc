"""Evaluates predicates for one message at a time, and reads its fields. Pure."""
