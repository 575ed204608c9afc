"""Checks between the parts of a policy that are right by themselves. Uses `policies.model` and the compiled rules."""
