"""Checks between the parts of a policy that are right by themselves. Uses `model`, `parts` and the rules."""
