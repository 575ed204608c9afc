"""Coverage-guided fuzzing (docs/decisions/0020-fuzzing.md): targets, the corpus that is kept, and what runs them."""
