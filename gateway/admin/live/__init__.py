"""What changes while somebody watches: rates of messages, and a stream of changes. Costs nothing while nobody does."""
