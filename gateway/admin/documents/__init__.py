"""What runs in a gateway as JSON documents; pure functions."""
