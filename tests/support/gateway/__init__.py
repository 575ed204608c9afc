"""Gateways as processes or in the test's process, with helpers that tests need."""
