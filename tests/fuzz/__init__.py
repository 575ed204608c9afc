"""Coverage-guided fuzzing (docs/decisions/0020-sanitizers-and-fuzzing.md): targets, their corpus, and the runner."""
