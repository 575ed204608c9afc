"""The direct node: senders and receivers meet, and nothing is stored."""
