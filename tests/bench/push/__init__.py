"""Events of subscriptions pushed to sinks, and the API of subscriptions."""
