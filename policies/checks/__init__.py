"""Checks across the parts of a policy, each of which is valid by itself. Uses `model`, `parts` and the rules."""
