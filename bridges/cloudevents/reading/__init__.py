"""Reads topics for many subscriptions; those that read the same batch share its evaluation."""
