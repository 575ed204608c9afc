"""Events of topics for many subscriptions: one shared reading, and readings of their own for those behind."""
