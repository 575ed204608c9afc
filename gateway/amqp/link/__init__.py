"""Links: attach, credit, transfers, outcomes and detach (part 2, 2.6)."""
