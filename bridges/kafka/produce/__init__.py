"""Messages to topics: send links, producers, delivery reports, dead letters."""
