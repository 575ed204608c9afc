"""Archived events, sent again in order."""
