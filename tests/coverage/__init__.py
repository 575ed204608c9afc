"""Which lines of the product a run of the suite reaches, those in C included (docs/decisions/0019-coverage.md)."""
