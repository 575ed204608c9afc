"""Explanations: the gateway's answer to a user at an address, and the lines of the policy that decide it."""
