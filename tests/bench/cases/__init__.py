"""The cases: each measures both sides and returns its figures."""
