"""Records, events and other material of CloudEvents subscriptions."""
