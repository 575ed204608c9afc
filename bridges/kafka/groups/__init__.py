"""Consumer groups of links and durable positions: membership, assignment, ownership, checkpoints (ES 4)."""
