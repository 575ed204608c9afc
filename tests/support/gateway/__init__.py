"""Gateways as processes or in the test's process, with what tests ask of them."""
