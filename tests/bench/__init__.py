"""Speed and memory against baselines: `python -m tests.bench` (docs/benchmarks.md)."""
