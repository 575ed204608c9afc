"""Random filters and messages, and a naive evaluator to compare with."""
