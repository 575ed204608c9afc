"""`scopegate subscriptions`: a client of a running gateway's API, and a subscription tried on a topic's events."""
