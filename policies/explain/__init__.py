"""What the gateway would answer to a user at an address, and which lines of the policy decide it."""
