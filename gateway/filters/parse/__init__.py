"""Parses filters to predicates: SQL, JMS selectors, property filters, event-stream filters, filter sets. Pure."""
